#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace soli {

/// Appends bytes to a text in Base64 (RFC 4648, section 4), piece by piece.
class Base64Encoder {
 public:
  void append(std::span<const std::byte> bytes, std::string& text) {
    for (const std::byte byte : bytes) {
      group_ = group_ << 8 | static_cast<uint32_t>(byte);
      if (++n_held_ == 3) put(text);
    }
  }
  /// The last bytes, padded.
  void finish(std::string& text) {
    if (n_held_ > 0) put(text);
  }

 private:
  void put(std::string& text) {
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    group_ <<= 8 * (3 - n_held_);
    for (uint32_t digit = 0; digit < 4; ++digit)
      text += digit <= n_held_ ? kDigits[group_ >> (18 - 6 * digit) & 63] : '=';
    group_ = n_held_ = 0;
  }

  uint32_t group_ = 0;
  uint32_t n_held_ = 0;  // bytes of the group
};

}  // namespace soli
