#pragma once

#include <string>
#include <vector>

#include "experts/cache_policy.h"
#include "experts/heat.h"
#include "experts/victims.h"

namespace soli {

class LfuPolicy final : public CachePolicy {
 public:
  struct Options {
    double half_life_tokens = 256;
    bool turns = false;
  };
  LfuPolicy(const CacheShape& shape, const Options& options);

  std::string_view name() const override { return name_; }
  void on_visit(const LayerVisit& visit) override;
  size_t choose_victim(std::span<const ExpertNumber> residents) override;

 private:
  CacheShape shape_;
  Options options_;
  std::string name_;
  Heat heat_;
  Victims victims_;
  int64_t layer_ = 0;
};

}  // namespace soli
