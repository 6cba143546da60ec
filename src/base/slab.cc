#include "base/slab.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/round_up.h"
#include "base/units.h"

namespace soli {
namespace {

constexpr int64_t kHugePageBytes = 2 * kMiB;

// Small slabs keep to normal pages: a tiny tensor must not cost a huge page of resident memory.
bool takes_huge_pages(int64_t bytes) { return bytes >= kHugePageBytes; }

}  // namespace

int64_t Slab::charged_bytes(int64_t reserved_bytes, int64_t bytes) {
  return round_up(bytes, takes_huge_pages(reserved_bytes) ? kHugePageBytes : 4 * kKiB);
}

Result<Slab> Slab::allocate(Budget& budget, std::string name, int64_t bytes) {
  SOLI_ASSIGN_OR_RETURN(Slab slab, reserve(budget, std::move(name), bytes));
  SOLI_RETURN_IF_ERROR(slab.resize(bytes));
  return slab;
}

Result<Slab> Slab::reserve(Budget& budget, std::string name, int64_t most_bytes) {
  const bool huge = takes_huge_pages(most_bytes);
  const int64_t mapped_bytes = charged_bytes(most_bytes);
  const int64_t reserved_bytes = mapped_bytes + (huge ? kHugePageBytes : 0);
  void* const reserved = ::mmap(nullptr, static_cast<size_t>(reserved_bytes), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return fail(ErrorKind::kIo, "cannot map {} for {}: {}", format_bytes(mapped_bytes), name,
                std::strerror(errno));
  }
  auto* data = static_cast<std::byte*>(reserved);
  if (huge) {
    const auto address = reinterpret_cast<uintptr_t>(reserved);
    const auto aligned = static_cast<uintptr_t>(round_up(static_cast<int64_t>(address), kHugePageBytes));
    const auto head = static_cast<int64_t>(aligned - address);
    if (head > 0) ::munmap(reserved, static_cast<size_t>(head));
    if (head < kHugePageBytes)
      ::munmap(data + head + mapped_bytes, static_cast<size_t>(kHugePageBytes - head));
    data += head;
    ::madvise(data, static_cast<size_t>(mapped_bytes), MADV_HUGEPAGE);  // a wish: without it, only slower
  }
  Slab slab;
  slab.budget_ = &budget;
  slab.name_ = std::move(name);
  slab.data_ = data;
  slab.mapped_bytes_ = mapped_bytes;
  return slab;
}

Status Slab::resize(int64_t bytes) {
  const int64_t wanted = charged_bytes(mapped_bytes_, bytes);
  SOLI_CHECK(bytes >= 0 && wanted <= mapped_bytes_, "{} of {} bytes", bytes, mapped_bytes_);
  if (wanted > bytes_) SOLI_RETURN_IF_ERROR(budget_->charge(name_, wanted - bytes_));
  if (wanted < bytes_) {
    ::madvise(data_ + wanted, static_cast<size_t>(bytes_ - wanted), MADV_DONTNEED);
    budget_->release(name_, bytes_ - wanted);
  }
  bytes_ = wanted;
  return {};
}

Slab::~Slab() {
  if (data_ == nullptr) return;
  ::munmap(data_, static_cast<size_t>(mapped_bytes_));
  if (bytes_ > 0) budget_->release(name_, bytes_);
}

void Slab::swap(Slab& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(name_, other.name_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
}

}  // namespace soli
