// SPDX-License-Identifier: Apache-2.0
// The scalar reference of max pooling. The gradient walks the windows in ascending order and adds each dy to its
// winner's accumulator, plane by plane: the contract's sum, in the contract's order.
#include "backends/cpu/loops.h"
#include "ops/max_pool/max_pool.h"
#include "ops/max_pool/search.h"

#include <algorithm>
#include <string>
#include <type_traits>

namespace bp::reference {

namespace {

Dims index5(std::int64_t n, std::int64_t c, const Spatial& s) { return {n, c, s[0], s[1], s[2]}; }
WindowIndex window_index(const Dims& i) { return {i[0], i[1], {i[2], i[3], i[4]}}; }

template <class T>
StoredWinner search(const PoolGeometry& g, const Tensor& x, const T* data, const WindowIndex& w) {
  const Spatial strides{x.strides[2], x.strides[3], x.strides[4]};
  return find_winner(g, data + cpu::offset(x, {w.n, w.c}), strides, w.o);
}

// Counts the wrong winners of a run and speaks of the first.
class WrongWinners {
 public:
  template <class Index>
  void add(const WindowIndex& w, Index stored) {
    if (count_++ > 0) return;
    first_ = w;
    is_signed_ = std::is_signed_v<Index>;
    stored_ = static_cast<std::uint64_t>(stored);
  }
  void report(std::string_view op, std::string_view tensor, int rank) const {
    if (count_ == 0) return;
    std::string at = fmt::format("{}, {}", first_.n, first_.c);
    const std::string value =
        is_signed_ ? fmt::format("{}", static_cast<std::int64_t>(stored_)) : fmt::format("{}", stored_);
    for (int i = 5 - rank; i < 3; ++i) at += fmt::format(", {}", first_.o[i]);
    if (count_ == 1) {
      invalid("{}: {}: at [{}] is {}, which is no tap of its window, expected a tap or none", op, tensor, at, value);
    }
    invalid("{}: {}: {} are no tap of their window, the first at [{}] is {}, expected a tap or none", op, tensor,
            count_, at, value);
  }

 private:
  std::int64_t count_ = 0;
  WindowIndex first_;
  bool is_signed_ = false;
  std::uint64_t stored_ = 0;
};

}  // namespace

void max_pool(const MaxPoolPlan& plan, const Bindings& bindings) {
  const PoolGeometry& g = plan.geometry;
  visit(MaxPool::Types{}, plan.x.dtype, [&]<class T>() {
    const T* x = bindings.input<T>(0);
    T* y = bindings.output<T>(0);
    const auto each_winner = [&](auto&& store) {
      cpu::for_each_index(plan.y.shape(), [&](const Dims& i) {
        const WindowIndex w = window_index(i);
        const StoredWinner winner = search(g, plan.x, x, w);
        const bool found = winner.state == StoredWinner::State::tap;
        y[cpu::offset(plan.y, i)] =
            found ? x[cpu::offset(plan.x, index5(w.n, w.c, g.position(w.o, winner.tap)))] : lowest<T>();
        store(i, w, winner);
      });
    };
    if (plan.winners.kind == WinnersKind::none) {
      each_winner([](const Dims&, const WindowIndex&, const StoredWinner&) {});
      return;
    }
    visit(IndexTypes{}, plan.winners.tensor.dtype, [&]<class Index>() {
      auto* winners = bindings.output<Index>(1);
      each_winner([&](const Dims& i, const WindowIndex& w, const StoredWinner& winner) {
        const bool found = winner.state == StoredWinner::State::tap;
        winners[cpu::offset(plan.winners.tensor, i)] =
            found ? encode<Index>(g, plan.winners.kind, w, winner.tap) : kNoWinner<Index>;
      });
    });
  });
}

std::size_t max_pool_grad_workspace(const MaxPoolGradPlan& plan) {
  if (plan.dx.empty()) return 0;
  const std::size_t accumulator = accumulates_in_f64(plan.dx.dtype) ? sizeof(double) : sizeof(float);
  return static_cast<std::size_t>(plan.geometry.plane()) * accumulator;
}

void max_pool_grad(const MaxPoolGradPlan& plan, const Bindings& bindings) {
  const PoolGeometry& g = plan.geometry;
  if (plan.dx.empty()) return;
  const Spatial outputs{g.axes[0].output, g.axes[1].output, g.axes[2].output};
  const Spatial inputs{g.axes[0].input, g.axes[1].input, g.axes[2].input};
  WrongWinners wrong;
  visit(MaxPoolGrad::Types{}, plan.dx.dtype, [&]<class T>() {
    const T* dy = bindings.input<T>(1);
    T* dx = bindings.output<T>(0);
    auto* sums = static_cast<Acc<T>*>(bindings.workspace);
    const auto scatter = [&](auto&& winner_of) {
      for (std::int64_t plane = 0; plane < g.batch * g.channels; ++plane) {
        const std::int64_t n = plane / g.channels;
        const std::int64_t c = plane % g.channels;
        std::fill_n(sums, g.plane(), Acc<T>{0});
        cpu::for_each_index(outputs, [&](const Dims& i) {
          const WindowIndex w{n, c, {i[0], i[1], i[2]}};
          const StoredWinner winner = winner_of(w);
          if (winner.state != StoredWinner::State::tap) return;
          sums[g.plane_index(g.position(w.o, winner.tap))] += widen(dy[cpu::offset(plan.dy, index5(n, c, w.o))]);
        });
        cpu::for_each_index(inputs, [&](const Dims& i) {
          const Spatial p{i[0], i[1], i[2]};
          dx[cpu::offset(plan.dx, index5(n, c, p))] = narrow<T>(sums[g.plane_index(p)]);
        });
      }
    };
    if (plan.winners.kind == WinnersKind::none) {
      const T* x = bindings.input<T>(0);
      scatter([&](const WindowIndex& w) { return search(g, plan.x, x, w); });
      return;
    }
    visit(IndexTypes{}, plan.winners.tensor.dtype, [&]<class Index>() {
      const auto* winners = bindings.input<Index>(2);
      scatter([&](const WindowIndex& w) {
        const Index stored = winners[cpu::offset(plan.winners.tensor, index5(w.n, w.c, w.o))];
        const StoredWinner winner = decode(g, plan.winners.kind, w, stored);
        if (winner.state == StoredWinner::State::wrong) wrong.add(w, stored);
        return winner;
      });
    });
  });
  wrong.report(MaxPoolGrad::kName, "winners", plan.rank);
}

void report_wrong_winners(const MaxPoolGradPlan& plan, const Bindings& bindings) {
  WrongWinners wrong;
  visit(IndexTypes{}, plan.winners.tensor.dtype, [&]<class Index>() {
    const auto* winners = bindings.input<Index>(2);
    cpu::for_each_index(plan.winners.tensor.shape(), [&](const Dims& i) {
      const Index stored = winners[cpu::offset(plan.winners.tensor, i)];
      const StoredWinner winner = decode(plan.geometry, plan.winners.kind, window_index(i), stored);
      if (winner.state == StoredWinner::State::wrong) wrong.add(window_index(i), stored);
    });
  });
  wrong.report(MaxPoolGrad::kName, "winners", plan.rank);
}

void convert_winners(const ConvertWinnersPlan& plan, const Bindings& bindings) {
  WrongWinners wrong;
  visit(IndexTypes{}, plan.from.tensor.dtype, [&]<class From>() {
    visit(IndexTypes{}, plan.to.tensor.dtype, [&]<class To>() {
      const auto* from = bindings.input<From>(0);
      auto* to = bindings.output<To>(0);
      cpu::for_each_index(plan.to.tensor.shape(), [&](const Dims& i) {
        const WindowIndex w = window_index(i);
        const From stored = from[cpu::offset(plan.from.tensor, i)];
        const StoredWinner winner = decode(plan.geometry, plan.from.kind, w, stored);
        if (winner.state == StoredWinner::State::wrong) wrong.add(w, stored);
        to[cpu::offset(plan.to.tensor, i)] = winner.state == StoredWinner::State::tap
                                                 ? encode<To>(plan.geometry, plan.to.kind, w, winner.tap)
                                                 : kNoWinner<To>;
      });
    });
  });
  wrong.report(ConvertWinners::kName, "from", plan.rank);
}

}  // namespace bp::reference
