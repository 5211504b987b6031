// SPDX-License-Identifier: Apache-2.0
// Memory for one tensor that notices every byte touched outside of it: unreadable pages on both sides, the view hard
// against one of them, and a known pattern in every byte that belongs to no element.
#pragma once

#include "oracle/brute_force.h"
#include "problem.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tools {

class Buffer {
 public:
  enum class Against { front, back };  // which guard page the view touches
  Buffer(const TensorSpec& spec, Against side, std::byte gap);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] void* data() const { return origin_; }  // the address of element (0, ..., 0); null when absent
  void store(const Dense& values);
  [[nodiscard]] Dense load() const;
  [[nodiscard]] bool gaps_are_intact() const;
  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }  // of the view, its gaps included
  [[nodiscard]] std::vector<std::byte> snapshot() const { return {bytes_.begin(), bytes_.end()}; }

 private:
  template <class F>
  void each_element(F&& f) const;

  TensorSpec spec_;
  std::size_t element_ = 0;
  std::byte gap_;
  std::byte* mapping_ = nullptr;
  std::size_t mapping_size_ = 0;
  std::span<std::byte> bytes_;
  std::byte* origin_ = nullptr;
};

// Random contents by the problem's fill and seed; `salt` tells the tensors of one problem apart.
Dense random_values(const TensorSpec& spec, Fill fill, std::uint64_t seed, std::uint64_t salt);

std::int64_t element_count(const Ints& sizes);

}  // namespace tools
