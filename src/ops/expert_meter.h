#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace soli {

/// What one routed expert had to do.
struct ExpertWork {
  int64_t calls = 0;    // rows that were routed to it and computed
  int64_t busy_ns = 0;  // that threads were busy with its multiplications, summed over threads; measured
};

/// Counts the work of each expert of each layer: two numbers for each of them, however long it counts. Who
/// counts takes no lock, and so a reader may see the time of some calls before the calls.
///
/// An expert is busy while a thread has a work item of its gate, up or down in hand: the multiplications, its
/// biases and activation, and asking for the weights of the item that follows. Each item is of one expert
/// (moe_ffn.cc), so that no time has to be shared out. What serves all experts of a layer alike is nobody's:
/// grouping rows, converting what enters the matrices, combining the outputs, waiting for the disk or for
/// other threads. Time is that of a clock on the wall: it goes on while the system runs something else on the
/// thread's processor.
class ExpertMeter {
 public:
  /// Reads a clock, in ns since any moment. Any thread.
  using Now = int64_t (*)();
  static int64_t steady_ns();

  /// The counters of one layer. Made of nothing, it counts nothing. Any thread.
  class Layer {
   public:
    Layer() = default;
    explicit operator bool() const { return experts_ != nullptr; }
    void add_calls(int32_t expert, int64_t n) const { add(experts_[expert].calls, n); }
    void add_busy(int32_t expert, int64_t ns) const { add(experts_[expert].busy_ns, ns); }
    int64_t now() const { return now_(); }

   private:
    friend class ExpertMeter;
    struct Cell {
      std::atomic<int64_t> calls{0};
      std::atomic<int64_t> busy_ns{0};
    };
    Layer(Cell* experts, Now now) : experts_(experts), now_(now) {}
    static void add(std::atomic<int64_t>& sum, int64_t n) { sum.fetch_add(n, std::memory_order_relaxed); }

    Cell* experts_ = nullptr;  // [n_experts]
    Now now_ = nullptr;
  };

  ExpertMeter(int64_t n_layers, int64_t n_experts, Now now = &steady_ns);

  int64_t n_layers() const { return n_layers_; }
  int64_t n_experts() const { return n_experts_; }
  /// Valid as long as the meter lives.
  Layer layer(int64_t layer) { return {&cells_[static_cast<size_t>(layer * n_experts_)], now_}; }

  /// Since the meter was made. Any thread.
  ExpertWork read(int64_t layer, int64_t expert) const;
  /// The same, summed over the layers.
  ExpertWork read_over_layers(int64_t expert) const;

 private:
  const int64_t n_layers_;
  const int64_t n_experts_;
  const Now now_;
  const std::unique_ptr<Layer::Cell[]> cells_;  // [layer][expert]
};

/// One thread's watch while it goes through work items. Reads the clock when it begins and at each lap.
class ExpertLaps {
 public:
  explicit ExpertLaps(ExpertMeter::Layer layer) : layer_(layer), last_(layer ? layer.now() : 0) {}
  /// All time since the last lap was that expert's.
  void lap(int32_t expert) {
    if (!layer_) return;
    const int64_t now = layer_.now();
    layer_.add_busy(expert, now - last_);
    last_ = now;
  }

 private:
  const ExpertMeter::Layer layer_;
  int64_t last_;
};

}  // namespace soli
