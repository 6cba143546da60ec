#include "experts/expert_loader.h"

#include <algorithm>

#include "base/check.h"

namespace soli {

Result<std::unique_ptr<ExpertLoader>> ExpertLoader::create(const ExpertSource& source, Budget& budget,
                                                           const Options& options) {
  Slab rooms;
  if (const int64_t n_bytes = options.depth * source.most_room_bytes(); n_bytes > 0) {
    SOLI_ASSIGN_OR_RETURN(rooms, Slab::allocate(budget, "read buffers", n_bytes));
  }
  return std::unique_ptr<ExpertLoader>(new ExpertLoader(source, std::move(rooms), options));
}

int64_t ExpertLoader::bytes_needed(const ExpertSource& source, const Options& options) {
  return Slab::charged_bytes(options.depth * source.most_room_bytes());
}

ExpertLoader::ExpertLoader(const ExpertSource& source, Slab rooms, const Options& options)
    : source_(source),
      room_bytes_(source.most_room_bytes()),
      rooms_(std::move(rooms)),
      flights_(static_cast<size_t>(options.depth)),
      reader_(options.depth, options.make_queue) {
  for (size_t room = flights_.size(); room-- > 0;) idle_.push_back(room);
  if (rooms_.bytes() > 0) reader_.expect_reads_into({rooms_.data(), static_cast<size_t>(rooms_.bytes())});
}

size_t ExpertLoader::find(ExpertNumber expert) const {
  const auto found =
      std::find_if(loads_.begin(), loads_.end(), [&](const Load& load) { return load.expert == expert; });
  SOLI_CHECK(found != loads_.end(), "expert {} is not being loaded", expert);
  return static_cast<size_t>(found - loads_.begin());
}

void ExpertLoader::load(ExpertNumber expert, std::byte* memory, Urgency urgency) {
  if (free_.empty()) {
    free_.push_back(loads_.size());
    loads_.emplace_back();
  }
  const size_t number = free_.back();
  free_.pop_back();
  loads_[number] = {.expert = expert,
                    .memory = memory,
                    .urgency = urgency,
                    .reads = source_.reads_of(expert),
                    .arrived = {},
                    .status = {}};
  (urgency == Urgency::kDemanded ? demanded_ : expected_).push_back(number);
  ++n_loads_;
}

void ExpertLoader::demand(ExpertNumber expert) {
  const size_t number = find(expert);
  if (loads_[number].urgency == Urgency::kDemanded) return;
  loads_[number].urgency = Urgency::kDemanded;
  if (std::erase(expected_, number) > 0) demanded_.push_back(number);
}

bool ExpertLoader::cancel(ExpertNumber expert) {
  const size_t number = find(expert);
  Load& load = loads_[number];
  SOLI_CHECK(load.urgency == Urgency::kExpected, "expert {} is demanded", expert);
  if (std::erase(expected_, number) == 0) return false;  // all its reads have begun: let it arrive
  if (load.n_begun == load.n_ended) {
    forget(number);
    return true;
  }
  load.reads.resize(load.n_begun);
  load.status = fail(ErrorKind::kCancelled, "not wanted any more");
  return false;
}

/// A load with a read to begin. What is expected waits until all that is demanded is on its way.
std::optional<size_t> ExpertLoader::next_load() {
  for (std::deque<size_t>* queue : {&demanded_, &expected_}) {
    if (!queue->empty()) return queue->front();
  }
  return std::nullopt;
}

void ExpertLoader::submit() {
  while (!idle_.empty()) {
    const std::optional<size_t> load = next_load();
    if (!load) return;
    begin_read(*load);
  }
}

void ExpertLoader::begin_read(size_t number) {
  Load& load = loads_[number];
  if (reader_.in_flight() == 0) busy_since_ = std::chrono::steady_clock::now();
  const size_t room = idle_.back();
  idle_.pop_back();
  flights_[room] = {number, load.n_begun};
  const ExpertRead& read = load.reads[load.n_begun];
  if (++load.n_begun == load.reads.size())
    (load.urgency == Urgency::kDemanded ? demanded_ : expected_).pop_front();
  reader_.submit({.file = read.file,
                  .offset = read.offset,
                  .bytes = read.bytes,
                  .room = read.n_strips == 0 ? load.memory + read.target
                                             : rooms_.data() + static_cast<int64_t>(room) * room_bytes_,
                  .tag = room});
}

void ExpertLoader::take(DirectReader::Completion completion) {
  const auto room = static_cast<size_t>(completion.tag);
  Load& load = loads_[flights_[room].load];
  load.bytes += load.reads[flights_[room].read].bytes;
  load.arrived = std::chrono::steady_clock::now();
  if (completion.data) {
    flights_[room].rows = completion.data->data();
  } else if (load.status) {
    load.status = tl::unexpected<Error>(std::move(completion.data).error());
    std::erase(load.urgency == Urgency::kDemanded ? demanded_ : expected_, flights_[room].load);
    load.reads.resize(load.n_begun);  // the rest would be in vain
  }
  arrived_.push_back(room);
}

void ExpertLoader::collect(ThreadTeam& team, bool wait, std::vector<Loaded>& loaded) {
  if (reader_.in_flight() == 0) return;
  if (wait) take(reader_.wait());
  while (reader_.in_flight() > 0) {
    std::optional<DirectReader::Completion> completion = reader_.poll();
    if (!completion) break;
    take(*std::move(completion));
  }
  if (reader_.in_flight() == 0) busy_ += std::chrono::steady_clock::now() - busy_since_;
  pack_arrived(team);
  whole_.clear();
  for (const size_t room : arrived_) {
    const size_t number = flights_[room].load;
    idle_.push_back(room);
    if (++loads_[number].n_ended == loads_[number].reads.size()) whole_.push_back(number);
  }
  arrived_.clear();
  team.parallel_for(static_cast<int64_t>(whole_.size()), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      Load& load = loads_[whole_[static_cast<size_t>(i)]];
      if (load.status) load.status = source_.check(load.expert, load.memory);
    }
  });
  for (const size_t number : whole_) end_load(number, loaded);
}

/// Strip by strip on the whole team: a fast disk brings more than one thread can pack.
void ExpertLoader::pack_arrived(ThreadTeam& team) {
  constexpr int64_t kStripsPerRange = 8;
  const auto ranges_of = [&](size_t room) {
    const Flight& flight = flights_[room];
    const int64_t n_strips = loads_[flight.load].reads[flight.read].n_strips;
    return flight.rows == nullptr ? 0 : (n_strips + kStripsPerRange - 1) / kStripsPerRange;
  };
  int64_t n_ranges = 0;
  for (const size_t room : arrived_) n_ranges += ranges_of(room);
  team.parallel_for(n_ranges, 1, [&](int64_t begin, int64_t end, int) {
    int64_t first = 0;  // range of the room
    for (const size_t room : arrived_) {
      const Flight& flight = flights_[room];
      const Load& load = loads_[flight.load];
      const ExpertRead& read = load.reads[flight.read];
      const int64_t n = ranges_of(room);
      for (int64_t i = std::max(begin, first); i < std::min(end, first + n); ++i) {
        const int64_t strip = (i - first) * kStripsPerRange;
        const int64_t n_strips = std::min(kStripsPerRange, read.n_strips - strip);
        const int64_t offset = strip * read.matrix.strip_bytes();
        const int64_t bytes = std::min(n_strips * read.matrix.strip_bytes(), read.bytes - offset);
        pack_strips(read.matrix, n_strips, bytes, flight.rows + offset, load.memory + read.target + offset);
      }
      first += n;
    }
  });
}

void ExpertLoader::end_load(size_t number, std::vector<Loaded>& loaded) {
  Load& load = loads_[number];
  loaded.push_back({load.expert, load.urgency, load.bytes, load.arrived, std::move(load.status)});
  forget(number);
}

void ExpertLoader::forget(size_t number) {
  --n_loads_;
  loads_[number] = {};
  free_.push_back(number);
}

}  // namespace soli
