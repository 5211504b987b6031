// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/parallel.h"

#include "core/cache_size.h"
#include "core/float_mode.h"

#include <hwy/cache_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

namespace bp::cpu {

namespace {

constexpr std::int64_t kPartsForEachThread = 4;

// The parts of a run, shared out: each worker has a range of its own, takes it from the front, and then helps the
// others from the back of theirs. So a worker finds in its caches what it left there in the run before, or in the
// operator before, and yet nobody waits for a slow one.
class Shares {
 public:
  Shares(std::int64_t parts, std::int64_t workers) : count_(std::min<std::int64_t>(workers, kMost)) {
    for (std::int64_t i = 0; i < count_; ++i) {
      const auto first = static_cast<std::uint64_t>(parts * i / count_);
      const auto end = static_cast<std::uint64_t>(parts * (i + 1) / count_);
      share_[i].left = first << 32 | end;
    }
  }

  // The next part for worker i, or -1.
  std::int64_t take(std::int64_t i) {
    const std::int64_t own = i % count_;
    if (const std::int64_t part = take_from(own, true); part >= 0) return part;
    for (std::int64_t k = 1; k < count_; ++k) {
      if (const std::int64_t part = take_from((own + k) % count_, false); part >= 0) return part;
    }
    return -1;
  }

 private:
  static constexpr std::int64_t kMost = 64;
  struct alignas(64) Share {
    std::atomic<std::uint64_t> left{0};  // parts [upper half, lower half)
  };

  std::int64_t take_from(std::int64_t i, bool front) {
    std::atomic<std::uint64_t>& left = share_[i].left;
    std::uint64_t now = left.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t first = now >> 32, end = now & 0xffffffffu;
      if (first == end) return -1;
      const std::uint64_t rest = front ? (first + 1) << 32 | end : first << 32 | (end - 1);
      if (left.compare_exchange_weak(now, rest, std::memory_order_relaxed)) {
        return static_cast<std::int64_t>(front ? first : end - 1);
      }
    }
  }

  std::int64_t count_;
  Share share_[kMost];
};

}  // namespace

std::uint64_t least_part() {
  static const std::uint64_t bytes = [] {
    const char* given = std::getenv("BACKPASS_PART_BYTES");
    const std::uint64_t number = given == nullptr ? 0 : std::strtoull(given, nullptr, 10);
    return number > 0 ? number : std::uint64_t{128} << 10;
  }();
  return bytes;
}

struct Team::Arena {
  tbb::task_arena arena;
};

Team::Team(const Settings& settings)
    : width_(settings.threads > 0 ? settings.threads : tbb::info::default_concurrency()),
      parallel_for_(settings.parallel_for),
      context_(settings.parallel_for_context) {
  if (width_ == 1 || parallel_for_ != nullptr) return;
  // oneTBB has no more threads than the processor, and would print that more are asked for.
  arena_ = std::make_unique<Arena>(Arena{tbb::task_arena(std::min(width_, tbb::info::default_concurrency()))});
}

Team::~Team() = default;

std::int64_t Team::parts(std::int64_t items, std::uint64_t bytes) const {
  const auto worth = static_cast<std::int64_t>(std::min<std::uint64_t>(bytes / least_part(), 1u << 20));
  if (width_ == 1 || worth < 2) return std::min<std::int64_t>(items, 1);
  return std::min({items, worth, kPartsForEachThread * width_});
}

void Team::run_erased(std::int64_t parts, Call call, const void* body) const {
  if (parts <= 0) return;
  const std::int64_t workers = std::min<std::int64_t>(parts, width_);
  if (workers == 1) {
    const FloatMode float_mode;
    for (std::int64_t part = 0; part < parts; ++part) call(body, part, 0);
    hwy::FlushStream();  // non-temporal stores are not ordered with what says that they are done
    return;
  }
  Shares shares(parts, workers);
  const auto work = [&](std::int64_t slot, std::int64_t worker) {
    const FloatMode float_mode;
    for (std::int64_t part = shares.take(worker); part >= 0; part = shares.take(worker)) {
      call(body, part, static_cast<int>(slot));
    }
    hwy::FlushStream();
  };
  if (parallel_for_ != nullptr) {
    const auto task = [](void* data, std::int64_t slot) { (*static_cast<decltype(work)*>(data))(slot, slot); };
    parallel_for_(context_, workers, task, const_cast<void*>(static_cast<const void*>(&work)));
    return;
  }
  // A thread has the same place in the arena in every run, as far as oneTBB can see to it.
  const auto task = [&](std::int64_t slot) { work(slot, tbb::this_task_arena::current_thread_index()); };
  arena_->arena.execute([&] { tbb::parallel_for(std::int64_t{0}, workers, task, tbb::simple_partitioner()); });
}

bool is_past_cache(std::uint64_t bytes) { return bytes > last_level_cache(); }

}  // namespace bp::cpu
