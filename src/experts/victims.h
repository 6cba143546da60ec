#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "experts/cache_policy.h"

namespace soli {

/// The residents that are worth least, found in one pass over all of them and handed out one by one: a visit
/// that misses eight experts pays for one pass. Holds as long as no worth changes, that is, until the next
/// visit; what came in since the pass is used by this very visit, and is looked at in the next pass only.
class Victims {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// Forgets what it found; up to n_wanted are looked for at once.
  void clear(size_t n_wanted) {
    n_left_ = 0;
    n_kept_ = std::clamp<size_t>(n_wanted, 1, kMaxFound);
  }

  /// Index of the resident for which worth(expert) is least, of two equal ones the lower number.
  /// residents.size() where the worth of every one is kNever.
  template <typename Worth>
  size_t next(std::span<const ExpertNumber> residents, Worth worth) {
    for (int pass = 0; pass < 2; ++pass) {
      while (n_left_ > 0) {
        const Found& found = found_[--n_left_];
        if (found.index < residents.size() && residents[found.index] == found.expert) return found.index;
      }
      if (pass == 0) fill(residents, worth);
    }
    return residents.size();
  }

 private:
  static constexpr size_t kMaxFound = 16;
  struct Found {
    double worth;
    ExpertNumber expert;
    size_t index;
    bool operator>(const Found& other) const {
      return worth > other.worth || (worth == other.worth && expert > other.expert);
    }
  };

  template <typename Worth>
  void fill(std::span<const ExpertNumber> residents, Worth worth) {
    for (size_t i = 0; i < residents.size(); ++i) {
      const ExpertNumber expert = residents[i];
      if (expert < 0) continue;
      const Found found{worth(expert), expert, i};
      if (found.worth == kNever) continue;
      if (n_left_ == n_kept_ && !(found_[0] > found)) continue;
      insert(found);
    }
  }

  /// Keeps found_ in descending order, so that the least is at its end.
  void insert(const Found& found) {
    if (n_left_ == n_kept_) {  // the first one leaves
      size_t at = 0;
      for (; at + 1 < n_left_ && found_[at + 1] > found; ++at) found_[at] = found_[at + 1];
      found_[at] = found;
      return;
    }
    size_t at = n_left_++;
    for (; at > 0 && found > found_[at - 1]; --at) found_[at] = found_[at - 1];
    found_[at] = found;
  }

  Found found_[kMaxFound];
  size_t n_left_ = 0;
  size_t n_kept_ = 1;
};

}  // namespace soli
