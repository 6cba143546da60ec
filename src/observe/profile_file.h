#pragma once

// A routing profile as text, so that a later run goes on with it, or is compared with it. No I/O.

#include <string>
#include <string_view>

#include "base/result.h"
#include "observe/routing_profile.h"

namespace soli {

inline constexpr int64_t kMaxProfileFileBytes = int64_t{1} << 30;
inline constexpr size_t kMaxProfileDomains = 256;

/// One JSON object of format "soli-profile-1". Lists of numbers are texts with blanks between them, which
/// keeps the object small for a reader.
std::string profile_to_text(const RoutingProfile& profile);

/// Reads it again, to the same bits. Fails with kMalformed, kUnsupported or kLimit, naming the member, what
/// it is and what is allowed; memory stays within a constant times the text's size.
Result<RoutingProfile> parse_profile(std::string_view text);

}  // namespace soli
