#include "cli/eval_texts.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cli/text_input.h"

namespace soli::cli {
namespace {

constexpr size_t kMaxEvalTexts = 256;
constexpr int64_t kMinWindow = 2;  // a token, and one before it or BOS

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

Result<int64_t> window_length(const EvalOptions& options, const Session& session) {
  const int64_t window = options.window > 0 ? options.window : session.context_length();
  if (window < kMinWindow) {
    return fail(ErrorKind::kInvalidArgument,
                "a window of {} position scores nothing: at least {} are needed (--window, -c)", window,
                kMinWindow);
  }
  if (window > session.context_length()) {
    return fail(ErrorKind::kInvalidArgument, "--window {}: the context has room for {}", window,
                session.context_length());
  }
  return window;
}

Status load_for(const std::vector<EvalText>& texts, int64_t window, const EvalOptions& options,
                EngineOptions engine, Session& session) {
  engine.max_sequences = options.n_parallel;
  int64_t n_together = 0;
  for (const EvalText& text : texts)
    n_together = std::max(n_together, static_cast<int64_t>(text.plan.windows.size()));
  n_together = std::min(n_together, options.n_parallel);
  return session.load(engine, n_together * KvPageTable::pages_for(window) * kKvPagePositions);
}

}  // namespace soli::cli
