// The activation report of requests that a real engine ran.

#include <gtest/gtest.h>

#include "observe/activation_report.h"
#include "observe/routing_json.h"
#include "support/loaded_engine.h"
#include "support/recount.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

/// Runs two requests in one batch and returns what was recorded of each.
std::vector<RequestChoices> record_two(LoadedEngine& loaded, ActivationRecorder& recorder) {
  EXPECT_TRUE(loaded.restart({.chunk_rows = 3, .max_logit_rows = 3, .hooks = {.observer = &recorder}}));
  std::vector<std::shared_ptr<Stream>> streams;
  for (const std::vector<int32_t>& prompt :
       {std::vector<int32_t>{5, 6, 7, 8, 9}, std::vector<int32_t>{20, 30}}) {
    streams.push_back(
        loaded.engine->submit({.prompt = prompt, .max_new_tokens = 12, .sampling = {.temperature = 0}})
            .value());
  }
  while (loaded.engine->step()) {
  }
  return {recorder.choices_of(streams[0]->id()), recorder.choices_of(streams[1]->id())};
}

TEST(Activation, OfEveryMoeGoldenModelEqualsTheRecount) {
  const TemporaryFolder folder;
  for (const char* name : {"olmoe", "mixtral", "qwen2moe", "qwen3moe", "deepseek2-lite", "deepseek2-v3",
                           "gpt-oss", "glm4moe", "phimoe"}) {
    const std::string path = GoldenCase(name).model_path();
    auto loaded = LoadedEngine::create(path, {.n_threads = 2});
    ASSERT_TRUE(loaded) << loaded.error().message;
    ActivationRecorder recorder;
    const std::vector<RequestChoices> choices = record_two(*loaded, recorder);
    const ModelSpec& spec = loaded->model->spec();
    const ParameterCounts counts = count_parameters(ModelFile::open(path).value());
    for (const int64_t n_prompt : {5, 2}) {
      const RequestChoices& recorded = choices[n_prompt == 5 ? 0 : 1];
      const ActivationReport report = make_report(recorded, spec, counts, n_prompt);
      EXPECT_EQ(report.prompt.n_tokens, n_prompt);
      EXPECT_EQ(report.generated.n_tokens, 11);  // the last token of an answer is not processed
      EXPECT_EQ(report.n_incomplete + report.n_dropped, 0);
      // The experts of these models are equal, so every token is as active as the model's k says.
      EXPECT_EQ(report.all.active_parameters.min, counts.active_with_k(spec).parameters) << name;
      EXPECT_EQ(report.all.active_parameters.max, counts.active_with_k(spec).parameters) << name;
      EXPECT_LE(report.all.effective_experts.max, static_cast<double>(spec.router.experts_per_token) + 1e-9);
      ASSERT_TRUE(write_routing_json(folder / "routing.json", recorded, spec, counts, n_prompt, report));
      EXPECT_EQ(recount(folder / "routing.json"), 0) << name;
    }
  }
}

}  // namespace
}  // namespace soli
