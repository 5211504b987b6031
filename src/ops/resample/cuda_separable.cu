// SPDX-License-Identifier: Apache-2.0
// From a shape, exact products and a type at run time to the kernel that is compiled for them.
#include "ops/resample/cuda_separable.cuh"

#include "backends/cuda/launch.cuh"

#include <utility>

namespace bp::cuda {

namespace {

constexpr auto kLastShape = static_cast<std::size_t>(SeparableShape::odd_channels_volume);

// Calls run<T, Shape>().
template <class Run>
auto with_shape(const SeparableKind& kind, const Run& run) {
  decltype(run.template operator()<float, ResampleShape<SeparableShape::columns, Exact::none>>()) result{};
  const auto shape = [&]<class T, Exact kExact, SeparableShape kShape>() {
    if constexpr (sizeof(T) == 2 || !is_for_halves(kShape)) {
      if (kind.shape == kShape) result = run.template operator()<T, ResampleShape<kShape, kExact>>();
    }
  };
  const auto exact = [&]<class T, Exact kExact, std::size_t... kShapes>(std::index_sequence<kShapes...>) {
    (shape.template operator()<T, kExact, static_cast<SeparableShape>(kShapes)>(), ...);
  };
  const auto type = [&]<class T>() {
    constexpr auto kShapes = std::make_index_sequence<kLastShape + 1>{};
    if (kind.exact == Exact::all) return exact.template operator()<T, Exact::all>(kShapes);
    if constexpr (sizeof(T) == 2) {
      if (kind.exact == Exact::first) return exact.template operator()<T, Exact::first>(kShapes);
    }
    return exact.template operator()<T, Exact::none>(kShapes);
  };
  with_type(kind.dtype, type);
  return result;
}

}  // namespace

ResampleGrid cut_separable(const SeparableKind& kind, ResampleCut& cut, const OutputRun* column_runs) {
  return with_shape(kind, [&]<class T, class Shape>() { return cut_resample<T, Shape>(cut, column_runs); });
}

bool can_stage() {
  constexpr SeparableKind kStaged{DType::f16, SeparableShape::staged_columns, Exact::none};
  cudaFuncAttributes attributes{};
  const cudaError_t status = with_shape(
      kStaged, [&]<class T, class Shape>() { return cudaFuncGetAttributes(&attributes, sum_separable<T, Shape>); });
  if (status != cudaSuccess) (void)cudaGetLastError();  // not the caller's affair
  return status == cudaSuccess && attributes.ptxVersion >= 90;
}

cudaError_t prepare_separable(const SeparableKind& kind, const ResampleGrid& grid) {
  return with_shape(kind, [&]<class T, class Shape>() {
    return cudaFuncSetAttribute(sum_separable<T, Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(grid.shared_bytes));
  });
}

cudaError_t resample_separable(const SeparableKind& kind, const ResampleCut& cut, const ResampleGrid& grid,
                               const ResampleView<const void>& dy, const ResampleView<void>& dx, cudaStream_t stream) {
  return with_shape(kind, [&]<class T, class Shape>() {
    return launch_blocks(stream, grid.blocks, grid.threads, grid.shared_bytes, sum_separable<T, Shape>, cut,
                         typed<const T>(dy), typed<T>(dx));
  });
}

}  // namespace bp::cuda
