// SPDX-License-Identifier: Apache-2.0
// A plan in slabs: pieces along axes that all its tensors share and that no sum crosses, so small that what is copied
// for one of them is still in the second cache when it is used.
#pragma once

#include "core/operator.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

namespace bp::cpu {

class Slabs {
 public:
  // `axes` may be cut, outermost first.
  Slabs(std::span<const int> axes, std::span<const Tensor* const> tensors);

  [[nodiscard]] std::int64_t count() const;
  // Whether they are as small as they should be, and so many that each of `threads` has several.
  [[nodiscard]] bool are_small() const { return are_small_; }
  [[nodiscard]] bool are_many(int threads) const { return count() >= std::int64_t{4} * threads; }
  // The most positions of the axis that is cut into pieces; and those of the last piece.
  [[nodiscard]] std::int64_t piece() const { return piece_; }
  [[nodiscard]] std::int64_t last_piece() const { return size_ - (pieces() - 1) * piece_; }
  // `t` as a slab has it, with so many positions.
  [[nodiscard]] Tensor cut(const Tensor& t, std::int64_t positions) const;
  // The elements of `t` before a slab.
  [[nodiscard]] std::int64_t offset(const Tensor& t, std::int64_t slab) const;
  [[nodiscard]] bool ends_axis(std::int64_t slab) const { return slab % pieces() == pieces() - 1; }

 private:
  [[nodiscard]] std::int64_t pieces() const { return (size_ + piece_ - 1) / piece_; }

  std::vector<int> walked_;  // of which a slab has one position
  Dims sizes_{};
  int axis_ = -1;  // that is cut into pieces; none: the plan is one slab
  std::int64_t size_ = 1, piece_ = 1;
  bool are_small_ = false;
};

// Runs a kernel for one slab after the other, each on one thread. `make(positions, settings)` makes it. Where kernels
// throw, which knows nothing of the whole, `report` is called when all are done, to throw in their stead.
using MakeSlab = std::function<std::unique_ptr<Kernel>(std::int64_t positions, const Settings& settings)>;
using ReportSlabs = std::function<void(const Bindings&)>;
std::unique_ptr<Kernel> make_in_slabs(Slabs slabs, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                                      const Settings& settings, const MakeSlab& make, ReportSlabs report = {});

}  // namespace bp::cpu
