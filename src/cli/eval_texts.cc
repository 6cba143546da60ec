#include "cli/eval_texts.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

#include "base/utf8.h"
#include "cli/output.h"
#include "cli/text_input.h"
#include "format/hf/json.h"

namespace soli::cli {
namespace {

constexpr size_t kMaxEvalTexts = 256;
constexpr int64_t kMinWindow = 2;  // a token, and one before it or BOS

bool is_json_lines(const std::filesystem::path& path) { return path.extension() == ".jsonl"; }

/// The text in one line of JSON lines.
Result<std::string> text_of_line(std::string_view line) {
  SOLI_ASSIGN_OR_RETURN(const hf::JsonFile file, hf::parse_json(line));
  const hf::JsonValue root(file.root, "");
  const auto wrong = [] {
    return fail(ErrorKind::kMalformed, "is no object with a text \"text\" or \"prompt\"");
  };
  if (!root.is_object()) return wrong();
  for (const char* key : {"text", "prompt"}) {
    const std::optional<hf::JsonValue> value = root.find(key);
    if (value && value->is_text()) return value->text();
  }
  return wrong();
}

/// A file is one text, or one for each line.
Result<std::vector<std::string>> texts_of(const std::string& path, std::string content) {
  if (!is_json_lines(path)) return std::vector<std::string>{std::move(content)};
  std::vector<std::string> texts;
  const std::string_view all = content;
  int64_t number = 0;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    const std::string_view line = all.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Result<std::string> text = text_of_line(line);
    if (!text) return in_context(fmt::format("{}:{}", path, number), std::move(text).error());
    texts.push_back(*std::move(text));
  }
  return texts;
}

/// The first tokens of a file that is one text. Only as much of it is read as they need, and so much more
/// that where the reading ends has no part in them.
Result<std::vector<int32_t>> first_tokens(const std::string& path, int64_t n, const Tokenizer& tokenizer) {
  constexpr int64_t kBytesPerToken = 8;
  constexpr int64_t kMoreBytes = 65536;
  constexpr size_t kMoreTokens = 1024;
  const auto wanted = static_cast<size_t>(n);
  for (int64_t bytes = n * kBytesPerToken + kMoreBytes;; bytes *= 4) {
    bytes = std::min(bytes, kMaxEvaluatedBytes);
    SOLI_ASSIGN_OR_RETURN(std::string text, read_beginning(path, bytes));
    const bool is_whole = static_cast<int64_t>(text.size()) < bytes || bytes == kMaxEvaluatedBytes;
    SOLI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer.encode(text, {.add_special = false}));
    if (!is_whole && tokens.size() < wanted + kMoreTokens) continue;
    tokens.resize(std::min(tokens.size(), wanted));
    return tokens;
  }
}

/// A pipe cannot be read twice, and lines of JSON cannot be cut.
bool reads_beginning_only(const std::string& path, int64_t max_tokens) {
  std::error_code unknown;
  return max_tokens > 0 && max_tokens < kMaxEvaluatedBytes && !is_json_lines(path) &&
         std::filesystem::is_regular_file(path, unknown);
}

/// Fails for a plan that scores nothing.
Result<WindowPlan> scored_plan(WindowPlan plan, const std::string& path, size_t n_tokens,
                               const std::optional<int32_t>& bos) {
  if (plan.n_scored > 0) return plan;
  return fail(ErrorKind::kInvalidArgument, "{}: has {} tokens; at least {} are needed to score one", path,
              n_tokens, bos ? 1 : 2);
}

Result<WindowPlan> plan_windows(const std::string& path, const TextSelection& selection, Session& session,
                                int64_t window) {
  SOLI_ASSIGN_OR_RETURN(const Tokenizer* const tokenizer, session.tokenizer());
  const std::optional<int32_t> bos = tokenizer->adds_bos() ? tokenizer->bos() : std::nullopt;
  if (reads_beginning_only(path, selection.max_tokens)) {
    SOLI_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                          first_tokens(path, selection.max_tokens, *tokenizer));
    return scored_plan(cut_into_windows(tokens, bos, window), path, tokens.size(), bos);
  }
  SOLI_ASSIGN_OR_RETURN(std::string content, read_text(path, kMaxEvaluatedBytes));
  SOLI_ASSIGN_OR_RETURN(const std::vector<std::string> texts, texts_of(path, std::move(content)));
  WindowPlan plan;
  size_t n_tokens = 0;
  for (const std::string& text : texts) {
    SOLI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer->encode(text, {.add_special = false}));
    const size_t limit = static_cast<size_t>(selection.max_tokens) - n_tokens;
    if (selection.max_tokens > 0 && tokens.size() > limit) tokens.resize(limit);
    n_tokens += tokens.size();
    WindowPlan part = cut_into_windows(tokens, bos, window);
    plan.n_scored += part.n_scored;
    for (std::vector<int32_t>& cut : part.windows) plan.windows.push_back(std::move(cut));
    if (selection.max_tokens > 0 && n_tokens == static_cast<size_t>(selection.max_tokens)) break;
  }
  return scored_plan(std::move(plan), path, n_tokens, bos);
}

/// Only files are read: to open a pipe may wait forever.
void say_what_is_left_out(std::vector<std::filesystem::path>& paths) {
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths)
    print_note("soli: {} is left out: it is no file, nor a link to one\n", printable(path.string(), 4096));
}

constexpr size_t kMostNameBytes = 200;  // of a file that are shown

Result<std::vector<std::filesystem::path>> texts_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  std::vector<std::filesystem::path> left_out;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;  // a file that is no more has no kind
    const bool is_text = entry->path().extension() == ".txt" || is_json_lines(entry->path());
    if (is_text) (entry->is_regular_file(unknown) ? paths : left_out).push_back(entry->path());
  }
  say_what_is_left_out(left_out);
  if (error) return fail(ErrorKind::kIo, "{}: cannot read the folder: {}", folder, error.message());
  if (paths.empty())
    return fail(ErrorKind::kInvalidArgument, "{}: has no text; each domain is a file NAME.txt or NAME.jsonl",
                folder);
  if (paths.size() > kMaxEvalTexts) {
    return fail(ErrorKind::kLimit, "{}: has {} texts; {} are allowed", folder, paths.size(), kMaxEvalTexts);
  }
  std::sort(paths.begin(), paths.end());
  std::map<std::string, const std::filesystem::path*> by_domain;
  for (const std::filesystem::path& path : paths) {
    const auto [other, is_new] = by_domain.emplace(replace_invalid_utf8(path.stem().string()), &path);
    if (is_new) continue;
    return fail(ErrorKind::kInvalidArgument, "{}: {} and {} are one domain; one file of a name is allowed",
                folder, printable(other->second->filename().string(), kMostNameBytes),
                printable(path.filename().string(), kMostNameBytes));
  }
  return paths;
}

}  // namespace

Result<std::vector<EvalText>> read_eval_texts(const TextSelection& selection, Session& session,
                                              int64_t window) {
  std::vector<EvalText> texts;
  if (selection.folder.empty()) {
    SOLI_ASSIGN_OR_RETURN(WindowPlan plan, plan_windows(selection.file, selection, session, window));
    texts.push_back({selection.file, std::move(plan)});
    return texts;
  }
  SOLI_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> paths, texts_in(selection.folder));
  for (const std::filesystem::path& path : paths) {
    SOLI_ASSIGN_OR_RETURN(WindowPlan plan, plan_windows(path.string(), selection, session, window));
    texts.push_back({path.stem().string(), std::move(plan)});
  }
  return texts;
}

Result<int64_t> window_length(const EvalOptions& options, const Session& session, int64_t usual) {
  const int64_t window = options.window > 0 ? options.window : std::min(usual, session.context_length());
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

Status load_for(const std::vector<EvalText>& texts, int64_t window, int64_t n_parallel, EngineOptions engine,
                Session& session) {
  engine.max_sequences = n_parallel;
  int64_t n_together = 0;
  for (const EvalText& text : texts)
    n_together = std::max(n_together, static_cast<int64_t>(text.plan.windows.size()));
  n_together = std::min(n_together, n_parallel);
  return session.load(engine, n_together * KvPageTable::pages_for(window) * kKvPagePositions);
}

}  // namespace soli::cli
