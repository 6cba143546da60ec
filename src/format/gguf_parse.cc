#include "format/gguf_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "base/utf8.h"

namespace soli {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;  // key length, key, value type, value
constexpr uint64_t kMinTensorBytes =
    8 + 1 + 4 + 8 + 4 + 8;  // name length, name, n_dims, one dim, type, offset

/// Reads a source from front to back through one small buffer. Its errors carry the name of the source.
class Reader {
 public:
  Reader(const ByteSource& source, const std::string& name)
      : source_(source), name_(name), size_(static_cast<uint64_t>(source.size())), buffer_(kBufferBytes) {}

  const std::string& name() const { return name_; }
  uint64_t size() const { return size_; }
  uint64_t position() const { return position_; }
  uint64_t remaining() const { return size_ - position_; }
  /// `position` lies inside the source.
  void seek(uint64_t position) { position_ = position; }

  Status skip(uint64_t bytes, std::string_view what) {
    SOLI_RETURN_IF_ERROR(require(bytes, what));
    position_ += bytes;
    return {};
  }

  Status read(std::span<std::byte> out, std::string_view what) {
    SOLI_RETURN_IF_ERROR(require(out.size(), what));
    while (!out.empty()) {
      if (position_ < buffer_begin_ || position_ >= buffer_end_) SOLI_RETURN_IF_ERROR(fill());
      const size_t n = std::min<size_t>(out.size(), buffer_end_ - position_);
      std::memcpy(out.data(), buffer_.data() + (position_ - buffer_begin_), n);
      position_ += n;
      out = out.subspan(n);
    }
    return {};
  }

  template <typename T>
  Result<T> number(std::string_view what) {
    T value{};
    SOLI_RETURN_IF_ERROR(read(std::as_writable_bytes(std::span(&value, 1)), what));
    return value;
  }

  /// A length and as many bytes, at most `max_bytes`.
  Result<std::string> string(uint64_t max_bytes, std::string_view what) {
    SOLI_ASSIGN_OR_RETURN(const auto bytes, number<uint64_t>(what));
    SOLI_RETURN_IF_ERROR(require(bytes, what));
    if (bytes > max_bytes) {
      return fail(ErrorKind::kLimit, "{}: {} is {} bytes long; at most {} are allowed", name_, what, bytes,
                  max_bytes);
    }
    std::string text(bytes, '\0');
    SOLI_RETURN_IF_ERROR(read(std::as_writable_bytes(std::span(text)), what));
    return text;
  }

  Status require(uint64_t bytes, std::string_view what) const {
    if (bytes <= remaining()) return {};
    return fail(ErrorKind::kMalformed,
                "{}: ends early: {} needs {} bytes at offset {}, and the file has {} in all", name_, what,
                bytes, position_, size_);
  }

 private:
  Status fill() {
    const size_t n = std::min<uint64_t>(buffer_.size(), remaining());
    SOLI_RETURN_IF_ERROR(source_.read(static_cast<int64_t>(position_), std::span(buffer_).first(n)));
    buffer_begin_ = position_;
    buffer_end_ = position_ + n;
    return {};
  }

  const ByteSource& source_;
  const std::string& name_;
  uint64_t size_;
  uint64_t position_ = 0;
  uint64_t buffer_begin_ = 0;  // offsets in the source that buffer_ holds
  uint64_t buffer_end_ = 0;
  std::vector<std::byte> buffer_;
};

/// The parts of a header in the order of the file.
class Parser {
 public:
  Parser(const ByteSource& source, const std::string& name, GgufAllowance& allowance)
      : reader_(source, name), allowance_(allowance) {}

  Result<GgufShard> parse();

 private:
  template <typename... Args>
  tl::unexpected<Error> malformed(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorKind::kMalformed, "{}: {}", reader_.name(),
                fmt::format(format, std::forward<Args>(args)...));
  }

  Status check_magic();
  Result<uint32_t> read_version();
  Result<uint64_t> read_count(std::string_view what, uint64_t most, uint64_t bytes_each,
                              uint64_t claimed) const;
  Status charge(uint64_t bytes);
  Status check_name(std::string_view name, std::string_view what) const;

  Result<GgufMetadata> read_metadata(uint64_t count);
  Result<GgufMetadata::Entry> read_entry(uint64_t index);
  Status read_scalars(GgufType type, uint64_t count, std::string_view what, GgufValue& value);
  Status read_array(std::string_view what, GgufValue& value);
  Status read_strings(std::string_view what, GgufValue& value);

  Result<std::vector<GgufTensor>> read_directory(uint64_t count);
  Result<GgufTensor> read_tensor(uint64_t index);
  Status read_dims(GgufTensor& tensor);
  Result<uint64_t> alignment(const GgufMetadata& metadata) const;
  Status place_tensors(uint64_t alignment, std::vector<GgufTensor>& tensors) const;
  Status check_overlap(const std::vector<GgufTensor>& tensors) const;

  Reader reader_;
  GgufAllowance& allowance_;
};

Result<GgufShard> Parser::parse() {
  GgufShard shard;
  SOLI_RETURN_IF_ERROR(check_magic());
  SOLI_ASSIGN_OR_RETURN(shard.version, read_version());
  SOLI_ASSIGN_OR_RETURN(const auto tensors_claimed, reader_.number<uint64_t>("the count of tensors"));
  SOLI_ASSIGN_OR_RETURN(const auto keys_claimed, reader_.number<uint64_t>("the count of metadata keys"));
  SOLI_ASSIGN_OR_RETURN(const uint64_t n_tensors,
                        read_count("tensors", allowance_.tensors, kMinTensorBytes, tensors_claimed));
  SOLI_ASSIGN_OR_RETURN(const uint64_t n_keys,
                        read_count("metadata keys", kGgufMaxKeys, kMinEntryBytes, keys_claimed));
  allowance_.tensors -= n_tensors;
  SOLI_ASSIGN_OR_RETURN(shard.metadata, read_metadata(n_keys));
  SOLI_ASSIGN_OR_RETURN(shard.tensors, read_directory(n_tensors));
  SOLI_ASSIGN_OR_RETURN(const uint64_t align, alignment(shard.metadata));
  SOLI_RETURN_IF_ERROR(place_tensors(align, shard.tensors));
  SOLI_RETURN_IF_ERROR(check_overlap(shard.tensors));
  return shard;
}

/// Tells what a file is if it is no GGUF, since the wrong file is the most common mistake.
Status Parser::check_magic() {
  if (reader_.size() == 0) return malformed("is empty, not a GGUF file");
  std::string start(std::min<uint64_t>(reader_.size(), 9), '\0');
  SOLI_RETURN_IF_ERROR(reader_.read(std::as_writable_bytes(std::span(start)), "the magic"));
  reader_.seek(std::min<uint64_t>(reader_.size(), 4));
  const std::string magic = start.substr(0, 4);
  if (magic == "GGUF") return {};
  if (magic == "FUGG") {
    return fail(ErrorKind::kUnsupported, "{}: is a big-endian GGUF file; only little-endian ones are read",
                reader_.name());
  }
  if (magic == "tjgg" || magic == "fmgg" || magic == "lmgg" || magic == "algg") {
    return fail(ErrorKind::kUnsupported,
                "{}: is a GGML file of the time before GGUF; convert the model again", reader_.name());
  }
  if (start.size() == 9 && start[8] == '{')
    return malformed("looks like a safetensors file, not a GGUF file");
  return malformed("is not a GGUF file: it starts with '{}' instead of 'GGUF'", printable(magic));
}

Result<uint32_t> Parser::read_version() {
  SOLI_ASSIGN_OR_RETURN(const auto version, reader_.number<uint32_t>("the version"));
  if (version == 2 || version == 3) return version;
  if (version != 0 && (version & 0xFFFF) == 0) {
    return fail(ErrorKind::kUnsupported, "{}: is a big-endian GGUF file; only little-endian ones are read",
                reader_.name());
  }
  return fail(ErrorKind::kUnsupported, "{}: has GGUF version {}; versions 2 and 3 are read", reader_.name(),
              version);
}

/// A claimed count, once it is below its limit and the file has room for as many.
Result<uint64_t> Parser::read_count(std::string_view what, uint64_t most, uint64_t bytes_each,
                                    uint64_t claimed) const {
  if (claimed > most) {
    return fail(ErrorKind::kLimit, "{}: claims {} {}; at most {} are allowed", reader_.name(), claimed, what,
                most);
  }
  if (claimed > reader_.remaining() / bytes_each) {
    return malformed("claims {} {}, for which its {} bytes have no room", claimed, what, reader_.size());
  }
  return claimed;
}

Status Parser::charge(uint64_t bytes) {
  if (bytes > allowance_.header_bytes) {
    return fail(ErrorKind::kLimit, "{}: metadata and tensor directory take more than the {} allowed",
                reader_.name(), format_bytes(static_cast<int64_t>(kGgufMaxHeaderBytes)));
  }
  allowance_.header_bytes -= bytes;
  return {};
}

Status Parser::check_name(std::string_view name, std::string_view what) const {
  if (name.empty()) return malformed("{} is empty", what);
  if (!is_valid_utf8(name)) return malformed("{} is not valid UTF-8: '{}'", what, printable(name));
  // Errors and listings show names as they are, so none may reach a terminal's controls.
  if (printable(name, name.size()) != name)
    return malformed("{} has a control character: '{}'", what, printable(name));
  return {};
}

Result<GgufMetadata> Parser::read_metadata(uint64_t count) {
  SOLI_RETURN_IF_ERROR(charge(count * sizeof(GgufMetadata::Entry)));
  std::vector<GgufMetadata::Entry> entries;
  entries.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    SOLI_ASSIGN_OR_RETURN(auto entry, read_entry(i));
    entries.push_back(std::move(entry));
  }
  return GgufMetadata::build(reader_.name(), std::move(entries));
}

Result<GgufMetadata::Entry> Parser::read_entry(uint64_t index) {
  GgufMetadata::Entry entry;
  const std::string which = fmt::format("the name of metadata key {}", index);
  SOLI_ASSIGN_OR_RETURN(entry.key, reader_.string(kGgufMaxKeyBytes, which));
  SOLI_RETURN_IF_ERROR(check_name(entry.key, which));
  SOLI_RETURN_IF_ERROR(charge(entry.key.size()));
  const std::string what = fmt::format("metadata key '{}'", entry.key);
  SOLI_ASSIGN_OR_RETURN(const auto type, reader_.number<uint32_t>(what));
  entry.value.type = static_cast<GgufType>(type);
  if (entry.value.type == GgufType::kArray) {
    SOLI_RETURN_IF_ERROR(read_array(what, entry.value));
  } else if (entry.value.type == GgufType::kString) {
    SOLI_ASSIGN_OR_RETURN(entry.value.bytes, reader_.string(allowance_.header_bytes, what));
    SOLI_RETURN_IF_ERROR(charge(entry.value.bytes.size()));
  } else {
    SOLI_RETURN_IF_ERROR(read_scalars(entry.value.type, 1, what, entry.value));
  }
  return entry;
}

Status Parser::read_scalars(GgufType type, uint64_t count, std::string_view what, GgufValue& value) {
  const auto width = static_cast<uint64_t>(gguf_type_bytes(type));
  if (width == 0)
    return malformed("{} has value {}, which the format does not define", what, gguf_type_name(type));
  if (count > reader_.remaining() / width) {
    return malformed("{} claims {} values, and only {} bytes follow", what, count, reader_.remaining());
  }
  SOLI_RETURN_IF_ERROR(charge(count * width));
  value.bytes.resize(count * width);
  SOLI_RETURN_IF_ERROR(reader_.read(std::as_writable_bytes(std::span(value.bytes)), what));
  if (type != GgufType::kBool) return {};
  for (const char c : value.bytes) {
    if (c != 0 && c != 1)
      return malformed("{} has a bool of {}; 0 and 1 are allowed", what, static_cast<uint8_t>(c));
  }
  return {};
}

Status Parser::read_array(std::string_view what, GgufValue& value) {
  SOLI_ASSIGN_OR_RETURN(const auto element, reader_.number<uint32_t>(what));
  SOLI_ASSIGN_OR_RETURN(value.count, reader_.number<uint64_t>(what));
  value.element = static_cast<GgufType>(element);
  if (value.element == GgufType::kArray) {
    return fail(ErrorKind::kUnsupported, "{}: {} is an array of arrays, which soli does not read",
                reader_.name(), what);
  }
  if (value.element == GgufType::kString) return read_strings(what, value);
  return read_scalars(value.element, value.count, what, value);
}

/// Walks the strings twice, first for their total length, so that they are allocated once and exactly.
Status Parser::read_strings(std::string_view what, GgufValue& value) {
  if (value.count > reader_.remaining() / sizeof(uint64_t)) {
    return malformed("{} claims {} strings, and only {} bytes follow", what, value.count,
                     reader_.remaining());
  }
  // Twice what an end takes in memory: the limit then bounds the time of the walks as well.
  SOLI_RETURN_IF_ERROR(charge(value.count * sizeof(uint64_t)));
  const uint64_t begin = reader_.position();
  uint64_t total = 0;
  for (uint64_t i = 0; i < value.count; ++i) {
    SOLI_ASSIGN_OR_RETURN(const auto bytes, reader_.number<uint64_t>(what));
    SOLI_RETURN_IF_ERROR(reader_.skip(bytes, what));
    total += bytes;
  }
  SOLI_RETURN_IF_ERROR(charge(total));
  reader_.seek(begin);
  value.ends.reserve(value.count);
  value.bytes.resize(total);
  uint64_t end = 0;
  for (uint64_t i = 0; i < value.count; ++i) {
    SOLI_ASSIGN_OR_RETURN(const auto bytes, reader_.number<uint64_t>(what));
    if (bytes > total - end) return malformed("{} changed while it was read", what);
    SOLI_RETURN_IF_ERROR(
        reader_.read(std::as_writable_bytes(std::span(value.bytes).subspan(end, bytes)), what));
    end += bytes;
    value.ends.push_back(static_cast<uint32_t>(end));
  }
  return {};
}

Result<std::vector<GgufTensor>> Parser::read_directory(uint64_t count) {
  SOLI_RETURN_IF_ERROR(charge(count * sizeof(GgufTensor)));
  std::vector<GgufTensor> tensors;
  tensors.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    SOLI_ASSIGN_OR_RETURN(auto tensor, read_tensor(i));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Result<GgufTensor> Parser::read_tensor(uint64_t index) {
  GgufTensor tensor;
  const std::string which = fmt::format("the name of tensor {}", index);
  SOLI_ASSIGN_OR_RETURN(tensor.name, reader_.string(kGgufMaxTensorNameBytes, which));
  SOLI_RETURN_IF_ERROR(check_name(tensor.name, which));
  SOLI_RETURN_IF_ERROR(charge(tensor.name.size()));
  SOLI_RETURN_IF_ERROR(read_dims(tensor));
  SOLI_ASSIGN_OR_RETURN(tensor.type, reader_.number<uint32_t>("the tensor directory"));
  SOLI_ASSIGN_OR_RETURN(const auto offset, reader_.number<uint64_t>("the tensor directory"));
  if (offset > reader_.size()) {
    return malformed("tensor '{}' has offset {}, past the end of the file", tensor.name, offset);
  }
  tensor.offset = static_cast<int64_t>(offset);  // from the start of the data, until place_tensors
  Result<int64_t> bytes = ggml_tensor_bytes(tensor.type, tensor.dims);
  if (!bytes) {
    return in_context(fmt::format("{}: tensor '{}'", reader_.name(), tensor.name), std::move(bytes).error());
  }
  tensor.bytes = *bytes;
  return tensor;
}

Status Parser::read_dims(GgufTensor& tensor) {
  SOLI_ASSIGN_OR_RETURN(const auto n_dims, reader_.number<uint32_t>("the tensor directory"));
  if (n_dims < 1 || n_dims > kGgufMaxDims) {
    return malformed("tensor '{}' has {} dimensions; 1 to {} are allowed", tensor.name, n_dims, kGgufMaxDims);
  }
  tensor.n_dims = static_cast<int>(n_dims);
  for (uint32_t i = 0; i < n_dims; ++i) {
    SOLI_ASSIGN_OR_RETURN(tensor.dims[i], reader_.number<int64_t>("the tensor directory"));
    if (tensor.dims[i] < 1) {
      return malformed("tensor '{}' has a dimension of {}; at least 1 is allowed", tensor.name,
                       tensor.dims[i]);
    }
  }
  return {};
}

Result<uint64_t> Parser::alignment(const GgufMetadata& metadata) const {
  SOLI_ASSIGN_OR_RETURN(const uint64_t value, metadata.get_uint_or(kGgufAlignmentKey, kGgufDefaultAlignment));
  if (std::has_single_bit(value) && value >= 8 && value <= kGgufMaxAlignment) return value;
  return malformed("{} is {}; a power of two from 8 to {} is allowed", kGgufAlignmentKey, value,
                   kGgufMaxAlignment);
}

/// Makes offsets absolute and checks that each tensor lies, aligned, inside of the file.
Status Parser::place_tensors(uint64_t alignment, std::vector<GgufTensor>& tensors) const {
  const uint64_t data_begin = (reader_.position() + alignment - 1) / alignment * alignment;
  for (GgufTensor& tensor : tensors) {
    const auto offset = static_cast<uint64_t>(tensor.offset);
    if (offset % alignment != 0) {
      return malformed("tensor '{}' has offset {}, which is not a multiple of the alignment {}", tensor.name,
                       offset, alignment);
    }
    const uint64_t begin =
        data_begin + offset;  // offset is at most the size of the file, so this cannot wrap
    if (begin > reader_.size() || static_cast<uint64_t>(tensor.bytes) > reader_.size() - begin) {
      return malformed("ends early: tensor '{}' takes {} bytes from offset {}, and the file has {}",
                       tensor.name, tensor.bytes, begin, reader_.size());
    }
    tensor.offset = static_cast<int64_t>(begin);
  }
  return {};
}

Status Parser::check_overlap(const std::vector<GgufTensor>& tensors) const {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return tensors[a].offset < tensors[b].offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = tensors[order[i - 1]];
    const GgufTensor& after = tensors[order[i]];
    if (after.offset < before.offset + before.bytes) {
      return malformed("tensors '{}' and '{}' overlap at offset {}", before.name, after.name, after.offset);
    }
  }
  return {};
}

}  // namespace

Result<GgufShard> parse_gguf(const ByteSource& source, const std::string& name, GgufAllowance& allowance) {
  return Parser(source, name, allowance).parse();
}

}  // namespace soli
