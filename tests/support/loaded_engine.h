#pragma once

// A model with its engine, for tests, and the golden cases as C++.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/engine.h"
#include "experts/local_executor.h"
#include "experts/resident_store.h"
#include "experts/router_predictor.h"
#include "experts/tiered_store.h"
#include "model/model.h"
#include "ops/runtime.h"

namespace soli {

struct LoadedEngine {
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Model> model;
  std::unique_ptr<ExpertStore> store;
  TieredExpertStore* tiered = nullptr;  // the store, where not all experts are in memory
  std::unique_ptr<RouterPredictor> predictor;
  std::unique_ptr<LocalExecutor> executor;
  std::unique_ptr<Engine> engine;

  static Result<LoadedEngine> create(const std::string& path, const Runtime::Options& runtime_options = {},
                                     const EngineOptions& options = {}) {
    LoadedEngine loaded;
    SOLI_RETURN_IF_ERROR(loaded.load_model(path, runtime_options));
    SOLI_ASSIGN_OR_RETURN(loaded.store, ResidentExpertStore::load(loaded.model->file(), *loaded.runtime, {}));
    SOLI_RETURN_IF_ERROR(loaded.restart(options));
    return loaded;
  }

  /// With some experts in memory; `n_ahead` layers are predicted, 0: none.
  static Result<LoadedEngine> create_tiered(const std::string& path, const Runtime::Options& runtime_options,
                                            const EngineOptions& options,
                                            const TieredExpertStore::Options& tiers, int64_t n_ahead = 1) {
    LoadedEngine loaded;
    SOLI_RETURN_IF_ERROR(loaded.load_model(path, runtime_options));
    SOLI_ASSIGN_OR_RETURN(auto store,
                          TieredExpertStore::create(loaded.model->file(), *loaded.runtime, tiers));
    loaded.tiered = store.get();
    loaded.store = std::move(store);
    SOLI_RETURN_IF_ERROR(loaded.restart(options));
    if (n_ahead == 0) return loaded;
    SOLI_ASSIGN_OR_RETURN(loaded.predictor,
                          RouterPredictor::create(*loaded.model, *loaded.tiered, options.activations,
                                                  options.workspace_limits(), n_ahead));
    loaded.executor->set_observer(loaded.predictor.get());
    return loaded;
  }

  Status load_model(const std::string& path, const Runtime::Options& runtime_options) {
    SOLI_ASSIGN_OR_RETURN(runtime, Runtime::create(runtime_options));
    SOLI_ASSIGN_OR_RETURN(ModelFile file, ModelFile::open(path));
    SOLI_ASSIGN_OR_RETURN(model, Model::load(std::move(file), *runtime, {}));
    return {};
  }

  /// A new engine on the same weights.
  Status restart(const EngineOptions& options) {
    engine.reset();
    SOLI_ASSIGN_OR_RETURN(LocalExecutor local, LocalExecutor::create(model->spec(), *store, runtime->budget(),
                                                                     options.workspace_limits()));
    executor = std::make_unique<LocalExecutor>(std::move(local));
    SOLI_ASSIGN_OR_RETURN(engine, Engine::create(*model, *executor, options));
    return {};
  }
};

/// Everything that a request led to.
struct Answer {
  std::vector<int32_t> tokens;  // generated
  std::vector<std::vector<float>>
      logits;                           // of prompt tokens, then those that generated tokens were drawn from
  std::vector<double> prompt_logprobs;  // from the second prompt token on
  FinishReason reason = FinishReason::kCancelled;
  std::optional<Error> error;
};

/// Takes what a stream holds; true when it has ended.
inline bool drain(Stream& stream, Answer& answer) {
  while (auto event = stream.try_pop()) {
    if (event->kind == StreamEvent::Kind::kFinished) {
      answer.reason = event->reason;
      answer.error = event->error;
      return true;
    }
    if (event->kind == StreamEvent::Kind::kToken) answer.tokens.push_back(event->token);
    if (event->logprob && event->kind == StreamEvent::Kind::kPromptToken) {
      answer.prompt_logprobs.push_back(*event->logprob);
    }
    if (!event->logits.empty()) answer.logits.push_back(std::move(event->logits));
  }
  return false;
}

/// Runs requests together, in one engine, to their ends.
inline std::vector<Answer> run_together(Engine& engine, const std::vector<Request>& requests) {
  std::vector<std::shared_ptr<Stream>> streams;
  for (const Request& request : requests) streams.push_back(engine.submit(request).value());
  std::vector<Answer> answers(requests.size());
  std::vector<bool> ended(requests.size(), false);
  size_t n_ended = 0;
  while (n_ended < requests.size()) {
    engine.step();
    for (size_t i = 0; i < requests.size(); ++i) {
      if (ended[i] || !drain(*streams[i], answers[i])) continue;
      ended[i] = true;
      ++n_ended;
    }
  }
  return answers;
}

/// A greedy request that delivers the logits of every position.
inline Request greedy_with_logits(std::vector<int32_t> prompt, int64_t max_new_tokens) {
  return {.prompt = std::move(prompt),
          .max_new_tokens = max_new_tokens,
          .sampling = {.temperature = 0},
          .prompt_detail = Detail::kLogits,
          .generated_detail = Detail::kLogits};
}

inline std::vector<int32_t> random_prompt(uint64_t seed, size_t n, int64_t vocab_size) {
  Rng rng(seed);
  std::vector<int32_t> prompt(n);
  for (int32_t& token : prompt)
    token = static_cast<int32_t>(rng.next_below(static_cast<uint64_t>(vocab_size)));
  return prompt;
}

/// Eight prompts of different lengths, some longer than a KV page.
inline std::vector<Request> eight_requests(int64_t vocab_size) {
  std::vector<Request> requests;
  for (const size_t n : {1, 2, 7, 16, 33, 64, 65, 90}) {
    requests.push_back(greedy_with_logits(random_prompt(n, n, vocab_size), 6));
  }
  return requests;
}

inline bool same_bits(const Answer& a, const Answer& b) {
  if (a.tokens != b.tokens || a.logits.size() != b.logits.size()) return false;
  for (size_t i = 0; i < a.logits.size(); ++i) {
    if (a.logits[i].size() != b.logits[i].size()) return false;
    if (std::memcmp(a.logits[i].data(), b.logits[i].data(), a.logits[i].size() * sizeof(float)) != 0)
      return false;
  }
  return true;
}

template <typename T>
std::vector<T> read_binary(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<T> values(bytes.size() / sizeof(T));
  std::copy_n(bytes.data(), values.size() * sizeof(T), reinterpret_cast<char*>(values.data()));
  return values;
}

inline std::string golden_folder() { return std::string(SOLI_TEST_DATA) + "/golden/"; }

/// One case of tests/golden.
struct GoldenCase {
  std::string folder;
  nlohmann::json json;

  explicit GoldenCase(const std::string& name) : folder(golden_folder() + name + "/") {
    json = nlohmann::json::parse(std::ifstream(folder + "case.json"));
  }
  std::string model_path() const { return folder + json["model_files"][0].get<std::string>(); }
  bool is_quantised() const { return json["kind"] == "quant"; }
};

/// All cases that lie in tests/golden.
inline std::vector<std::string> golden_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder())) {
    if (std::filesystem::exists(entry.path() / "case.json")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace soli
