// SPDX-License-Identifier: Apache-2.0
// The tables of a resample: for each axis the taps of every output, or, for the gradient, the outputs of every input.
// Built once, on the host; every backend reads them.
#pragma once

#include "core/tensor.h"
#include "ops/resample/geometry.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bp {

// Rows of (index, weight): forward, row o lists the source elements of output o; in the gradient, row i lists the
// outputs that element i feeds. Indices ascend within a row.
struct AxisTable {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  bool left_alone = false;  // every o maps to itself with weight 1: no rows are kept
  bool movement = false;    // forward: every row has one tap whose value is copied
  std::vector<std::int64_t> begin{};
  std::vector<std::int64_t> index{};
  std::vector<double> weight{};

  [[nodiscard]] std::int64_t longest_row() const;
};

// The map of a desc, validated and copied.
struct ResampleMap {
  struct Axis {
    enum class Source { exact, scaled, table };
    Source source = Source::exact;
    ScaledAxis scaled{};
    std::vector<std::int64_t> first, count;
    std::vector<double> weights;
  };

  bool linear = true;
  Rounding rounding = Rounding::half_up;
  Convention convention = Convention::half_pixel;
  int rank = 0;
  std::array<Axis, kMaxRank> axes;
  std::string text;  // the map in the words of the command line
};

enum class Direction { forward, gradient };

// x and y are the forward sizes.
ResampleMap read_map(std::string_view op, const bp_resample_map* desc, const Tensor& x, const Tensor& y);
AxisTable build_table(std::string_view op, const ResampleMap& map, int axis, std::int64_t inputs, std::int64_t outputs,
                      Accumulator accumulator, Direction direction);

}  // namespace bp
