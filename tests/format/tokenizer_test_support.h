#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "format/gguf.h"
#include "format/tokenizer.h"

namespace soli::tokenizer_test {

/// Ends with an exception, and a failure that says why, where there is none.
inline std::unique_ptr<Tokenizer> make_tokenizer(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::create(std::move(spec));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

/// The golden files of this repository, then those that it may not hold for their licences: the folder that
/// SOLI_GOLDEN_DIR names, or one beside the repository.
inline std::vector<std::string> golden_roots() {
  std::vector<std::string> roots = {std::string(SOLI_TEST_DATA) + "/golden"};
  const char* named = std::getenv("SOLI_GOLDEN_DIR");
  for (const std::string& root :
       {std::string(named == nullptr ? "" : named), std::string(SOLI_SOURCE_DIR) + "/../shared/golden",
        std::string(SOLI_SOURCE_DIR) + "/../../shared/golden"}) {
    if (!root.empty() && std::filesystem::is_directory(root)) roots.push_back(root);
  }
  return roots;
}

/// The first golden file of that name, or "".
inline std::string find_golden(const std::string& name) {
  for (const std::string& root : golden_roots()) {
    if (std::filesystem::exists(root + "/" + name)) return root + "/" + name;
  }
  return "";
}

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(read_text(path)); }

/// The tokenizer of a file, which may be compressed with xz. Null, with a test failure, if there is none.
inline std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path) {
  std::string plain = path;
  if (path.ends_with(".xz")) {
    plain = (std::filesystem::temp_directory_path() / ("soli_vocab_" + std::to_string(::getpid()))).string();
    const std::string command = "xz -dc '" + path + "' > '" + plain + "'";
    if (std::system(command.c_str()) != 0) ADD_FAILURE() << command;
  }
  auto file = GgufFile::open(plain);
  if (plain != path) std::filesystem::remove(plain);
  if (!file) {
    ADD_FAILURE() << path << ": " << file.error().message;
    return nullptr;
  }
  auto tokenizer = Tokenizer::from_gguf(*file);
  if (!tokenizer) {
    ADD_FAILURE() << path << ": " << tokenizer.error().message;
    return nullptr;
  }
  return *std::move(tokenizer);
}

/// The tokenizer of golden vocabulary `name`, or null where it is not on this machine.
inline std::unique_ptr<Tokenizer> golden_tokenizer(const std::string& name) {
  std::string path = find_golden("tokenizers/" + name + "/vocab.gguf.xz");
  if (path.empty()) path = find_golden("extra/tokenizers/" + name + "/vocab.gguf.xz");
  return path.empty() ? nullptr : open_tokenizer(path);
}

inline std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

}  // namespace soli::tokenizer_test
