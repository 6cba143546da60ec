#pragma once

#include <string>
#include <vector>

#include "cli/session.h"

namespace soli::cli {

/// A file as the command line names it.
struct NamedFile {
  const char* option;
  std::string path;  // "": not given
};

/// Before the long work: fails with kInvalidArgument where a file that is to be written is one that the
/// command reads, or another one that it writes, naming both; else as FileWriter::check(). The model, the
/// twins' file, the policy, and what --heat, --access-trace and --trace write are looked at by themselves.
Status check_output_files(const Session& session, std::vector<NamedFile> outputs,
                          std::vector<NamedFile> inputs = {});

}  // namespace soli::cli
