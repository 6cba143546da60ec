// Any bytes are either refused with an error or a file whose every tensor lies inside of it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "support/memory_source.h"

namespace {

void check_tensor(const soli::GgufTensor& tensor, int64_t size) {
  SOLI_CHECK(tensor.offset >= 0 && tensor.bytes > 0 && tensor.offset <= size - tensor.bytes, "{}",
             tensor.name);
  SOLI_CHECK(tensor.bytes == tensor.row_bytes() * (tensor.elements() / tensor.dims[0]), "{}", tensor.name);
}

void read_as_everything(const soli::GgufMetadata& metadata, const std::string& key) {
  (void)metadata.get_uint(key);
  (void)metadata.get_float(key);
  (void)metadata.get_bool(key);
  (void)metadata.get_string(key);
  (void)metadata.get_ints(key);
  (void)metadata.get_floats(key);
  (void)metadata.get_bools(key);
  if (const auto strings = metadata.get_strings(key)) {
    size_t bytes = 0;
    for (const std::string_view text : *strings) bytes += text.size();
    SOLI_CHECK(bytes == metadata.find(key)->bytes.size(), "{}", key);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  soli::GgufAllowance allowance;
  const auto shard = soli::parse_gguf(soli::MemorySource(bytes), "fuzz.gguf", allowance);
  if (!shard) {
    SOLI_CHECK(soli::printable(shard.error().message, shard.error().message.size()) == shard.error().message);
    return 0;
  }
  for (const soli::GgufTensor& tensor : shard->tensors) check_tensor(tensor, static_cast<int64_t>(size));
  for (const auto& entry : shard->metadata.entries()) read_as_everything(shard->metadata, entry.key);
  for (const auto& line : shard->metadata.listing()) SOLI_CHECK(line.value.size() < 1000, "{}", line.key);
  return 0;
}
