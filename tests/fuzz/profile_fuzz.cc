// Any text is refused as a saved profile with an error, or is one: written, it is read back to the same text,
// and a report can be made of it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "observe/profile_file.h"
#include "observe/profile_report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto profile = soli::parse_profile(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!profile) {
    SOLI_CHECK(!profile.error().message.empty() && soli::is_valid_utf8(profile.error().message));
    return 0;
  }
  const std::string text = soli::profile_to_text(*profile);
  const auto again = soli::parse_profile(text);
  SOLI_CHECK(again && soli::profile_to_text(*again) == text);
  // Resampling takes time by the size of the shape.
  if (profile->shape.n_experts * static_cast<int64_t>(profile->domains.size()) > 64) return 0;
  const soli::ProfileReport report = soli::make_profile_report(*profile, &*again, 1);
  SOLI_CHECK(soli::is_valid_utf8(soli::render_text(report, true)));
  return 0;
}
