// SPDX-License-Identifier: Apache-2.0
// What the oracle counts with: dense arrays of raw bits, and raw bits <-> values, by arithmetic.
#pragma once

#include "oracle/brute_force.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace tools::oracle {

using std::int32_t;
using std::int64_t;
using std::uint64_t;

// Holds every i64 and u64 value, and the numerator of every exact coordinate.
__extension__ typedef __int128 i128;

using Bits = std::vector<uint64_t>;

inline std::size_t at(int64_t index) { return static_cast<std::size_t>(index); }
inline int64_t length(std::size_t size) { return static_cast<int64_t>(size); }

int64_t element_count(const Ints& sizes);
Dense zeros(int32_t dtype, const Ints& sizes);

// ---- Types -----------------------------------------------------------------------------------------------

bool is_float(int32_t dtype);
uint64_t all_ones(int32_t dtype);
uint64_t lowest_bits(int32_t dtype);  // of the lowest value: -infinity, or the least integer

// ---- Values ----------------------------------------------------------------------------------------------

i128 integer_value(uint64_t bits, int32_t dtype);
uint64_t integer_bits(i128 value, int32_t dtype);

// Exact for all but integers beyond 2^53.
double real_value(uint64_t bits, int32_t dtype);

// Floats round once, to nearest even. Integers do too, and saturate; NaN becomes 0.
uint64_t stored_bits(double value, int32_t dtype);

template <class Acc>
Acc round_to(double value) {
  constexpr int32_t dtype = std::is_same_v<Acc, double> ? BP_F64 : BP_F32;
  return static_cast<Acc>(real_value(stored_bits(value, dtype), dtype));
}

// ---- Whole tensors ---------------------------------------------------------------------------------------

template <class Acc>
std::vector<Acc> accumulators(const Dense& tensor) {
  std::vector<Acc> values;
  values.reserve(tensor.bits.size());
  for (const uint64_t bits : tensor.bits) values.push_back(static_cast<Acc>(real_value(bits, tensor.dtype)));
  return values;
}

template <class Acc>
Dense to_storage(int32_t dtype, const Ints& sizes, const std::vector<Acc>& values) {
  Dense tensor{dtype, sizes, {}};
  for (const Acc value : values) tensor.bits.push_back(stored_bits(value, dtype));
  return tensor;
}

}  // namespace tools::oracle
