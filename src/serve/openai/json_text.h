#pragma once

// JSON as the endpoints read and write it.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "serve/openai/api_error.h"

namespace soli::openai {

using Json = nlohmann::ordered_json;

/// What a body may cost before anything is made of it.
struct JsonLimits {
  size_t bytes = size_t{16} << 20;
  int depth = 64;             // arrays and objects within one another
  size_t values = 1'000'000;  // of all kinds, together
  size_t members = 4096;      // of one object
  size_t key_bytes = 1024;    // of a member's name
};

/// The object in a body. Fails with 400 (413 for too many bytes) for what is no JSON, no object, goes beyond
/// a limit, has a member twice, a number that no double holds, or bytes that are not UTF-8; nothing is built
/// beyond the limits. Time is linear in the bytes.
ApiResult<Json> read_object(std::string_view body, const JsonLimits& limits);

/// One line. Bytes that are not UTF-8 become U+FFFD.
std::string to_text(const Json& json);

}  // namespace soli::openai
