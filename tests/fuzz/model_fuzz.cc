// Any bytes are either refused with an error or a model whose tensors all have a place, and which then loads
// and computes a few tokens without any error but those that a request may end with.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/units.h"
#include "base/utf8.h"
#include "engine/engine.h"
#include "experts/local_executor.h"
#include "experts/resident_store.h"
#include "model/model.h"
#include "model/parameters.h"
#include "ops/runtime.h"

namespace {

using namespace soli;

constexpr int64_t kMemoryBytes = 256 * kMiB;

/// A file in memory that has a path.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("model", MFD_CLOEXEC)) {
    SOLI_CHECK(descriptor_ >= 0, "memfd_create");
  }
  std::string write(const uint8_t* data, size_t size) const {
    SOLI_CHECK(::ftruncate(descriptor_, 0) == 0, "ftruncate");
    while (size > 0) {
      const ssize_t n = ::pwrite(descriptor_, data, size, ::lseek(descriptor_, 0, SEEK_END));
      SOLI_CHECK(n > 0, "pwrite");
      data += n;
      size -= static_cast<size_t>(n);
    }
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

 private:
  int descriptor_;
};

void check_message(const Error& error) {
  SOLI_CHECK(!error.message.empty() && printable(error.message, error.message.size()) == error.message, "{}",
             error.message);
}

/// Every packed expert lies inside its file.
void check_extents(const ModelFile& file) {
  for (int64_t layer = 0; layer < file.spec().n_layers; ++layer) {
    if (!file.spec().is_moe_layer(layer)) continue;
    for (int64_t e = 0; e < file.spec().router.n_experts; ++e) {
      const ExpertExtent& extent = *file.extent(layer, e);
      SOLI_CHECK(extent.offset + extent.bytes <= file.gguf().shard(extent.shard).size(), "{} {}", layer, e);
      for (size_t m = 0; m < kExpertMatrices; ++m) {
        const TensorRows& rows = file.experts(layer)[m][static_cast<size_t>(e)];
        SOLI_CHECK(extent.matrix_offsets[m] + rows.bytes() <= extent.bytes, "{} {}", layer, e);
      }
    }
  }
}

/// Every element of the file is counted once, and every part of a matrix lies inside its tensor.
void check_file(const ModelFile& file) {
  int64_t elements = 0;
  int64_t bytes = 0;
  for (const GgufTensor* tensor : file.tensors()) {
    elements += tensor->elements();
    bytes += tensor->bytes;
  }
  const ParameterCounts counts = count_parameters(file);
  SOLI_CHECK(counts.nominal_total.parameters == elements, "{} of {}", counts.nominal_total.parameters,
             elements);
  SOLI_CHECK(counts.nominal_total.bytes == bytes);
  for (const BoundLinear& linear : file.linears()) {
    const TensorRows& rows = linear.weight;
    SOLI_CHECK((rows.first_row + rows.rows) * rows.cols <= rows.tensor->elements(), "{}", rows.tensor->name);
  }
  if (file.packed() != nullptr) check_extents(file);
}

/// The prompt's tokens, and two more.
void generate(Engine& engine, int64_t vocab_size, int64_t context_length) {
  Request request = {.max_new_tokens = 2, .prompt_detail = Detail::kLogprob};
  for (int64_t i = 0; i < std::min<int64_t>(3, context_length); ++i) {
    request.prompt.push_back(static_cast<int32_t>((i * 7) % vocab_size));
  }
  const auto stream = engine.submit(std::move(request));
  SOLI_CHECK(stream.has_value(), "{}", stream.error().message);
  while (engine.step()) {
  }
  while (const auto event = (*stream)->try_pop()) {
    if (event->kind != StreamEvent::Kind::kFinished) continue;
    if (event->error) check_message(*event->error);
    return;
  }
  SOLI_CHECK(false, "the stream did not end");
}

Status load_and_run(ModelFile file, Runtime& runtime, ActivationPrecision activations) {
  const ModelSpec spec = file.spec();
  const EngineOptions options = {.context_length = std::min<int64_t>(8, spec.context_length),
                                 .max_sequences = 1,
                                 .chunk_rows = 4,
                                 .max_logit_rows = 4,
                                 .activations = activations};
  const Workspace::Limits limits = {.max_rows = options.chunk_rows, .max_logit_rows = options.max_logit_rows};
  SOLI_ASSIGN_OR_RETURN(const auto store, ResidentExpertStore::load(file, runtime, {}));
  SOLI_ASSIGN_OR_RETURN(const auto model, Model::load(std::move(file), runtime, {}));
  SOLI_ASSIGN_OR_RETURN(LocalExecutor executor,
                        LocalExecutor::create(spec, *store, runtime.budget(), limits));
  SOLI_ASSIGN_OR_RETURN(const auto engine, Engine::create(*model, executor, options));
  generate(*engine, spec.vocab_size, options.context_length);
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const MemoryFile memory_file;
  static const std::unique_ptr<Runtime> runtime =
      std::move(*Runtime::create({.n_threads = 1, .memory_bytes = kMemoryBytes, .isa = "scalar"}));
  Result<ModelFile> file = ModelFile::open(memory_file.write(data, size));
  if (!file) {
    check_message(file.error());
    return 0;
  }
  check_file(*file);
  const auto activations = size % 2 == 0 ? ActivationPrecision::kF32 : ActivationPrecision::kQ8;
  const Status status = load_and_run(std::move(*file), *runtime, activations);
  if (!status) check_message(status.error());
  SOLI_CHECK(runtime->budget().used_bytes() == 0, "memory is left charged");
  return 0;
}
