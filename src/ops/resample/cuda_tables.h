// SPDX-License-Identifier: Apache-2.0
// The tables of one axis as the separable kernel reads them. It needs an axis where each output feeds one input or two
// neighbours and where a later output feeds no earlier input: so is every scale, offset and convention, linear or
// nearest.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace bp::cuda {

// What an output feeds: `input` by the first weight, the next one by the second. A weight of 0 is no tap.
struct alignas(16) FedInputs {
  std::int32_t input;
  float weights[2];
};

// The outputs [begin, end) that feed an input.
struct alignas(8) OutputRun {
  std::int32_t begin, end;
};

// Pointers to device memory.
struct ResampleAxis {
  std::int32_t inputs = 1, outputs = 1;
  const FedInputs* fed = nullptr;   // for each output, and one more that feeds nothing
  const OutputRun* runs = nullptr;  // for each input
  const float* weights = nullptr;   // weights[k * inputs + i] is that of output runs[i].begin + k
};

struct ResampleTables {
  std::vector<FedInputs> fed;
  std::vector<OutputRun> runs;
  std::vector<float> weights;
  bool unit_weights = true;  // every weight is 1
  // Every weight is a multiple of 2^-13 in [0, 1]: its product with an f16 or bf16 is exact in f32.
  bool short_weights = true;
};

inline constexpr std::int32_t kMostTerms = 128;  // of one sum: more are summed in blocks

// From rows of (index, weight), one for each input, indices ascending; nothing where the axis is not as it must be.
inline std::optional<ResampleTables> make_tables(std::int32_t inputs, std::int32_t outputs, const std::int64_t* begin,
                                                 const std::int64_t* index, const double* weight) {
  ResampleTables tables;
  const FedInputs nothing{-1, {0, 0}};
  tables.fed.assign(static_cast<std::size_t>(outputs), nothing);
  std::int64_t longest = 0;
  for (std::int32_t i = 0; i < inputs; ++i) {
    longest = std::max(longest, begin[i + 1] - begin[i]);
    for (std::int64_t k = begin[i]; k < begin[i + 1]; ++k) {
      FedInputs& fed = tables.fed[static_cast<std::size_t>(index[k])];
      if (weight[k] == 0) return std::nullopt;  // a table may have them: 0 times infinity is a NaN
      if (fed.input < 0) fed.input = i;
      if (i - fed.input > 1) return std::nullopt;
      fed.weights[i - fed.input] = static_cast<float>(weight[k]);
      const double scaled = weight[k] * 8192;
      tables.unit_weights &= weight[k] == 1;
      tables.short_weights &= scaled == std::floor(scaled) && weight[k] >= 0 && weight[k] <= 1;
    }
  }
  if (longest > kMostTerms) return std::nullopt;
  // A few long sums among short ones would make a table out of all proportion.
  if (longest * inputs > 8 * (std::int64_t{inputs} + outputs)) return std::nullopt;
  std::int32_t last = 0;
  for (FedInputs& fed : tables.fed) {
    if (fed.input < 0) fed.input = last;
    if (fed.input < last) return std::nullopt;
    last = fed.input;
  }
  tables.fed.push_back({inputs, {0, 0}});
  // An input without outputs stands between its neighbours' runs.
  tables.weights.assign(static_cast<std::size_t>(longest) * static_cast<std::size_t>(inputs), 0.0f);
  std::int64_t begins = 0;
  std::int32_t end = 0;
  for (std::int32_t i = 0; i < inputs; ++i) {
    const std::int64_t count = begin[i + 1] - begin[i];
    if (count == 0) {
      tables.runs.push_back({end, end});
      continue;
    }
    const std::int64_t first = index[begin[i]];
    for (std::int64_t k = 0; k < count; ++k) {
      if (index[begin[i] + k] != first + k) return std::nullopt;
      tables.weights[static_cast<std::size_t>(k * inputs + i)] = static_cast<float>(weight[begin[i] + k]);
    }
    // Where a tap is missing in the middle, as tables may have it, a block's first and last input do not tell its
    // outputs.
    if (first < begins || first + count < end) return std::nullopt;
    begins = first;
    end = static_cast<std::int32_t>(first + count);
    tables.runs.push_back({static_cast<std::int32_t>(first), end});
  }
  return tables;
}

}  // namespace bp::cuda
