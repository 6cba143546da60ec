#include "cli/eval_texts.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cli/text_input.h"

namespace soli::cli {
namespace {

constexpr size_t kMaxEvalTexts = 256;

Result<WindowPlan> plan_windows(const std::string& path, const EvalOptions& options, Session& session,
                                int64_t window) {
  SOLI_ASSIGN_OR_RETURN(const std::string text, read_text(path, kMaxEvaluatedBytes));
  SOLI_ASSIGN_OR_RETURN(const Tokenizer* const tokenizer, session.tokenizer());
  SOLI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer->encode(text, {.add_special = false}));
  const auto limit = static_cast<size_t>(options.max_tokens);
  if (limit > 0 && tokens.size() > limit) tokens.resize(limit);
  const std::optional<int32_t> bos = tokenizer->adds_bos() ? tokenizer->bos() : std::nullopt;
  WindowPlan plan = cut_into_windows(tokens, bos, window);
  if (plan.n_scored == 0) {
    return fail(ErrorKind::kInvalidArgument, "{}: has {} tokens; at least {} are needed to score one", path,
                tokens.size(), bos ? 1 : 2);
  }
  return plan;
}

Result<std::vector<std::filesystem::path>> texts_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;  // a file that is no more has no kind
    if (entry->path().extension() == ".txt" && entry->is_regular_file(unknown))
      paths.push_back(entry->path());
  }
  if (error) return fail(ErrorKind::kIo, "{}: cannot read the folder: {}", folder, error.message());
  if (paths.empty())
    return fail(ErrorKind::kInvalidArgument, "{}: has no text; each domain is a file NAME.txt", folder);
  if (paths.size() > kMaxEvalTexts) {
    return fail(ErrorKind::kLimit, "{}: has {} texts; {} are allowed", folder, paths.size(), kMaxEvalTexts);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Result<std::vector<EvalText>> read_eval_texts(const EvalOptions& options, Session& session, int64_t window) {
  std::vector<EvalText> texts;
  if (options.folder.empty()) {
    SOLI_ASSIGN_OR_RETURN(WindowPlan plan, plan_windows(options.text_file, options, session, window));
    texts.push_back({options.text_file, std::move(plan)});
    return texts;
  }
  SOLI_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> paths, texts_in(options.folder));
  for (const std::filesystem::path& path : paths) {
    SOLI_ASSIGN_OR_RETURN(WindowPlan plan, plan_windows(path.string(), options, session, window));
    texts.push_back({path.stem().string(), std::move(plan)});
  }
  return texts;
}

}  // namespace soli::cli
