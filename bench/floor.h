// SPDX-License-Identifier: Apache-2.0
// The floor: how long it takes to read some bytes and write some others and do nothing else. It is the limit that a
// CPU implementation is measured against, on the same buffers, with the same threads, in the same run.
#pragma once

#include "race.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace bench {

// Ordinary stores first read the line they write; non-temporal ones do not, but leave nothing in the cache.
enum class Stores { ordinary, non_temporal };

class Floor {
 public:
  explicit Floor(int threads);
  ~Floor();
  Floor(const Floor&) = delete;
  Floor& operator=(const Floor&) = delete;

  [[nodiscard]] int threads() const { return threads_; }

  // Turns during which all threads are awake, so that no move pays for waking them; before and afterwards they sleep,
  // so that they disturb nobody.
  Take while_awake(Take moves);
  // Reads every input and writes every output once, in step. Only while awake.
  void move(std::span<const std::span<const std::byte>> inputs, std::span<const std::span<std::byte>> outputs,
            Stores stores);
  // The same on every thread at once. Only while awake.
  void run(const std::function<void()>& work);

 private:
  class Crew;
  int threads_;
  std::unique_ptr<Crew> crew_;
};

// One thread's loops, with the widest vectors there are.
void read_bytes(std::span<const std::byte> bytes);
void write_bytes(std::span<std::byte> bytes, Stores stores);

}  // namespace bench
