// SPDX-License-Identifier: Apache-2.0
// Several ways of doing the same work, timed in turns, so that whatever the machine is doing meanwhile happens to all.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace bench {

// What a racer does in one turn: first `untimed` calls, which wake its threads and its code, then `timed` ones, each on
// the next set of buffers.
struct Turn {
  std::size_t first_set = 0;
  int untimed = 0;
  int timed = 1;
};

// Takes a turn and returns the nanoseconds of the timed calls together.
using Take = std::function<double(const Turn&)>;

class Racer {
 public:
  explicit Racer(Take take) : take_(std::move(take)) {}

  [[nodiscard]] double median() const;
  // The interquartile range over the median.
  [[nodiscard]] double spread() const;
  [[nodiscard]] int turns() const { return static_cast<int>(times_.size()); }

 private:
  friend void race(std::vector<Racer>& racers, std::size_t sets, double seconds, int least_turns);
  Take take_;
  std::vector<double> times_;  // of one call
  double spent_ = 0;
  int untimed_ = 0, timed_ = 1;
};

// The first racer decides how long it takes: until it has spent its seconds, and has had its turns. All are asleep
// between two turns, so that no threads spin on during another's, and the scheduler owes each the same.
void race(std::vector<Racer>& racers, std::size_t sets, double seconds, int least_turns);

// Turns of calls in this process: call(set).
Take calls_here(std::size_t sets, std::function<void(std::size_t)> call);

}  // namespace bench
