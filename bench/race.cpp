// SPDX-License-Identifier: Apache-2.0
#include "race.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace bench {

namespace {

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

}  // namespace

double Racer::median() const { return quantile(times_, 0.5); }

double Racer::spread() const { return (quantile(times_, 0.75) - quantile(times_, 0.25)) / median(); }

void race(std::vector<Racer>& racers, std::size_t sets, double seconds, int least_turns) {
  // One set of buffers is to be in the cache, and the floor before has sent it to memory: one call does not bring it
  // back where the last cache takes only lines that come twice.
  const int untimed = sets == 1 ? 3 : 1;
  const double long_call = sets == 1 ? 2e7 : 2e6;  // beyond this a call is not worth preparing for
  constexpr double kTurn = 1e5;                    // calls that are shorter are timed several at a time
  constexpr double kPatience = 10e9;               // a slow operator's median needs no five turns
  constexpr int kFewest = 3, kMost = 200;
  constexpr std::chrono::microseconds kPause(200);
  std::size_t next_set = 0;
  const auto take = [&](Racer& racer) {
    std::this_thread::sleep_for(kPause);
    const double time = racer.take_({next_set, racer.untimed_, racer.timed_});
    next_set = (next_set + static_cast<std::size_t>(racer.untimed_ + racer.timed_)) % sets;
    return time / racer.timed_;
  };
  for (Racer& racer : racers) {
    take(racer);  // whatever is done only once
    const double estimate = std::max(take(racer), 1.0);
    racer.untimed_ = estimate < long_call ? untimed : 0;
    racer.timed_ = static_cast<int>(std::clamp(kTurn / estimate, 1.0, 1000.0));
  }
  const auto goes_on = [&](const Racer& racer) {
    if (racer.turns() < kFewest) return true;
    if (racer.turns() < least_turns) return racer.spent_ < kPatience;
    return racer.spent_ < seconds * 1e9 && racer.turns() < kMost;
  };
  while (goes_on(racers.front())) {
    for (Racer& racer : racers) {
      // One that is much slower than the first need not be as exact.
      if (racer.turns() >= kFewest && racer.spent_ > 4 * std::max(seconds * 1e9, racers.front().spent_)) continue;
      racer.times_.push_back(take(racer));
      racer.spent_ += racer.times_.back() * racer.timed_;
    }
  }
}

Take calls_here(std::size_t sets, std::function<void(std::size_t)> call) {
  return [sets, call = std::move(call)](const Turn& turn) {
    std::size_t set = turn.first_set;
    const auto calls = [&](int count) {
      for (int i = 0; i < count; ++i) call(set++ % sets);
    };
    calls(turn.untimed);
    const auto start = std::chrono::steady_clock::now();
    calls(turn.timed);
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  };
}

}  // namespace bench
