// SPDX-License-Identifier: Apache-2.0
// The memory of the problems that are timed.
#pragma once

#include "problem.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace bench {

// Pages of their own, touched before anything is timed. They are shared, so that a peer in another process computes on
// the same bytes.
class Memory {
 public:
  explicit Memory(std::size_t size);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory& operator=(Memory&&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, size_}; }
  // The file under which another process finds them.
  [[nodiscard]] std::string path() const;

 private:
  int file_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Where in the memory of a tensor its element (0, ..., 0) is.
std::byte* origin(const Memory& memory, const tools::TensorSpec& spec);

// The tensors of one problem in memory.
struct BufferSet {
  explicit BufferSet(const tools::Tensors& specs);

  std::vector<Memory> inputs, outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
};

// Small reals of both signs in any type: never NaN, and sums stay finite.
void fill(const tools::TensorSpec& spec, std::span<std::byte> bytes, std::uint64_t seed);

}  // namespace bench
