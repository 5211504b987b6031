// SPDX-License-Identifier: Apache-2.0
// Which problems tiles take, and which tile each takes.
#include "ops/max_pool/cuda_tiles.h"

#include "backends/cuda/kernel.h"
#include "ops/max_pool/cuda_max_pool.h"
#include "ops/max_pool/cuda_scatter.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <limits>

namespace bp::cuda {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 4;  // with room for paddings and extents
constexpr int kMostTapBits = 31;                                              // a bit for each, and one for no winner

using Tensors = std::initializer_list<const Tensor*>;

// ---- What fits -----------------------------------------------------------------------------------------

std::size_t place_of(const PoolGeometry& g) {
  const PoolAxis &rows = g.axes[1], &columns = g.axes[2];
  const auto found = std::ranges::find_if(kTiledWindows, [&](const TiledWindow& w) {
    const auto is = [&](const PoolAxis& axis) {
      return axis.window == w.size && axis.stride == w.stride && axis.dilation == w.dilation;
    };
    return is(rows) && is(columns) && columns.start_padding == w.padding;
  });
  return static_cast<std::size_t>(found - kTiledWindows.begin());
}

bool contiguous(Tensors tensors, int axis) {
  return std::ranges::all_of(tensors, [&](const Tensor* t) { return t->sizes[axis] == 1 || t->strides[axis] == 1; });
}

// Whether threads keep to columns, rather than to channels.
bool is_planar(const PoolGeometry& g, Tensors tensors) {
  return contiguous(tensors, 4) && (g.channels == 1 || !contiguous(tensors, 1));
}

std::string refuse(const PoolGeometry& g, DType dtype, const Winners& winners, Tensors tensors) {
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return "the type is not f32, f16 or bf16";
  if (winners.kind != WinnersKind::none && (winners.kind != WinnersKind::compact || winners.tensor.dtype != DType::u8))
    return "the winners are not compact, in bytes";
  if (place_of(g) == kTiledWindows.size()) return "no kernel is compiled for such windows";
  if (!contiguous(tensors, 4) && !contiguous(tensors, 1))
    return "the tensors are not innermost along W, nor all along C";
  std::int64_t blocks = g.batch * g.channels;  // more of them than there will be
  for (const PoolAxis& axis : g.axes) {
    const std::int64_t padded = axis.input + axis.start_padding + axis.end_padding;
    if (axis.input == 0 || padded > kMost || axis.output > kMost / axis.stride)
      return "a spatial axis is too long, or empty";
    blocks = blocks > kMost ? kMost + 1 : blocks * (padded / 8 + 1);
  }
  if (g.batch == 0 || g.channels == 0 || blocks > kMost) return "there are too many planes, or none";
  return {};
}

// ---- Tiles ---------------------------------------------------------------------------------------------

// Where elements move together: so many of x and dx, so many of the other tensors.
struct Widths {
  int wide = 1, narrow = 1;
};

bool moves_in(int together, const Tensor& t, int innermost) {
  if (t.sizes[innermost] % together != 0) return false;
  for (int i = 0; i < 5; ++i) {
    if (i != innermost && t.sizes[i] > 1 && t.strides[i] % together != 0) return false;
  }
  return true;
}

// The tile for memory that is aligned, as the strides may allow it and the pointers of a run then do, and the other.
class Tiles {
 public:
  Tiles(const PoolGeometry& g, DType dtype, bool searches_only, bool planar, Tensors wide, Tensors narrow) {
    const PoolAxis &d = g.axes[0], &h = g.axes[1], &w = g.axes[2];
    const auto as_int = [](std::int64_t v) { return static_cast<int>(v); };
    odd_.dtype = dtype;
    odd_.window = place_of(g);
    odd_.problem = {.batch = static_cast<std::uint32_t>(g.batch),
                    .channels = static_cast<std::uint32_t>(g.channels),
                    .depth = as_int(d.input),
                    .height = as_int(h.input),
                    .width = as_int(w.input),
                    .out_depth = as_int(d.output),
                    .out_height = as_int(h.output),
                    .out_width = as_int(w.output),
                    .row_padding = as_int(h.start_padding),
                    .depth_window = as_int(d.window),
                    .depth_stride = as_int(d.stride)};
    odd_.tile = planar ? PoolTile::odd_columns : PoolTile::odd_channels;
    const TiledWindow& window = kTiledWindows[odd_.window];
    Widths together{.wide = kTileChannels, .narrow = kTileChannels};
    if (planar) {
      together = {.wide = tile_columns(window, size_of(dtype), searches_only),
                  .narrow = tile_windows(window, size_of(dtype), searches_only)};
    }
    aligned_ = odd_;
    const auto fits = [&](Tensors tensors, int count) {
      return std::ranges::all_of(tensors, [&](const Tensor* t) { return moves_in(count, *t, planar ? 4 : 1); });
    };
    if (!fits(wide, together.wide) || !fits(narrow, together.narrow)) return;
    aligned_.tile = planar ? PoolTile::columns : PoolTile::channels;
    wide_bytes_ = static_cast<std::size_t>(together.wide) * size_of(dtype);
    narrow_bytes_ = static_cast<std::size_t>(together.narrow) * size_of(dtype);
    winner_bytes_ = static_cast<std::size_t>(together.narrow);
  }

  // By the pointers of a run.
  [[nodiscard]] const TiledPool& of(std::initializer_list<const void*> wide, const void* narrow,
                                    const void* winners) const {
    const bool all = std::ranges::all_of(wide, [&](const void* data) { return is_aligned(data, wide_bytes_); }) &&
                     is_aligned(narrow, narrow_bytes_) && is_aligned(winners, winner_bytes_);
    return all ? aligned_ : odd_;
  }

 private:
  TiledPool aligned_, odd_;
  std::size_t wide_bytes_ = 1, narrow_bytes_ = 1, winner_bytes_ = 1;
};

// ---- max_pool ------------------------------------------------------------------------------------------

class TiledMaxPool {
 public:
  explicit TiledMaxPool(const MaxPoolPlan& plan)
      : x_(plan.x), y_(plan.y), winners_(plan.winners), tiles_(tiles_of(plan)) {}

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    const void* x = bindings.inputs[0];
    void* y = bindings.outputs[0];
    void* winners = winners_.kind == WinnersKind::none ? nullptr : bindings.outputs[1];
    return tiled_search(tiles_.of({x}, y, winners), view(x, x_), view(y, y_), view(winners, winners_.tensor), stream);
  }

 private:
  static Tiles tiles_of(const MaxPoolPlan& plan) {
    const DType dtype = plan.x.dtype;
    const Tensor &x = plan.x, &y = plan.y, &winners = plan.winners.tensor;
    if (plan.winners.kind == WinnersKind::none)
      return {plan.geometry, dtype, true, is_planar(plan.geometry, {&x, &y}), {&x}, {&y}};
    return {plan.geometry, dtype, true, is_planar(plan.geometry, {&x, &y, &winners}), {&x}, {&y, &winners}};
  }

  Tensor x_, y_;
  Winners winners_;
  Tiles tiles_;
};

// ---- max_pool_grad -------------------------------------------------------------------------------------

class TiledGather {
 public:
  explicit TiledGather(const MaxPoolGradPlan& plan)
      : report_(plan),
        winners_(plan.winners.tensor),
        dy_(plan.dy),
        dx_(plan.dx),
        tiles_(plan.geometry, dx_.dtype, false, is_planar(plan.geometry, {&dx_, &dy_, &winners_}), {&dx_},
               {&dy_, &winners_}) {}

  [[nodiscard]] static std::size_t workspace_bytes() { return sizeof(WrongWinnersFound); }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    const void *dy = bindings.inputs[1], *winners = bindings.inputs[2];
    void* dx = bindings.outputs[0];
    return tiled_gather(tiles_.of({dx}, dy, winners), view(winners, winners_), view(dy, dy_), view(dx, dx_),
                        static_cast<WrongWinnersFound*>(bindings.workspace), stream);
  }

  void check(const void* workspace, cudaStream_t stream) const { report_.read(workspace, stream); }

 private:
  WrongWinnersReport report_;
  Tensor winners_, dy_, dx_;
  Tiles tiles_;
};

class TiledRecompute {
 public:
  explicit TiledRecompute(const MaxPoolGradPlan& plan)
      : x_(plan.x),
        dy_(plan.dy),
        dx_(plan.dx),
        tiles_(plan.geometry, dx_.dtype, false, is_planar(plan.geometry, {&x_, &dy_, &dx_}), {&x_, &dx_}, {&dy_}) {}

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    const void *x = bindings.inputs[0], *dy = bindings.inputs[1];
    void* dx = bindings.outputs[0];
    return tiled_recompute(tiles_.of({x, dx}, dy, nullptr), view(x, x_), view(dy, dy_), view(dx, dx_), stream);
  }

 private:
  Tensor x_, dy_, dx_;
  Tiles tiles_;
};

// Where threads keep to channels: the winners are found first, into the workspace.
class SearchAndGather {
 public:
  explicit SearchAndGather(const MaxPoolGradPlan& plan)
      : x_(plan.x),
        dy_(plan.dy),
        dx_(plan.dx),
        winners_(winners_of(plan.dy)),
        search_(plan.geometry, x_.dtype, true, false, {&x_}, {&winners_}),
        gather_(plan.geometry, dx_.dtype, false, false, {&dx_}, {&dy_, &winners_}),
        scatters_(plan_scatter(plan.geometry, dx_.dtype, {&winners_, &dy_, &dx_}, scatter_).empty()) {
    if (scatters_) require(MaxPoolGrad::kName, "create", prepare_scatter(scatter_));
  }

  [[nodiscard]] std::size_t workspace_bytes() const {
    return kWinnersAt + static_cast<std::size_t>(winners_.count());  // tensors have more bytes than that
  }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    const void *x = bindings.inputs[0], *dy = bindings.inputs[1];
    void *dx = bindings.outputs[0], *winners = static_cast<std::byte*>(bindings.workspace) + kWinnersAt;
    auto* found = static_cast<WrongWinnersFound*>(bindings.workspace);  // there will be none
    const cudaError_t status = tiled_search(search_.of({x}, nullptr, winners), view(x, x_), MutablePoolView{},
                                            view(winners, winners_), stream);
    if (status != cudaSuccess) return status;
    const ConstPoolView from = view(static_cast<const void*>(winners), winners_);
    if (scatters_) return scatter_channels(scatter_, from, view(dy, dy_), view(dx, dx_), found, stream);
    return tiled_gather(gather_.of({dx}, dy, winners), from, view(dy, dy_), view(dx, dx_), found, stream);
  }

 private:
  static constexpr std::size_t kWinnersAt = 256;  // as aligned as tensors are
  static_assert(sizeof(WrongWinnersFound) <= kWinnersAt);

  // Without gaps, the channels innermost.
  static Tensor winners_of(const Tensor& dy) {
    Tensor winners = dy;
    winners.dtype = DType::u8;
    winners.strides = packed_strides(dy.shape());
    const Dims& sizes = dy.sizes;
    winners.strides[4] = sizes[1];
    winners.strides[3] = sizes[4] * winners.strides[4];
    winners.strides[2] = sizes[3] * winners.strides[3];
    winners.strides[1] = 1;
    return winners;
  }

  Tensor x_, dy_, dx_, winners_;
  Tiles search_, gather_;
  ScatterPool scatter_{};
  bool scatters_;
};

}  // namespace

std::string refuse_tiles(const MaxPoolPlan& plan) {
  if (!is_trivial(plan.geometry.axes[0])) return "there is a depth axis";
  if (plan.winners.kind == WinnersKind::none)
    return refuse(plan.geometry, plan.x.dtype, plan.winners, {&plan.x, &plan.y});
  return refuse(plan.geometry, plan.x.dtype, plan.winners, {&plan.x, &plan.y, &plan.winners.tensor});
}

std::string refuse_tiles(const MaxPoolGradPlan& plan) {
  const PoolGeometry& g = plan.geometry;
  std::string why = refuse(g, plan.dx.dtype, plan.winners, {&plan.choice(), &plan.dy, &plan.dx});
  const PoolAxis& depth = g.axes[0];
  if (!why.empty() || is_trivial(depth)) return why;
  if (plan.recomputes()) return "there is a depth axis, and no stored winners";
  if (!tiles_volumes(kTiledWindows[place_of(g)])) return "no kernel is compiled for such windows with a depth axis";
  if (g.taps() > kMostTapBits || depth.window > depth.stride || depth.start_padding != 0 || depth.dilation != 1)
    return "windows overlap along the depth, or have padding there";
  // The walk goes over the depths of dx: windows beyond the last one would not be looked at.
  if ((depth.output - 1) * depth.stride >= depth.input) return "windows lie beyond the depth";
  return {};
}

std::unique_ptr<Kernel> make_tiles(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings) {
  return make<MaxPool, TiledMaxPool>(std::move(plan), settings);
}
std::unique_ptr<Kernel> make_tiles(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings) {
  if (!plan->recomputes()) return make<MaxPoolGrad, TiledGather>(std::move(plan), settings);
  const bool planar = is_planar(plan->geometry, {&plan->x, &plan->dy, &plan->dx});
  const bool fused = recomputes_at_once(kTiledWindows[place_of(plan->geometry)], planar);
  const auto make_body = fused ? make<MaxPoolGrad, TiledRecompute> : make<MaxPoolGrad, SearchAndGather>;
  return make_body(std::move(plan), settings);
}

}  // namespace bp::cuda
