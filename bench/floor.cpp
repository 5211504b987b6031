// SPDX-License-Identifier: Apache-2.0
#include "floor.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace bench {

namespace {

// Lets another thread have the processor now and then: there may be more threads than processors.
template <class Condition>
void spin_until(const Condition& holds) {
  for (unsigned i = 1; !holds(); ++i) {
    if (i % 1024 == 0) std::this_thread::yield();
  }
}

// The part of a buffer that step `i` of `n` covers, on borders that leave the loops no rest.
template <class Byte>
std::span<Byte> part(std::span<Byte> whole, std::size_t i, std::size_t n) {
  const auto border = [&](std::size_t k) { return k == n ? whole.size() : whole.size() / n * k / 256 * 256; };
  return whole.subspan(border(i), border(i + 1) - border(i));
}

}  // namespace

// Workers that spin for the next piece of work while they are awake: a wake-up would cost more than small moves do.
class Floor::Crew {
 public:
  explicit Crew(int size) {
    for (int i = 1; i < size; ++i) threads_.emplace_back([this] { live(); });
  }
  ~Crew() {
    state_ = kEnds;
    state_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void wake() {
    state_ = kAwake;
    state_.notify_all();
    spin_until([&] { return awake_ == workers(); });
  }
  void sleep() {
    state_ = kAsleep;
    spin_until([&] { return awake_ == 0; });
  }
  void run(const std::function<void()>& work) {
    work_ = &work;
    done_.store(0, std::memory_order_relaxed);
    turn_.fetch_add(1, std::memory_order_release);
    work();
    spin_until([&] { return done_.load(std::memory_order_acquire) == workers(); });
  }

 private:
  enum State { kAsleep, kAwake, kEnds };

  [[nodiscard]] int workers() const { return static_cast<int>(threads_.size()); }

  void live() {
    for (;;) {
      state_.wait(kAsleep);
      if (state_ == kEnds) return;
      std::uint64_t seen = turn_;  // nothing runs before all have said that they are awake
      ++awake_;
      for (;;) {
        spin_until([&] { return turn_.load(std::memory_order_acquire) != seen || state_ != kAwake; });
        if (turn_.load(std::memory_order_acquire) == seen) break;
        ++seen;
        (*work_)();
        done_.fetch_add(1, std::memory_order_release);
      }
      --awake_;
    }
  }

  alignas(64) std::atomic<std::uint64_t> turn_{0};
  alignas(64) std::atomic<int> done_{0};
  std::vector<std::thread> threads_;
  const std::function<void()>* work_ = nullptr;
  std::atomic<State> state_{kAsleep};
  std::atomic<int> awake_{0};
};

Floor::Floor(int threads) : threads_(threads), crew_(std::make_unique<Crew>(threads)) {}

Floor::~Floor() = default;

Take Floor::while_awake(Take moves) {
  return [this, moves = std::move(moves)](const Turn& turn) {
    crew_->wake();
    const double time = moves(turn);
    crew_->sleep();
    return time;
  };
}

void Floor::run(const std::function<void()>& work) { crew_->run(work); }

void Floor::move(std::span<const std::span<const std::byte>> inputs, std::span<const std::span<std::byte>> outputs,
                 Stores stores) {
  std::size_t most = 1, all = 0;
  const auto count = [&](std::size_t size) {
    most = std::max(most, size);
    all += size;
  };
  for (const auto& buffer : inputs) count(buffer.size());
  for (const auto& buffer : outputs) count(buffer.size());
  // Found by trial: past the cache many short bursts keep all streams of memory going, within it long loops win.
  const std::size_t step = stores == Stores::non_temporal ? std::size_t{1} << 10 : std::size_t{64} << 10;
  // Several parts for each thread, so that a slow thread holds nobody up, but none that is not worth fetching.
  constexpr std::size_t kLeastPart = std::size_t{256} << 10;
  // So few bytes have moved before another thread has heard of it.
  constexpr std::size_t kForOneThread = std::size_t{128} << 10;
  const std::size_t n = all < kForOneThread ? 1 : static_cast<std::size_t>(threads_);
  const std::size_t parts = n * std::clamp<std::size_t>(most / n / kLeastPart, 1, n == 1 ? 1 : 8);
  const std::size_t steps = most / parts / step + 1;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t p = next++; p < parts; p = next++) {
      for (std::size_t s = 0; s < steps; ++s) {
        for (const auto& buffer : inputs) read_bytes(part(part(buffer, p, parts), s, steps));
        for (const auto& buffer : outputs) write_bytes(part(part(buffer, p, parts), s, steps), stores);
      }
    }
    hwy::FlushStream();  // non-temporal stores are not ordered with what says that they are done
  };
  n == 1 ? work() : crew_->run(work);
}

}  // namespace bench
