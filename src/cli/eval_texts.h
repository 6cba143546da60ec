#pragma once

#include <string>
#include <vector>

#include "cli/eval_options.h"
#include "cli/perplexity.h"
#include "cli/session.h"

namespace soli::cli {

/// One text that is evaluated, cut into windows.
struct EvalText {
  std::string name;  // the domain: of "prose_en.txt", prose_en; of a single text, its path
  WindowPlan plan;
};

/// The text, or each file NAME.txt or NAME.jsonl of the folder, by name. Of JSON lines, each an object with a
/// text "text" or "prompt", each line is a text of its own, and has windows of its own. What is so named and
/// no file, stderr tells. Fails for a folder without any, two files of one name, a line that is something
/// else, naming it, and for a text in which nothing can be scored.
Result<std::vector<EvalText>> read_eval_texts(const TextSelection& selection, Session& session,
                                              int64_t window);

/// Positions of a window: as the options say, or `usual`, or the context where that is shorter. Fails where
/// one has no room for a scored token, or more than the context.
Result<int64_t> window_length(const EvalOptions& options, const Session& session,
                              int64_t usual = kMaxContextLength);

/// Loads the weights, with room for `n_parallel` windows at once, or as many as a text has.
Status load_for(const std::vector<EvalText>& texts, int64_t window, int64_t n_parallel, EngineOptions engine,
                Session& session);

}  // namespace soli::cli
