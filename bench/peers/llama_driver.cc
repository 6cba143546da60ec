// Measures llama.cpp as `soli bench --json` measures soli, and prints the same JSON. It does what llama-bench
// and llama-batched-bench do: random tokens, a prompt in one call with logits for its last token, then
// generation with one token of each sequence per call; a pool of threads that lives as long as the process.
//
// Built by build.sh against the libraries that fetch.sh fetches.

#include <dlfcn.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <llama.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Json = nlohmann::ordered_json;

// Experts are many and each is read through the page cache at first: a prompt of this many tokens touches
// nearly all of them, so that no measured step waits for a page.
constexpr int kWarmUpTokens = 128;
constexpr int kWarmUpSteps = 2;
constexpr int kDecodePromptTokens = 16;  // before the first step of each sequence, as soli bench has it
constexpr int kBatchTokens = 512;        // the default of llama.cpp's physical batch

struct Options {
  std::string model;
  int threads = 0;  // 0: one per core
  std::vector<int> prompts = {64, 512};
  int generate = 64;
  std::vector<int> sequences = {1};
  int repetitions = 1;
  bool repack = true;
  llama_flash_attn_type flash = LLAMA_FLASH_ATTN_TYPE_AUTO;
  int poll = 50;  // of llama-bench
  bool verbose = false;
  std::vector<int> token_ids;  // with --logits
  std::string logits;          // a file to write; empty: measure
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The name of the file that holds a loaded function.
std::string library_of(const void* function) {
  Dl_info info;
  if (dladdr(function, &info) == 0) throw std::runtime_error("a function of llama.cpp lies in no library");
  return std::filesystem::path(info.dli_fname).filename().string();
}

/// "v0.5.0" of "libllama.v0.5.0.so".
std::string release_of(const std::string& library) {
  const size_t begin = library.find('.') + 1;
  const size_t end = library.rfind(".so");
  return begin < end ? library.substr(begin, end - begin) : library;
}

/// The CPU backend that rates itself best on this machine, and a pool of threads made by it.
class CpuBackend {
 public:
  CpuBackend(const std::string& folder, int n_threads, int poll) {
    ggml_backend_load_all_from_path(folder.c_str());
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (device == nullptr) throw std::runtime_error("no CPU backend in " + folder);
    ggml_backend_reg_t backend = ggml_backend_dev_backend_reg(device);
    // They live in the backend, which is not known before it is loaded.
    const auto function = [&](const char* name) { return ggml_backend_reg_get_proc_address(backend, name); };
    auto* const make_pool = reinterpret_cast<decltype(&ggml_threadpool_new)>(function("ggml_threadpool_new"));
    free_pool_ = reinterpret_cast<decltype(&ggml_threadpool_free)>(function("ggml_threadpool_free"));
    name_ = library_of(reinterpret_cast<const void*>(make_pool));
    ggml_threadpool_params params = ggml_threadpool_params_default(n_threads);
    params.poll = static_cast<uint32_t>(poll);
    pool_ = make_pool(&params);
    if (pool_ == nullptr) throw std::runtime_error("the threads cannot be started");
  }
  ~CpuBackend() { free_pool_(pool_); }
  CpuBackend(const CpuBackend&) = delete;
  CpuBackend& operator=(const CpuBackend&) = delete;

  const std::string& name() const { return name_; }
  ggml_threadpool_t pool() const { return pool_; }

 private:
  std::string name_;
  ggml_threadpool_t pool_ = nullptr;
  decltype(&ggml_threadpool_free) free_pool_ = nullptr;
};

/// A context for `n_sequences` of up to `n_tokens` each.
class Session {
 public:
  Session(llama_model* model, const Options& options, ggml_threadpool_t pool, int n_tokens, int n_sequences)
      : vocab_size_(llama_vocab_n_tokens(llama_model_get_vocab(model))),
        batch_(llama_batch_init(n_tokens * n_sequences, 0, 1)) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<uint32_t>(n_tokens * n_sequences);
    params.n_seq_max = static_cast<uint32_t>(n_sequences);
    params.n_batch =
        static_cast<uint32_t>(std::max({n_tokens, n_sequences * kDecodePromptTokens, kBatchTokens}));
    params.n_ubatch = kBatchTokens;
    params.n_threads = params.n_threads_batch = options.threads;
    params.flash_attn_type = options.flash;
    params.type_k = params.type_v = GGML_TYPE_F16;
    // Sequences share no prefix, so each looks at its own keys only.
    params.kv_unified = false;
    params.no_perf = true;
    context_.reset(llama_init_from_model(model, params));
    if (context_ == nullptr) throw std::runtime_error("no context could be made (see --verbose)");
    llama_attach_threadpool(context_.get(), pool, nullptr);
  }
  ~Session() { llama_batch_free(batch_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Seconds that a prompt of random tokens takes, with logits for its last one.
  double prefill(int n_tokens) {
    clear();
    add_prompt(n_tokens, 0);
    return timed([&] { decode(); });
  }

  /// Seconds that `n_steps` steps take, each with one random token of every sequence, after their prompts.
  double generate(int n_sequences, int n_steps) {
    clear();
    for (int s = 0; s < n_sequences; ++s) add_prompt(kDecodePromptTokens, s);
    decode();
    return timed([&] {
      for (int step = 0; step < n_steps; ++step) {
        batch_.n_tokens = 0;
        for (int s = 0; s < n_sequences; ++s) add_token(kDecodePromptTokens + step, s, true);
        decode();
      }
    });
  }

 private:
  struct FreeContext {
    void operator()(llama_context* context) const { llama_free(context); }
  };

  void clear() {
    llama_memory_clear(llama_get_memory(context_.get()), false);
    batch_.n_tokens = 0;
  }

  void add_prompt(int n_tokens, int sequence) {
    for (int i = 0; i < n_tokens; ++i) add_token(i, sequence, i == n_tokens - 1);
  }

  void add_token(int position, int sequence, bool wants_logits) {
    const int i = batch_.n_tokens++;
    batch_.token[i] = static_cast<llama_token>(random_() % static_cast<uint32_t>(vocab_size_));
    batch_.pos[i] = position;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = sequence;
    batch_.logits[i] = wants_logits;
  }

  void decode() {
    const int status = llama_decode(context_.get(), batch_);
    if (status != 0) throw std::runtime_error("llama_decode returned " + std::to_string(status));
    llama_synchronize(context_.get());
  }

  template <typename Work>
  static double timed(Work&& work) {
    const double begin = seconds_now();
    work();
    return seconds_now() - begin;
  }

  int vocab_size_;
  llama_batch batch_;
  std::unique_ptr<llama_context, FreeContext> context_;
  std::mt19937 random_{1};
};

Json spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {{"median", median}, {"min", values.front()}, {"max", values.back()}};
}

Json measure_prefill(llama_model* model, const Options& options, ggml_threadpool_t pool) {
  Json results = Json::array();
  for (const int n_tokens : options.prompts) {
    Session session(model, options, pool, std::max(n_tokens, kWarmUpTokens), 1);
    session.prefill(kWarmUpTokens);
    std::vector<double> speeds;
    for (int i = 0; i < options.repetitions; ++i) speeds.push_back(n_tokens / session.prefill(n_tokens));
    results.push_back({{"tokens", n_tokens}, {"tokens_per_s", spread(speeds)}});
  }
  return results;
}

Json measure_decode(llama_model* model, const Options& options, ggml_threadpool_t pool) {
  Json results = Json::array();
  if (options.sequences.empty() || options.generate == 0) return results;
  Session(model, options, pool, kWarmUpTokens, 1).prefill(kWarmUpTokens);
  for (const int n_sequences : options.sequences) {
    const int n_steps = std::max(options.generate, kWarmUpSteps);
    Session session(model, options, pool, kDecodePromptTokens + n_steps, n_sequences);
    session.generate(n_sequences, kWarmUpSteps);
    std::vector<double> tokens;
    std::vector<double> steps;
    for (int i = 0; i < options.repetitions; ++i) {
      steps.push_back(options.generate / session.generate(n_sequences, options.generate));
      tokens.push_back(steps.back() * n_sequences);
    }
    results.push_back({{"sequences", n_sequences},
                       {"prompt", kDecodePromptTokens},
                       {"generate", options.generate},
                       {"tokens_per_s", spread(tokens)},
                       {"steps_per_s", spread(steps)}});
  }
  return results;
}

std::string metadata(const llama_model* model, const char* key) {
  char value[128] = "";
  llama_model_meta_val_str(model, key, value, sizeof(value));
  return value;
}

Json measure(const Options& options, const std::string& folder) {
  const CpuBackend backend(folder, options.threads, options.poll);
  llama_backend_init();
  llama_model_params params = llama_model_default_params();
  params.use_extra_bufts = options.repack;
  const double begin = seconds_now();
  const std::unique_ptr<llama_model, decltype(&llama_model_free)> model(
      llama_model_load_from_file(options.model.c_str(), params), llama_model_free);
  if (model == nullptr) throw std::runtime_error(options.model + ": llama.cpp cannot load it");
  const double load_s = seconds_now() - begin;
  Json result = {
      {"engine", "llama.cpp " + release_of(library_of(reinterpret_cast<const void*>(&llama_backend_init)))},
      {"backend", backend.name()},
      {"repack", options.repack},
      {"flash_attention", llama_flash_attn_type_name(options.flash)},
      {"model", options.model},
      {"architecture", metadata(model.get(), "general.architecture")},
      {"file_bytes", std::filesystem::file_size(options.model)},
      {"threads", options.threads},
      {"kv", "f16"},
      {"repetitions", options.repetitions},
      {"load_s", load_s}};
  result["prefill"] = measure_prefill(model.get(), options, backend.pool());
  result["decode"] = measure_decode(model.get(), options, backend.pool());
  return result;
}

/// Writes the logits after every token, f32 [tokens][vocabulary]: floats throughout, as `soli logits` writes
/// them with --act f32 --kv f32.
void write_logits(const Options& options, const std::string& folder) {
  const CpuBackend backend(folder, options.threads, options.poll);
  llama_backend_init();
  llama_model_params model_params = llama_model_default_params();
  model_params.use_extra_bufts = false;
  const std::unique_ptr<llama_model, decltype(&llama_model_free)> model(
      llama_model_load_from_file(options.model.c_str(), model_params), llama_model_free);
  if (model == nullptr) throw std::runtime_error(options.model + ": llama.cpp cannot load it");
  const auto n_tokens = static_cast<uint32_t>(options.token_ids.size());
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = std::max(n_tokens, 256U);
  params.n_threads = params.n_threads_batch = options.threads;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = params.type_v = GGML_TYPE_F32;
  const std::unique_ptr<llama_context, decltype(&llama_free)> context(
      llama_init_from_model(model.get(), params), llama_free);
  if (context == nullptr) throw std::runtime_error("no context could be made (see --verbose)");
  llama_batch batch = llama_batch_init(static_cast<int32_t>(n_tokens), 0, 1);
  for (const int token : options.token_ids) {
    const int i = batch.n_tokens++;
    batch.token[i] = token;
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  const int status = llama_decode(context.get(), batch);
  llama_batch_free(batch);
  if (status != 0) throw std::runtime_error("llama_decode returned " + std::to_string(status));
  const auto vocab_size = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model.get())));
  std::ofstream out(options.logits, std::ios::binary);
  for (uint32_t i = 0; i < n_tokens; ++i) {
    out.write(reinterpret_cast<const char*>(llama_get_logits_ith(context.get(), static_cast<int32_t>(i))),
              static_cast<std::streamsize>(vocab_size * sizeof(float)));
  }
  if (!out.flush()) throw std::runtime_error(options.logits + " cannot be written");
}

void log_errors(ggml_log_level level, const char* text, void* verbose) {
  if (level >= GGML_LOG_LEVEL_ERROR || *static_cast<bool*>(verbose)) std::fputs(text, stderr);
}

void add_options(CLI::App& app, Options& options) {
  const std::map<std::string, bool> on_off = {{"off", false}, {"on", true}};
  const std::map<std::string, llama_flash_attn_type> flash = {{"auto", LLAMA_FLASH_ATTN_TYPE_AUTO},
                                                              {"off", LLAMA_FLASH_ATTN_TYPE_DISABLED},
                                                              {"on", LLAMA_FLASH_ATTN_TYPE_ENABLED}};
  app.add_option("model", options.model, "A GGUF file")->required()->check(CLI::ExistingFile);
  app.add_option("-t,--threads", options.threads, "Threads; 0: one per core")->check(CLI::Range(0, 512));
  app.add_option("--prompt", options.prompts, "Lengths of prompts, such as 64,512; 0: none")->delimiter(',');
  app.add_option("--generate", options.generate, "Steps of generation; 0: none")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--sequences", options.sequences, "Sequences per step, such as 1,8,32")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));  // what llama.cpp was built for
  app.add_option("--repetitions", options.repetitions, "Measurements of each")->check(CLI::Range(1, 1000));
  app.add_option("--repack", options.repack, "Keep weights in the layout of the CPU: a second copy")
      ->transform(CLI::CheckedTransformer(on_off));
  app.add_option("--flash", options.flash, "Flash attention")->transform(CLI::CheckedTransformer(flash));
  app.add_option("--poll", options.poll, "How eagerly threads wait, in percent")->check(CLI::Range(0, 100));
  CLI::Option* const ids =
      app.add_option("--token-ids", options.token_ids, "Token ids whose logits are wanted")->delimiter(',');
  CLI::Option* const logits =
      app.add_option("--logits", options.logits,
                     "Write the logits after every one of --token-ids there, and measure nothing");
  ids->needs(logits);
  logits->needs(ids);
  app.add_flag("--verbose", options.verbose, "Show what llama.cpp logs");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures llama.cpp as `soli bench` measures soli; prints JSON");
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  if (options.threads == 0) options.threads = static_cast<int>(std::thread::hardware_concurrency());
  std::erase(options.prompts, 0);
  llama_log_set(log_errors, &options.verbose);
  try {
    const std::filesystem::path program = std::filesystem::canonical("/proc/self/exe");
    const std::string folder = program.parent_path() / "llama.cpp" / "lib";
    if (options.logits.empty()) {
      std::cout << measure(options, folder).dump(2) << "\n";
    } else {
      write_logits(options, folder);
    }
  } catch (const std::exception& error) {
    std::cerr << "llama_driver: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
