// SPDX-License-Identifier: Apache-2.0
// Views: sizes and strides of up to eight axes, where they reach in memory, and whether they meet.
#pragma once

#include "core/dtype.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace bp {

inline constexpr int kMaxRank = BP_MAX_RANK;
using Dims = std::array<std::int64_t, kMaxRank>;

// A validated view: the count of its elements and its reach in bytes fit in 63 bits. The strides of axes of size 1,
// which are never walked, are 0, so that equal views compare equal.
struct Tensor {
  DType dtype = DType::f32;
  int rank = 0;
  Dims sizes{};
  Dims strides{};

  [[nodiscard]] std::span<const std::int64_t> shape() const { return {sizes.data(), static_cast<std::size_t>(rank)}; }
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] bool empty() const { return count() == 0; }
  // Elements that are stored apart: broadcast axes count once.
  [[nodiscard]] std::int64_t stored_count() const;
  [[nodiscard]] bool is_packed() const;

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

// The bytes of all these tensors' stored elements; absurd views, which no memory holds, stop at 2^64 - 1.
std::uint64_t stored_bytes(std::initializer_list<const Tensor*> tensors);

// Row-major strides of a packed view; 0 for axes of size 1 or in an empty view.
Dims packed_strides(std::span<const std::int64_t> sizes);

// Copies and validates a desc; a null desc is refused.
Tensor read_tensor(std::string_view op, std::string_view name, const bp_tensor_desc* desc);

// Refuses an output whose elements could share memory: with the axes sorted by |stride|, each stride must be larger
// than the reach of those before it.
void require_distinct_elements(std::string_view op, std::string_view name, const Tensor& tensor);

void require_same_dtype(std::string_view op, std::string_view name, const Tensor& tensor, std::string_view other_name,
                        const Tensor& other);
void require_same_rank(std::string_view op, std::string_view name, const Tensor& tensor, std::string_view other_name,
                       const Tensor& other);
// Same rank and same sizes.
void require_same_sizes(std::string_view op, std::string_view name, const Tensor& tensor, std::string_view other_name,
                        const Tensor& other);

// "f64 f32 f16 bf16", for refusals and tables.
template <class... Ts>
std::string type_names(TypeList<Ts...>) {
  std::string names;
  ((names += names.empty() ? "" : " ", names += name(kDTypeOf<Ts>)), ...);
  return names;
}

void refuse_dtype(std::string_view op, std::string_view name, DType dtype, const std::string& expected);
template <class List>
void require_dtype(std::string_view op, std::string_view name, const Tensor& tensor, List list) {
  if (!contains(list, tensor.dtype)) refuse_dtype(op, name, tensor.dtype, type_names(list));
}

// ---- Memory ------------------------------------------------------------------------------------------

// The bytes a view touches, relative to the address of its first element: [low, high), empty for an empty view.
struct ByteRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
};
ByteRange byte_range(const Tensor& tensor);

// Whether two views can touch one byte. Byte ranges decide most cases; where they meet, a bounded exact search for a
// common byte decides, and "maybe" is its answer when the bound runs out.
enum class Sharing { no, yes, maybe };
Sharing sharing(const Tensor& a, const void* a_data, const Tensor& b, const void* b_data);

}  // namespace bp
