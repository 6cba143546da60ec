#include "cli/open_tokenizer.h"

#include <filesystem>

#include "format/gguf.h"

namespace soli::cli {

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  if (folder && !fs::exists(path + "/tokenizer.json", ignored)) {
    return fail(
        ErrorKind::kNotFound,
        "{}: is a directory without a tokenizer.json; allowed are a GGUF file, a tokenizer.json and a "
        "directory with one",
        path);
  }
  if (folder || path.ends_with(".json")) return Tokenizer::from_hugging_face(path);
  SOLI_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(path));
  return Tokenizer::from_gguf(file);
}

}  // namespace soli::cli
