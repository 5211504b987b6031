// SPDX-License-Identifier: Apache-2.0
// What every measurement is made of: an operator that runs, its buffers, the proof that its result is right, and its
// race against the floor.
#pragma once

#include "buffers.h"
#include "device.h"
#include "floor.h"
#include "harness.h"
#include "race.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace bench {

// An operator and the workspace it runs in, which is on its device. Where it cannot be had, or its run fails:
// UsageError.
class Operator {
 public:
  Operator(const tools::Problem& problem, const tools::Tensors& specs, const tools::CreateOptions& options);

  [[nodiscard]] std::string name() const { return bp_operator_name(op_.get()); }
  [[nodiscard]] std::string implementation() const { return bp_operator_implementation(op_.get()); }
  [[nodiscard]] bool is_reference() const { return implementation() == "reference"; }
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] const bp_operator* get() const { return op_.get(); }

  void run(const std::vector<const void*>& in, const std::vector<void*>& out, void* stream = nullptr);
  void run(const BufferSet& set) { run(set.in, set.out); }

 private:
  tools::OperatorPtr op_;
  std::vector<std::max_align_t> workspace_;
  std::optional<tools::DeviceMemory> device_workspace_;
};

// All tensors of a problem, as often as it is needed, with the same inputs.
class Buffers {
 public:
  Buffers(const tools::Problem& problem, std::int32_t dtype, const tools::Tensors& specs, std::size_t count);

  [[nodiscard]] const std::vector<BufferSet>& sets() const { return sets_; }
  // The x whose winners are stored, where there are any.
  [[nodiscard]] const Memory* forward_x() const { return forward_ ? forward_->inputs.data() : nullptr; }
  void keep_one() {
    while (sets_.size() > 1) sets_.pop_back();
  }

 private:
  void fill_winners(const tools::Problem& problem, std::int32_t dtype, void* winners);

  std::vector<BufferSet> sets_;
  std::unique_ptr<BufferSet> forward_;
};

// How many sets of buffers that move so many bytes exceed the last-level cache, and this machine's share of it once
// more; so many are used, but at most kMostSets.
std::size_t sets_past_cache(std::uint64_t bytes);
inline constexpr std::size_t kMostSets = 64;

// What a result says of its operator before anything is timed.
Result result_of(const tools::Problem& problem, std::int32_t dtype, const Settings& settings, const Operator& op);

// The same problem with one image and a few channels, where those are not part of the question: small enough for the
// oracle.
tools::Problem shrunk(tools::Problem p);

// Empty, or what is wrong. `small` is the same question in a size for the oracle; at full size the reference is the
// judge. Leaves the operator's result in the set.
std::string verify(const tools::Problem& problem, const tools::Problem& small, std::int32_t dtype, Operator& op,
                   const tools::Tensors& specs, const BufferSet& set, const Settings& settings);

// The bytes of x that a slice of it must fetch: whole lines of the memory, in the rows that it has.
std::size_t fetched_bytes(const tools::Problem& slice, std::size_t element, std::int64_t line);

// An operator's entry in a race: itself, and the floor with both kinds of stores.
class Contest {
 public:
  Contest(const tools::Problem& problem, const tools::Tensors& specs, Operator& op, int threads)
      : problem_(problem), specs_(specs), op_(op), floor_(threads) {}

  static constexpr std::size_t kRacers = 3;
  void enter(std::vector<Racer>& racers, const std::vector<BufferSet>& sets);
  // Of the racers that it entered, from `first` on.
  static Timing timing(const std::vector<Racer>& racers, std::size_t first);

 private:
  void move(const BufferSet& set, Stores stores);

  const tools::Problem& problem_;
  const tools::Tensors& specs_;
  Operator& op_;
  Floor floor_;
  std::vector<std::span<const std::byte>> in_;
  std::vector<std::span<std::byte>> out_;
};

}  // namespace bench
