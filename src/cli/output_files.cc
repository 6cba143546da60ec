#include "cli/output_files.h"

#include <filesystem>
#include <system_error>

#include "io/file_writer.h"

namespace soli::cli {
namespace {

/// Also of files that are not there yet, by their paths.
bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code unknown;  // then they are two
  if (std::filesystem::equivalent(a, b, unknown)) return true;
  const std::filesystem::path path_a = std::filesystem::weakly_canonical(a, unknown);
  return !unknown && path_a == std::filesystem::weakly_canonical(b, unknown) && !unknown;
}

Status check_is_not(const NamedFile& output, const GgufFile& model, const char* what) {
  if (!model.has_file(output.path)) return {};
  return fail(ErrorKind::kInvalidArgument, "{} {}: it is {}, and would be written over", output.option,
              output.path, what);
}

Status check_is_not(const NamedFile& output, const NamedFile& other, const char* what) {
  if (other.path.empty() || !is_same_file(output.path, other.path)) return {};
  return fail(ErrorKind::kInvalidArgument, "{} {}: it is what {} {}, and would be written over",
              output.option, output.path, other.option, what);
}

}  // namespace

Status check_output_files(const Session& session, std::vector<NamedFile> outputs,
                          std::vector<NamedFile> inputs) {
  const ModelOptions& options = session.options();
  inputs.push_back({"--policy", options.policy.file});
  outputs.push_back({"--heat", options.memory.heat_file});
  outputs.push_back({"--access-trace", options.memory.trace_file});
  outputs.push_back({"--trace", options.trace.file});
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile& output = outputs[i];
    if (output.path.empty()) continue;
    SOLI_RETURN_IF_ERROR(check_is_not(output, session.file().gguf(), "the model"));
    if (session.twins() != nullptr)
      SOLI_RETURN_IF_ERROR(check_is_not(output, session.twins()->gguf(), "the model of --twin"));
    for (const NamedFile& input : inputs) SOLI_RETURN_IF_ERROR(check_is_not(output, input, "reads"));
    for (size_t j = 0; j < i; ++j) SOLI_RETURN_IF_ERROR(check_is_not(output, outputs[j], "writes"));
    SOLI_RETURN_IF_ERROR(FileWriter::check(output.path));
  }
  return {};
}

}  // namespace soli::cli
