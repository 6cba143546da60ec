#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "io/file_writer.h"
#include "observe/diagnosis_page.h"
#include "observe/diagnosis_report.h"
#include "observe/html_text.h"

namespace soli {
namespace {

/// Keeps the first error of a file that is written piece by piece.
class PageWriter {
 public:
  explicit PageWriter(FileWriter file) : file_(std::move(file)) {}
  void write(std::string_view text) {
    if (status_) status_ = file_.append(std::as_bytes(std::span(text)));
  }
  /// JSON in a script element.
  void write_data(std::string_view json) { write(json_in_html(json)); }
  Status finish() && {
    SOLI_RETURN_IF_ERROR(status_);
    return file_.commit();
  }

 private:
  FileWriter file_;
  Status status_;
};

std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// [kind, expert, weight, |c|/|r|, active, [[token, probability], ...]]. The weight in full: the page looks
/// for the largest. What is not finite never comes here: the engine fails such requests.
std::string call_data(const DiagnosisReport& report, int64_t number) {
  const FfnCall& call = report.tokens.calls[static_cast<size_t>(number)];
  std::string text = fmt::format("[{},{},{},{:.3g},{:.3g},[", static_cast<int>(call.kind), call.expert,
                                 call.weight, call.residual_ratio, call.active_share);
  const auto said = report.tokens.said_by(number);
  for (size_t i = 0; i < said.size(); ++i)
    fmt::format_to(std::back_inserter(text), "{}[{},{:.3g}]", i > 0 ? "," : "", said[i].token,
                   said[i].probability);
  return text + "]]";
}

/// The layers of one token: [[|r|, added, [calls]], ...].
std::string path_data(const DiagnosisReport& report, int64_t position) {
  std::string text = "[";
  for (int64_t layer = 0; layer < report.n_layers(); ++layer) {
    const LayerPath& path = report.tokens.path(position, layer);
    fmt::format_to(std::back_inserter(text), "{}[{:.3g},{:.3g},[", layer > 0 ? "," : "", path.residual_norm,
                   path.added_ratio);
    for (int64_t i = 0; i < path.n_calls; ++i) {
      if (i > 0) text += ',';
      text += call_data(report, path.first_call + i);
    }
    text += "]]";
  }
  return text + "]";
}

std::string summary_of(const DiagnosisReport& report) {
  std::string text = fmt::format("{} tokens of the text, {} generated", report.n_prompt,
                                 report.tokens.n_tokens() - report.n_prompt);
  if (report.is_cut()) text += fmt::format("; the text has {} tokens and was cut", report.n_given);
  text += fmt::format(". {} layers", report.n_layers());
  if (report.n_experts > 0)
    text += fmt::format(", {} experts in a layer, {} per token", report.n_experts, report.experts_per_token);
  return text +
         ". |r|: length of the residual stream before the feed-forward. added: length of all that the "
         "feed-forwards of the layer add, as a share of |r|. |c|/|r|: the same of one expert\u2019s weighted "
         "output. active: share of its inner units. says: what its output alone would say (logit lens).";
}

nlohmann::json small_data(const DiagnosisReport& report, int64_t layer) {
  nlohmann::json json = {{"summary", summary_of(report)},        {"layer", layer},
                         {"threshold", report.active_threshold}, {"moe", nlohmann::json::array()},
                         {"colours", nlohmann::json::array()},   {"tokens", nlohmann::json::array()},
                         {"changes", nlohmann::json::array()},   {"used", nlohmann::json::array()},
                         {"names", nlohmann::json::object()}};
  for (size_t l = 0; l < report.has_experts.size(); ++l) {
    if (report.has_experts[l]) json["moe"].push_back(l);
  }
  for (const NamedColour& colour : kDiagnosisColours)
    json["colours"].push_back({colour.html, colour.is_dark ? 1 : 0});
  for (int64_t position = 0; position < report.tokens.n_tokens(); ++position) {
    json["tokens"].push_back({report.texts[static_cast<size_t>(position)], position < report.n_prompt ? 0 : 1,
                              report.segment_of(position)});
  }
  for (const ChangePoint& change : report.changes) {
    json["changes"].push_back({change.at, fmt::format("{:.3f}", change.divergence_bits),
                               fmt::format("{:.3f}", change.permuted_bits), change.p});
  }
  for (const UsedFfn& ffn : report.tokens.used) {
    json["used"].push_back({ffn.layer, static_cast<int>(ffn.kind), ffn.expert, ffn.n_calls, ffn.active_share,
                            ffn.n_units, ffn.n_dead});
  }
  for (const auto& [token, name] : report.names) json["names"][std::to_string(token)] = name;
  return json;
}

void write_page_data(const DiagnosisReport& report, int64_t layer, PageWriter& page) {
  std::string head = json_text(small_data(report, layer));
  head.pop_back();  // the object goes on
  page.write_data(head + ",\n\"paths\":[");
  for (int64_t position = 0; position < report.tokens.n_tokens(); ++position) {
    page.write_data(position > 0 ? ",\n" : "\n");
    page.write_data(path_data(report, position));
  }
  page.write_data("]}");
}

}  // namespace

Status write_html(const DiagnosisReport& report, int64_t layer, const std::string& path) {
  SOLI_ASSIGN_OR_RETURN(FileWriter file, FileWriter::create(path));
  PageWriter page(std::move(file));
  page.write(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n");
  page.write(
      fmt::format("<title>Diagnosis: {}</title>\n<style>{}</style>\n</head>\n<body>\n<h1>Diagnosis: "
                  "{}</h1>",
                  html_text(report.model), kDiagnosisStyle, html_text(report.model)));
  page.write(kDiagnosisBody);
  page.write("<script type=\"application/json\" id=\"data\">");
  write_page_data(report, layer, page);
  page.write(fmt::format("</script>\n<script>{}</script>\n</body>\n</html>\n", kDiagnosisScript));
  return std::move(page).finish();
}

}  // namespace soli
