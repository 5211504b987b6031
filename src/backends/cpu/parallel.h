// SPDX-License-Identifier: Apache-2.0
// Threads: oneTBB's, or the caller's own parallel-for.
#pragma once

#include "core/operator.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace bp::cpu {

// Bytes below which a part is done before another thread has woken up. BACKPASS_PART_BYTES is for tests, which want
// many parts of small problems.
std::uint64_t least_part();

// The threads that one operator may use.
class Team {
 public:
  explicit Team(const Settings& settings);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // The most parts that run at once.
  [[nodiscard]] int width() const { return width_; }

  // Into how many parts to cut `items` that move so many bytes in all: one where waking a thread would cost more than
  // it saves, and several for each thread otherwise, so that a slow thread holds nobody up.
  [[nodiscard]] std::int64_t parts(std::int64_t items, std::uint64_t bytes) const;

  // Calls body(part, slot) once for every part below `parts`. At any time at most one call has a given slot, a number
  // below width(): scratch memory is one piece for each slot. The body must not throw.
  template <class Body>
  void run(std::int64_t parts, const Body& body) const {
    run_erased(
        parts, [](const void* data, std::int64_t part, int slot) { (*static_cast<const Body*>(data))(part, slot); },
        &body);
  }

  // The same over items: body(first, last, slot) for consecutive ranges.
  template <class Body>
  void run_items(std::int64_t items, std::uint64_t bytes, const Body& body) const {
    const std::int64_t count = parts(items, bytes);
    run(count,
        [&](std::int64_t part, int slot) { body(border(items, part, count), border(items, part + 1, count), slot); });
  }

 private:
  using Call = void (*)(const void* body, std::int64_t part, int slot);
  void run_erased(std::int64_t parts, Call call, const void* body) const;
  // Where part k of n begins.
  static std::int64_t border(std::int64_t items, std::int64_t k, std::int64_t n) {
    return items / n * k + items % n * k / n;
  }

  struct Arena;
  int width_ = 1;
  bp_parallel_for parallel_for_ = nullptr;
  void* context_ = nullptr;
  std::unique_ptr<Arena> arena_;
};

// Whether a run that moves so many bytes in all leaves nothing in the last cache that its user could find there: then
// non-temporal stores, which do not read the line they write, cost nothing and save a third of the traffic.
bool is_past_cache(std::uint64_t bytes);

}  // namespace bp::cpu
