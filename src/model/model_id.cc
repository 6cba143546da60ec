#include "model/model_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/rng.h"

namespace soli {
namespace {

constexpr int64_t kMostRouterBytes = int64_t{1} << 20;

class IdHash {
 public:
  void add(uint64_t word) { hash_ = hash_u64(hash_ ^ word); }
  void add(std::span<const std::byte> bytes) {
    add(bytes.size());
    for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
      add(word);
    }
  }
  void add(const std::string& text) { add(std::as_bytes(std::span(text))); }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

}  // namespace

Result<std::string> model_id(const ModelFile& file) {
  IdHash hash;
  hash.add(file.spec().architecture);
  hash.add(file.spec().name);
  // A packed file has them in another order.
  std::vector<const GgufTensor*> tensors = file.tensors();
  std::sort(tensors.begin(), tensors.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->name < b->name; });
  for (const GgufTensor* const tensor : tensors) {
    hash.add(tensor->name);
    hash.add(uint64_t{tensor->type});
    for (const int64_t dim : tensor->dims) hash.add(static_cast<uint64_t>(dim));
  }
  const auto is_router = [](const BoundLinear& linear) {
    return linear.weight.tensor->name.ends_with(".ffn_gate_inp.weight");
  };
  const auto router = std::find_if(file.linears().begin(), file.linears().end(), is_router);
  if (router != file.linears().end()) {
    const GgufTensor& tensor = *router->weight.tensor;
    std::vector<std::byte> bytes(static_cast<size_t>(std::min(tensor.bytes, kMostRouterBytes)));
    SOLI_RETURN_IF_ERROR(file.gguf().shard(tensor.shard).read(tensor.offset, bytes));
    hash.add(bytes);
  }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace soli
