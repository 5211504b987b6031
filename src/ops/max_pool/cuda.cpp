// SPDX-License-Identifier: Apache-2.0
// Max pooling on CUDA: the implementation lists and what each prepares.
#include "ops/max_pool/cuda.h"

#include "backends/cuda/kernel.h"
#include "core/checked.h"
#include "ops/max_pool/cuda_max_pool.h"

#include <cstdlib>
#include <limits>

namespace bp::cuda {

namespace {

// ---- Plans as kernels take them ------------------------------------------------------------------------

constexpr std::int64_t kMost32 = std::numeric_limits<std::int32_t>::max();

bool fits_32_bits(const PoolGeometry& g) {
  if (g.taps() > kMost32 || g.plane() > kMost32) return false;
  for (const PoolAxis& axis : g.axes) {
    const std::int64_t padded = axis.input + axis.start_padding + axis.end_padding;
    if (padded > kMost32 - axis.stride - axis.extent() || axis.output > kMost32) return false;
  }
  return true;
}
bool fits_32_bits(const Tensor& tensor) {
  if (tensor.rank == 0) return true;  // there is none
  if (tensor.count() > kMost32) return false;
  std::int64_t reach = 0;
  for (int i = 2; i < 5; ++i) reach += std::abs(tensor.strides[i]) * (tensor.sizes[i] - 1);
  return reach <= kMost32;
}

template <class Int>
BasicSpatial<Int> spatial_of(std::int64_t d, std::int64_t h, std::int64_t w) {
  return {static_cast<Int>(d), static_cast<Int>(h), static_cast<Int>(w)};
}

template <class Int>
BasicPoolGeometry<Int> geometry_of(const PoolGeometry& g) {
  BasicPoolGeometry<Int> result{.batch = static_cast<Int>(g.batch), .channels = static_cast<Int>(g.channels)};
  for (int i = 0; i < 3; ++i) {
    const PoolAxis& axis = g.axes[i];
    result.axes[i] = {.input = static_cast<Int>(axis.input),
                      .output = static_cast<Int>(axis.output),
                      .window = static_cast<Int>(axis.window),
                      .stride = static_cast<Int>(axis.stride),
                      .start_padding = static_cast<Int>(axis.start_padding),
                      .end_padding = static_cast<Int>(axis.end_padding),
                      .dilation = static_cast<Int>(axis.dilation)};
  }
  return result;
}

template <class Int>
PoolStrides<Int> strides_of(const Tensor& tensor) {
  const Dims& s = tensor.strides;
  return {.n = s[0], .c = s[1], .spatial = spatial_of<Int>(s[2], s[3], s[4])};
}

template <class Int>
PoolOrder<Int> order_of(const Tensor& tensor) {
  using By = Divisor<std::make_unsigned_t<Int>>;
  PoolOrder<Int> order{.count = tensor.count()};
  if (order.count == 0) return order;  // nothing is launched, and nothing is divided by 0
  order.channels_last = tensor.sizes[1] > 1 && std::abs(tensor.strides[1]) < std::abs(tensor.strides[4]);
  order.channels = By(tensor.sizes[1]);
  for (int i = 0; i < 3; ++i) order.spatial[i] = By(tensor.sizes[2 + i]);
  return order;
}

template <class Int>
IndexTensor<Int> index_tensor(const Winners& winners) {
  if (winners.kind == WinnersKind::none) return {};
  const DType dtype = winners.tensor.dtype;
  return {.kind = winners.kind,
          .size = static_cast<int>(size_of(dtype)),
          .is_signed = dtype == DType::i32 || dtype == DType::i64,
          .strides = strides_of<Int>(winners.tensor)};
}

template <class Int>
PoolSearch<Int> search_of(const PoolGeometry& geometry, const Tensor& x, const Tensor& windows,
                          const Winners& winners) {
  return {.geometry = geometry_of<Int>(geometry),
          .order = order_of<Int>(windows),
          .x = strides_of<Int>(x),
          .winners = index_tensor<Int>(winners)};
}

}  // namespace

WinnerSearch::WinnerSearch(const MaxPoolGradPlan& plan, const Tensor& winners)
    : dtype_(plan.x.dtype),
      fits_32_bits_(fits_32_bits(plan.geometry) && fits_32_bits(plan.x) && fits_32_bits(winners)) {
  const Winners found{.kind = WinnersKind::compact, .tensor = winners};
  if (fits_32_bits_) {
    of_32_bits_ = search_of<std::int32_t>(plan.geometry, plan.x, winners, found);
  } else {
    of_64_bits_ = search_of<std::int64_t>(plan.geometry, plan.x, winners, found);
  }
}

cudaError_t WinnerSearch::launch(const void* x, void* winners, cudaStream_t stream) const {
  if (fits_32_bits_) return pool_search(dtype_, x, nullptr, winners, of_32_bits_, stream);
  return pool_search(dtype_, x, nullptr, winners, of_64_bits_, stream);
}

// ---- What a run found wrong ----------------------------------------------------------------------------

void WrongWinnersReport::read(const void* workspace, cudaStream_t stream) const {
  if (workspace == nullptr) invalid("{}: workspace: the pointer is null, expected that of the run", op_);
  cudaStreamCaptureStatus capture{};
  require(op_, "check", cudaStreamIsCapturing(stream, &capture));
  if (capture != cudaStreamCaptureStatusNone)
    unsupported("{}: check: the stream is being captured into a graph, expected a check after the graph has run", op_);
  WrongWinnersFound found{};
  require(op_, "check", cudaMemcpyAsync(&found, workspace, sizeof found, cudaMemcpyDeviceToHost, stream));
  require(op_, "check", cudaStreamSynchronize(stream));
  if (found.count == 0) return;
  auto number = static_cast<std::int64_t>(~found.first_inverted);
  std::string at;
  for (int i = 2; i >= 5 - rank_; --i) {
    at = fmt::format(", {}{}", number % geometry_.axes[i].output, at);
    number /= geometry_.axes[i].output;
  }
  at = fmt::format("{}, {}{}", number / geometry_.channels, number % geometry_.channels, at);
  if (found.count == 1) invalid("{}: {}: at [{}] is no tap of its window, expected a tap or none", op_, tensor_, at);
  invalid("{}: {}: {} are no tap of their window, the first at [{}], expected a tap or none", op_, tensor_, found.count,
          at);
}

namespace {

// ---- max_pool ------------------------------------------------------------------------------------------

template <class Int>
class Search {
 public:
  explicit Search(const MaxPoolPlan& plan)
      : dtype_(plan.x.dtype),
        search_{.geometry = geometry_of<Int>(plan.geometry),
                .order = order_of<Int>(plan.y),
                .x = strides_of<Int>(plan.x),
                .y = strides_of<Int>(plan.y),
                .winners = index_tensor<Int>(plan.winners)} {}

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    return pool_search(dtype_, bindings.inputs[0], bindings.outputs[0], bindings.outputs[1], search_, stream);
  }

 private:
  DType dtype_;
  PoolSearch<Int> search_;
};

std::unique_ptr<Kernel> make_search(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings) {
  const bool fits = fits_32_bits(plan->geometry) && fits_32_bits(plan->x) && fits_32_bits(plan->y) &&
                    fits_32_bits(plan->winners.tensor);
  return (fits ? make<MaxPool, Search<std::int32_t>> : make<MaxPool, Search<std::int64_t>>)(std::move(plan), settings);
}

// ---- max_pool_grad -------------------------------------------------------------------------------------

// Winners that are recomputed go through the workspace, in their compact form.
template <class Int>
class Gather {
 public:
  explicit Gather(const MaxPoolGradPlan& plan)
      : report_(plan),
        dtype_(plan.dx.dtype),
        stored_(plan.winners.kind != WinnersKind::none),
        gather_{.geometry = geometry_of<Int>(plan.geometry),
                .order = order_of<Int>(plan.dx),
                .windows = plan.dx.empty() ? PoolOrder<Int>{} : order_of<Int>(plan.dy),
                .dy = strides_of<Int>(plan.dy),
                .dx = strides_of<Int>(plan.dx),
                .winners = index_tensor<Int>(stored_ ? plan.winners : recomputed(plan))} {
    for (int i = 0; i < 3; ++i) gather_.reaching[i] = reaching(plan.geometry.axes[i]);
    if (stored_) return;
    search_ = {.geometry = gather_.geometry,
               .order = gather_.windows,
               .x = strides_of<Int>(plan.x),
               .winners = gather_.winners};
  }

  [[nodiscard]] std::size_t workspace_bytes() const {
    if (stored_) return sizeof(WrongWinnersFound);
    const Checked bytes = multiply(gather_.windows.count, gather_.winners.size);
    return bytes ? static_cast<std::size_t>(*bytes) : std::numeric_limits<std::size_t>::max() / 2;
  }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    const void* dy = bindings.inputs[1];
    void* dx = bindings.outputs[0];
    if (stored_) {
      auto* found = static_cast<WrongWinnersFound*>(bindings.workspace);
      return pool_gather(dtype_, bindings.inputs[2], dy, dx, found, gather_, stream);
    }
    const cudaError_t status = pool_search(dtype_, bindings.inputs[0], nullptr, bindings.workspace, search_, stream);
    if (status != cudaSuccess) return status;
    return pool_gather(dtype_, bindings.workspace, dy, dx, nullptr, gather_, stream);
  }

  void check(const void* workspace, cudaStream_t stream) const {
    if (stored_) report_.read(workspace, stream);
  }

 private:
  static Winners recomputed(const MaxPoolGradPlan& plan) {
    Winners winners{.kind = WinnersKind::compact, .tensor = plan.dy};
    winners.tensor.dtype = compact_dtype(plan.geometry);
    winners.tensor.strides = packed_strides(plan.dy.shape());
    return winners;
  }
  static ReachingWindows<Int> reaching(const PoolAxis& axis) {
    using By = Divisor<std::make_unsigned_t<Int>>;
    return {.output = static_cast<Int>(axis.output),
            .start_padding = static_cast<Int>(axis.start_padding),
            .reach = static_cast<Int>(axis.extent() - 1),
            .stride = By(axis.stride),
            .dilation = By(axis.dilation)};
  }

  WrongWinnersReport report_;
  DType dtype_;
  bool stored_;
  PoolGather<Int> gather_;
  PoolSearch<Int> search_{};
};

std::unique_ptr<Kernel> make_gather(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings) {
  const bool fits = fits_32_bits(plan->geometry) && fits_32_bits(plan->x) && fits_32_bits(plan->dy) &&
                    fits_32_bits(plan->dx) && fits_32_bits(plan->winners.tensor);
  return (fits ? make<MaxPoolGrad, Gather<std::int32_t>> : make<MaxPoolGrad, Gather<std::int64_t>>)(std::move(plan),
                                                                                                    settings);
}

// ---- convert_winners -----------------------------------------------------------------------------------

class Convert {
 public:
  explicit Convert(const ConvertWinnersPlan& plan)
      : report_(plan),
        convert_{.geometry = plan.geometry,
                 .order = order_of<std::int64_t>(plan.to.tensor),
                 .from = index_tensor<std::int64_t>(plan.from),
                 .to = index_tensor<std::int64_t>(plan.to)} {}

  [[nodiscard]] static std::size_t workspace_bytes() { return sizeof(WrongWinnersFound); }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    return pool_convert(bindings.inputs[0], bindings.outputs[0], static_cast<WrongWinnersFound*>(bindings.workspace),
                        convert_, stream);
  }

  void check(const void* workspace, cudaStream_t stream) const { report_.read(workspace, stream); }

 private:
  WrongWinnersReport report_;
  PoolConvert convert_;
};

constexpr Implementation<MaxPoolPlan> kMaxPool[] = {
    {"tiles", refuse_tiles, make_tiles},
    {"gather", accept_all<MaxPoolPlan>, make_search},
};
constexpr Implementation<MaxPoolGradPlan> kMaxPoolGrad[] = {
    {"scatter", refuse_scatter, make_scatter},
    {"tiles", refuse_tiles, make_tiles},
    {"lines", refuse_lines, make_lines},
    {"gather", accept_all<MaxPoolGradPlan>, make_gather},
};
constexpr Implementation<ConvertWinnersPlan> kConvertWinners[] = {
    {"gather", accept_all<ConvertWinnersPlan>, make<ConvertWinners, Convert>},
};

}  // namespace

std::span<const Implementation<MaxPoolPlan>> max_pool_implementations() { return kMaxPool; }
std::span<const Implementation<MaxPoolGradPlan>> max_pool_grad_implementations() { return kMaxPoolGrad; }
std::span<const Implementation<ConvertWinnersPlan>> convert_winners_implementations() { return kConvertWinners; }

}  // namespace bp::cuda
