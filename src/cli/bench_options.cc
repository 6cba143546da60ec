#include "cli/bench_options.h"

#include "cli/flags.h"
#include "model/model_file.h"

namespace soli::cli {

namespace {

void add_sweep_options(CLI::App& app, BenchOptions& options, const std::vector<CLI::Option*>& others) {
  CLI::Option* const sweep = app.add_flag("--memory-sweep", options.sweep,
                                          "Measure instead tokens/s, hits and bytes read with memory for few "
                                          "to all experts, under each policy or the "
                                          "one of --cache-policy");
  for (CLI::Option* const other : others) sweep->excludes(other);
  CLI::Option* const text =
      add_path(app, "--text", options.text, "Its beginning is the prompt; else random tokens");
  text->needs(sweep);
  add_path(app, "--replay", options.replay,
           "Replay turns that run --access-trace has recorded, or a trace of --trace, of which only hits can "
           "be told")
      ->needs(sweep)
      ->excludes(text)
      ->excludes(app.get_option("--trace"));
  add_path(app, "--svg", options.svg, "Draw the figures into a file")->needs(sweep);
}

}  // namespace

void add_bench_options(CLI::App& app, BenchOptions& options) {
  add_model_options(app, options.model);
  CLI::Option* const prompt = add_integers(app, "--prompt", options.prompts, {1, kMaxContextLength},
                                           "Prefill: lengths of prompts, in tokens");
  prompt->each([&](const std::string&) { options.prompts_given = true; });
  CLI::Option* const generate =
      add_integer(app, "--generate", options.generate, {1, kMaxContextLength}, "Decode: steps");
  CLI::Option* const sequences = add_integers(app, "--sequences", options.sequences, {1, 65'536},
                                              "Decode: how many sequences share a step");
  sequences->each([&](const std::string&) { options.sequences_given = true; });
  CLI::Option* const repetitions =
      add_integer(app, "--repetitions", options.repetitions, {1, 10'000},
                  "How often everything is measured; median, least and most are shown");
  CLI::Option* const probe =
      app.add_flag("--probe", options.probe, "Measure the machine too, and where the time of a step goes");
  add_number(app, "--seconds", options.ceiling_seconds, {0.001, 60},
             "How long each figure of the machine is measured, before and after the work")
      ->needs(probe);
  CLI::Option* const watching =
      app.add_flag("--watching", options.watching, "Measure instead what it costs to watch the experts");
  for (CLI::Option* const other : {prompt, generate, sequences, repetitions, probe})
    watching->excludes(other);
  add_choice<Watcher>(
      app, "--watcher", options.watcher, {{"recorder", Watcher::kRecorder}, {"meter", Watcher::kMeter}},
      "Who watches: the recorder of the router's choices (run --routing), or the meter of the "
      "experts' calls and time (serve --expert-metrics)")
      ->needs(watching);
  add_integer(app, "--pairs", options.pairs, {2, 100'000},
              "How often 32 tokens with the watcher are held against 32 without it")
      ->needs(watching);
  add_sweep_options(app, options, {prompt, sequences, repetitions, probe, watching});
  app.add_flag("--json", options.json, "Print one JSON object");
}

}  // namespace soli::cli
