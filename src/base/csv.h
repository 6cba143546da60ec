#pragma once

#include <string>

namespace soli {

/// `text` as a field of CSV: in quotes where it has to be (RFC 4180).
std::string csv_field(const std::string& text);

}  // namespace soli
