#include "io/available_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

namespace soli {
namespace {

/// Files of /proc and /sys have no size to be read by; these are short.
std::optional<std::string> read_small(const std::string& path) {
  constexpr size_t kMostBytes = 64 * 1024;
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

std::optional<int64_t> parse_number(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// The number in a file of one number; "max" and what is no number are none.
std::optional<int64_t> read_number(const std::string& path) {
  const std::optional<std::string> text = read_small(path);
  return text ? parse_number(*text) : std::nullopt;
}

/// The number behind `key` at the start of a line.
std::optional<int64_t> find_number(const std::string& text, std::string_view key) {
  for (size_t line = 0; line < text.size();) {
    const size_t end = std::min(text.find('\n', line), text.size());
    const std::string_view content(text.data() + line, end - line);
    if (content.starts_with(key)) return parse_number(content.substr(key.size()));
    line = end + 1;
  }
  return std::nullopt;
}

/// Where the files of one version of control groups lie, and what they are called.
struct Hierarchy {
  std::string mount;
  const char* limit;
  const char* usage;
  const char* unused_cache;  // key in memory.stat
};

/// What a group has left; nothing where it has no limit. Version 1 writes "no limit" as a number near 2^63.
std::optional<int64_t> left_in_group(const Hierarchy& hierarchy, const std::string& folder) {
  const std::optional<int64_t> limit = read_number(folder + hierarchy.limit);
  const std::optional<int64_t> usage = read_number(folder + hierarchy.usage);
  if (!limit || !usage || *limit >= int64_t{1} << 60) return std::nullopt;
  const std::string statistics = read_small(folder + "memory.stat").value_or("");
  const int64_t unused = find_number(statistics, hierarchy.unused_cache).value_or(0);
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *usage - unused));
}

/// Looks at a group and at all above it, which bound it too.
void limit_by_groups(const Hierarchy& hierarchy, std::string path, AvailableMemory& available) {
  while (true) {
    const std::string folder = hierarchy.mount + path + (path.ends_with('/') ? "" : "/");
    const std::optional<int64_t> left = left_in_group(hierarchy, folder);
    if (left && *left < available.bytes) available = {*left, "the control group " + folder};
    if (path.empty() || path == "/") return;
    path.resize(path.rfind('/'));
  }
}

}  // namespace

Result<AvailableMemory> available_memory(const std::string& root) {
  const std::optional<std::string> machine = read_small(root + "/proc/meminfo");
  const std::optional<int64_t> kilobytes = machine ? find_number(*machine, "MemAvailable:") : std::nullopt;
  if (!kilobytes) {
    return fail(ErrorKind::kIo,
                "{}/proc/meminfo does not tell how much memory is available; say it (--memory)", root);
  }
  AvailableMemory available = {*kilobytes * 1024, "the machine"};
  const Hierarchy v1 = {root + "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                        "total_inactive_file "};
  const Hierarchy v2 = {root + "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};
  // Lines "number:controllers:path"; version 2 has the number 0 and no controllers.
  const std::string groups = read_small(root + "/proc/self/cgroup").value_or("");
  for (size_t line = 0; line < groups.size();) {
    const size_t end = std::min(groups.find('\n', line), groups.size());
    const std::string_view content(groups.data() + line, end - line);
    line = end + 1;
    const size_t first = content.find(':');
    const size_t second = content.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string controllers = fmt::format(",{},", content.substr(first + 1, second - first - 1));
    const std::string path(content.substr(second + 1));
    if (controllers.find(",memory,") != std::string::npos) {
      limit_by_groups(v1, path, available);
      // In a container, the path is the host's and the group is mounted at the top.
      limit_by_groups(v1, "", available);
    } else if (controllers == ",,") {
      limit_by_groups(v2, path, available);
    }
  }
  return available;
}

}  // namespace soli
