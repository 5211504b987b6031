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
  std::atomic<std::int64_t> next{0};
  const auto work = [&](std::int64_t slot) {
    const FloatMode float_mode;
    for (std::int64_t part = next++; part < parts; part = next++) call(body, part, static_cast<int>(slot));
    hwy::FlushStream();  // non-temporal stores are not ordered with what says that they are done
  };
  const std::int64_t workers = std::min<std::int64_t>(parts, width_);
  if (workers == 1) return work(0);
  if (parallel_for_ != nullptr) {
    const auto task = [](void* data, std::int64_t slot) { (*static_cast<decltype(work)*>(data))(slot); };
    parallel_for_(context_, workers, task, const_cast<void*>(static_cast<const void*>(&work)));
    return;
  }
  arena_->arena.execute([&] { tbb::parallel_for(std::int64_t{0}, workers, work, tbb::simple_partitioner()); });
}

bool is_past_cache(std::uint64_t bytes) { return bytes > last_level_cache(); }

}  // namespace bp::cpu
