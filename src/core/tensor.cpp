// SPDX-License-Identifier: Apache-2.0
#include "core/tensor.h"

#include "core/checked.h"
#include "core/read_struct.h"
#include "core/status.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace bp {

std::int64_t Tensor::count() const {
  std::int64_t n = 1;
  for (int i = 0; i < rank; ++i) {
    if (sizes[i] == 0) return 0;
  }
  for (int i = 0; i < rank; ++i) n *= sizes[i];
  return n;
}

std::int64_t Tensor::stored_count() const {
  if (empty()) return 0;
  std::int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= strides[i] == 0 ? 1 : sizes[i];
  return n;
}

std::uint64_t stored_bytes(std::initializer_list<const Tensor*> tensors) {
  std::uint64_t total = 0;
  for (const Tensor* tensor : tensors) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(tensor->stored_count()) * size_of(tensor->dtype);
    if (__builtin_add_overflow(total, bytes, &total)) return std::numeric_limits<std::uint64_t>::max();
  }
  return total;
}

bool Tensor::is_packed() const { return strides == packed_strides(shape()); }

Dims packed_strides(std::span<const std::int64_t> sizes) {
  Dims strides{};
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return strides;
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = sizes[i] == 1 ? 0 : stride;
    stride *= sizes[i];
  }
  return strides;
}

namespace {

void require_count_fits(std::string_view op, std::string_view name, const Tensor& tensor) {
  if (std::find(tensor.shape().begin(), tensor.shape().end(), 0) != tensor.shape().end()) return;
  Checked bytes = static_cast<std::int64_t>(size_of(tensor.dtype));
  for (const std::int64_t size : tensor.shape()) bytes = multiply(bytes, size);
  if (!bytes) invalid("{}: {}: the sizes multiply to more than 2^63 - 1 bytes, expected at most that", op, name);
}

void require_reach_fits(std::string_view op, std::string_view name, const Tensor& tensor) {
  Checked reach = static_cast<std::int64_t>(size_of(tensor.dtype));
  for (int i = 0; i < tensor.rank; ++i) {
    const Checked bytes = multiply(magnitude(tensor.strides[i]), static_cast<std::int64_t>(size_of(tensor.dtype)));
    reach = add(reach, multiply(bytes, tensor.sizes[i] - 1));
    if (!reach) {
      invalid("{}: {}: axis {}: stride {} of size {} reaches beyond 2^63 - 1 bytes, expected at most that", op, name, i,
              tensor.strides[i], tensor.sizes[i]);
    }
  }
}

}  // namespace

Tensor read_tensor(std::string_view op, std::string_view name, const bp_tensor_desc* desc) {
  if (desc == nullptr) invalid("{}: {}: the tensor desc is null, expected one", op, name);
  const auto given = read_struct<bp_tensor_desc>(op, name, desc);
  if (!is_dtype(given.dtype)) invalid("{}: {}: data type is {}, expected a bp_dtype (1 to 12)", op, name, given.dtype);
  if (given.rank < 1 || given.rank > kMaxRank) {
    invalid("{}: {}: rank is {}, expected 1 to {}", op, name, given.rank, kMaxRank);
  }
  if (given.sizes == nullptr)
    invalid("{}: {}: sizes is null, expected {}", op, name, counted(given.rank, "entry", "entries"));

  Tensor tensor{.dtype = static_cast<DType>(given.dtype), .rank = given.rank};
  for (int i = 0; i < given.rank; ++i) {
    if (given.sizes[i] < 0) invalid("{}: {}: axis {}: size is {}, expected 0 or more", op, name, i, given.sizes[i]);
    tensor.sizes[i] = given.sizes[i];
  }
  require_count_fits(op, name, tensor);
  if (given.strides == nullptr) {
    tensor.strides = packed_strides(tensor.shape());
  } else if (!tensor.empty()) {
    for (int i = 0; i < given.rank; ++i) tensor.strides[i] = tensor.sizes[i] == 1 ? 0 : given.strides[i];
    require_reach_fits(op, name, tensor);
  }
  return tensor;
}

void require_distinct_elements(std::string_view op, std::string_view name, const Tensor& tensor) {
  if (tensor.empty()) return;
  // The walked axes, inserted in the order of |stride|.
  std::array<int, kMaxRank> order{};
  int walked = 0;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.sizes[i] == 1) continue;
    int k = walked++;
    for (; k > 0 && std::abs(tensor.strides[order[k - 1]]) > std::abs(tensor.strides[i]); --k) order[k] = order[k - 1];
    order[k] = i;
  }
  std::int64_t reach = 0;
  for (int k = 0; k < walked; ++k) {
    const int axis = order[k];
    const std::int64_t stride = std::abs(tensor.strides[axis]);
    if (stride <= reach) {
      invalid("{}: {}: axis {}: stride {} lets elements of an output share memory, expected a magnitude above {}", op,
              name, axis, tensor.strides[axis], reach);
    }
    reach += stride * (tensor.sizes[axis] - 1);
  }
}

void require_same_dtype(std::string_view op, std::string_view name, const Tensor& tensor, std::string_view other_name,
                        const Tensor& other) {
  if (tensor.dtype != other.dtype) {
    invalid("{}: {}: data type is {}, expected {} (that of {})", op, name, bp::name(tensor.dtype),
            bp::name(other.dtype), other_name);
  }
}

void require_same_rank(std::string_view op, std::string_view name, const Tensor& tensor, std::string_view other_name,
                       const Tensor& other) {
  if (tensor.rank != other.rank) {
    invalid("{}: {}: rank is {}, expected {} (that of {})", op, name, tensor.rank, other.rank, other_name);
  }
}

void require_same_sizes(std::string_view op, std::string_view name, const Tensor& tensor, std::string_view other_name,
                        const Tensor& other) {
  require_same_rank(op, name, tensor, other_name, other);
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.sizes[i] != other.sizes[i]) {
      invalid("{}: {}: axis {}: size is {}, expected {} (that of {})", op, name, i, tensor.sizes[i], other.sizes[i],
              other_name);
    }
  }
}

void refuse_dtype(std::string_view op, std::string_view name, DType dtype, const std::string& expected) {
  unsupported("{}: {}: data type is {}, expected one of {}", op, name, bp::name(dtype), expected);
}

}  // namespace bp
