// SPDX-License-Identifier: Apache-2.0
// Where two tensors are innermost along different axes, runs of one of them are scattered over the other. They are
// walked in panels instead: some positions of the one axis by some of the other, which are transposed into scratch
// memory that the first cache holds (transpose-inl.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace bp::cpu {

struct PanelCut {
  static constexpr std::int64_t kBytes = 16384;  // of one panel
  // Fewer positions are not worth it, nor are runs whose elements are so near.
  static constexpr std::int64_t kLeast = 4, kNear = 2;

  // Positions of the axis across, of the one around the runs, and of the run in one panel, and how many panels they
  // make.
  std::int64_t width = 1, depth = 1, height = 1;
  std::int64_t columns = 1, layers = 1, rows = 1;

  PanelCut() = default;
  PanelCut(std::int64_t across, std::int64_t around, std::int64_t run, std::int64_t element) {
    const std::int64_t room = kBytes / element, line = 64 / element;
    const auto cut = [](std::int64_t size, std::int64_t most, std::int64_t unit, std::int64_t& each,
                        std::int64_t& count) {
      if (most > unit) most -= most % unit;
      count = (size + most - 1) / most;
      each = std::min(most, ((size + count - 1) / count + unit - 1) / unit * unit);
      count = (size + each - 1) / each;
      each = std::min(each, size);
    };
    const std::int64_t highest = room / std::min(across, line);
    cut(run, highest, line, height, rows);
    cut(around, std::max<std::int64_t>(highest / height, 1), 1, depth, layers);
    cut(across, room / (depth * height), line, width, columns);
  }
};

}  // namespace bp::cpu
