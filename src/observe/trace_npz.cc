#include "observe/trace_npz.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace soli {
namespace {

// Numbers of APPNOTE 6.3.
constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDescriptor = 0x08074b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEndOfDirectory64 = 0x06064b50;
constexpr uint32_t kLocator64 = 0x07064b50;
constexpr uint32_t kEndOfDirectory = 0x06054b50;
constexpr uint16_t kVersion = 45;     // the first with ZIP64
constexpr uint16_t kSizesFollow = 8;  // sizes and checksum stand after the bytes
constexpr uint16_t kExtra64 = 1;      // a field with 64-bit sizes
constexpr uint16_t kFirstOfJanuary1980 = 0x21;
constexpr uint32_t kSeeExtra = 0xffffffff;

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? 0xedb88320U ^ crc >> 1 : crc >> 1;
    table[i] = crc;
  }
  return table;
}

uint32_t crc32(uint32_t crc, std::span<const std::byte> bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_crc_table();
  crc = ~crc;
  for (const std::byte byte : bytes) crc = kTable[(crc ^ static_cast<uint32_t>(byte)) & 0xff] ^ crc >> 8;
  return ~crc;
}

/// Little-endian numbers, one after the other.
class ZipRecord {
 public:
  template <typename T>
  ZipRecord& put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  ZipRecord& put(const std::string& text) {
    bytes_ += text;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

uint16_t size16(const std::string& text) { return static_cast<uint16_t>(text.size()); }

/// The beginning of a .npy file, padded so that the elements begin at a multiple of 64.
std::string npy_header(const char* type, const std::vector<int64_t>& shape) {
  std::string sizes;
  for (const int64_t size : shape) sizes += fmt::format("{},", size);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, sizes);
  constexpr size_t kPrefix = 10;
  while ((kPrefix + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string header = "\x93NUMPY";
  header += '\1';
  header += '\0';
  header += ZipRecord().put(size16(text)).bytes();
  return header + text;
}

}  // namespace

Status NpzWriter::write(const std::string& bytes) { return writer_.append(std::as_bytes(std::span(bytes))); }

Status NpzWriter::begin_array(const std::string& name, const char* type, const std::vector<int64_t>& shape) {
  const std::string file = name + ".npy";
  members_.push_back({.name = file, .offset = static_cast<uint64_t>(writer_.size())});
  ZipRecord header;
  header.put(kLocalHeader).put(kVersion).put(kSizesFollow).put(uint16_t{0});
  header.put(uint16_t{0}).put(kFirstOfJanuary1980).put(uint32_t{0}).put(kSeeExtra).put(kSeeExtra);
  header.put(size16(file)).put(uint16_t{20}).put(file);
  header.put(kExtra64).put(uint16_t{16}).put(uint64_t{0}).put(uint64_t{0});
  SOLI_RETURN_IF_ERROR(write(header.bytes()));
  const std::string npy = npy_header(type, shape);
  return append(std::as_bytes(std::span(npy)));
}

Status NpzWriter::append(std::span<const std::byte> elements) {
  Member& member = members_.back();
  member.crc = crc32(member.crc, elements);
  member.bytes += elements.size();
  return writer_.append(elements);
}

Status NpzWriter::end_array() {
  const Member& member = members_.back();
  return write(ZipRecord().put(kDescriptor).put(member.crc).put(member.bytes).put(member.bytes).bytes());
}

Status NpzWriter::finish() {
  const auto begin = static_cast<uint64_t>(writer_.size());
  for (const Member& member : members_) {
    ZipRecord entry;
    entry.put(kDirectoryEntry).put(kVersion).put(kVersion).put(kSizesFollow).put(uint16_t{0});
    entry.put(uint16_t{0}).put(kFirstOfJanuary1980).put(member.crc).put(kSeeExtra).put(kSeeExtra);
    entry.put(size16(member.name)).put(uint16_t{28}).put(uint16_t{0}).put(uint16_t{0}).put(uint16_t{0});
    entry.put(uint32_t{0}).put(kSeeExtra).put(member.name);
    entry.put(kExtra64).put(uint16_t{24}).put(member.bytes).put(member.bytes).put(member.offset);
    SOLI_RETURN_IF_ERROR(write(entry.bytes()));
  }
  const auto end = static_cast<uint64_t>(writer_.size());
  const uint64_t n = members_.size();
  ZipRecord record;
  record.put(kEndOfDirectory64).put(uint64_t{44}).put(kVersion).put(kVersion).put(uint32_t{0});
  record.put(uint32_t{0}).put(n).put(n).put(end - begin).put(begin);
  record.put(kLocator64).put(uint32_t{0}).put(end).put(uint32_t{1});
  record.put(kEndOfDirectory).put(uint16_t{0}).put(uint16_t{0});
  record.put(static_cast<uint16_t>(n)).put(static_cast<uint16_t>(n));
  record.put(kSeeExtra).put(kSeeExtra).put(uint16_t{0});
  return write(record.bytes());
}

}  // namespace soli
