// SPDX-License-Identifier: Apache-2.0
// What every DML_* desc is made of, tensors, counts, arrays and enumerators, each read with the constraints that it
// must keep whatever the operator is.
#pragma once

#include "api/directml_tables.h"
#include "core/status.h"
#include "core/tensor.h"

#include <backpass/directml.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace bp::dml {

inline constexpr std::uint64_t kMostElements = 0xffffffff;

// An enum as the number in memory, which need not be one of its enumerators.
template <class Enum>
int number_of(const Enum& field) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &field, sizeof number);
  return number;
}

// ---- Tensors -------------------------------------------------------------------------------------------

// A tensor field that was found sound.
struct Field {
  std::string_view name;
  int type = 0;  // DML_TENSOR_DATA_TYPE
  Tensor view{};

  [[nodiscard]] bp_tensor_desc desc() const {
    return {sizeof(bp_tensor_desc), static_cast<std::int32_t>(view.dtype), view.rank, view.sizes.data(),
            view.strides.data()};
  }
};

enum class Role { input, output };

// The elements that a tensor spans. No step can overflow: what it adds to or multiplies is below 2^32.
inline std::uint64_t require_span(std::string_view op, std::string_view name, const DML_BUFFER_TENSOR_DESC& buffer) {
  std::uint64_t count = 1;
  std::uint64_t last = 0;
  for (UINT i = 0; i < buffer.DimensionCount; ++i) {
    if (buffer.Sizes[i] == 0) invalid("{}: {}: axis {}: size is 0, expected 1 or more", op, name, i);
    count *= buffer.Sizes[i];
    if (count > kMostElements) {
      invalid("{}: {}: axis {}: size {} makes more than 2^32 - 1 elements, expected at most that", op, name, i,
              buffer.Sizes[i]);
    }
    if (buffer.Strides == nullptr) continue;
    last += std::uint64_t{buffer.Sizes[i] - 1} * buffer.Strides[i];
    if (last >= kMostElements) {
      invalid("{}: {}: axis {}: stride {} of size {} spans more than 2^32 - 1 elements, expected at most that", op,
              name, i, buffer.Strides[i], buffer.Sizes[i]);
    }
  }
  return buffer.Strides == nullptr ? count : last + 1;
}

inline void require_bytes(std::string_view op, std::string_view name, const DML_BUFFER_TENSOR_DESC& buffer, int type) {
  const std::uint64_t bits = kDataTypes[type].bits;
  const std::uint64_t bytes = (require_span(op, name, buffer) * bits + 7) / 8;
  const std::uint64_t least = (bytes + 3) / 4 * 4;
  if (buffer.TotalTensorSizeInBytes < least) {
    invalid("{}: {}: TotalTensorSizeInBytes is {}, expected {} or more", op, name, buffer.TotalTensorSizeInBytes,
            least);
  }
  const std::uint64_t element = (bits + 7) / 8;
  const UINT alignment = buffer.GuaranteedBaseOffsetAlignment;
  if (alignment != 0 && (!std::has_single_bit(alignment) || alignment < element)) {
    invalid("{}: {}: GuaranteedBaseOffsetAlignment is {}, expected 0 or a power of two from {} on", op, name, alignment,
            element);
  }
}

inline void require_flags(std::string_view op, std::string_view name, Role role, int flags) {
  if ((flags & ~DML_TENSOR_FLAG_OWNED_BY_DML) != 0) {
    invalid("{}: {}: Flags is {:#x}, expected 0x0 (NONE) or 0x1 (OWNED_BY_DML)", op, name,
            static_cast<std::uint32_t>(flags));
  }
  if (role == Role::output && flags != DML_TENSOR_FLAG_NONE) {
    invalid("{}: {}: Flags is 0x1 (OWNED_BY_DML), expected 0x0 (NONE) of an output", op, name);
  }
}

inline Tensor view_of(const DML_BUFFER_TENSOR_DESC& buffer, int type) {
  Tensor view{.dtype = static_cast<DType>(kDataTypes[type].dtype), .rank = static_cast<int>(buffer.DimensionCount)};
  for (int i = 0; i < view.rank; ++i) view.sizes[i] = buffer.Sizes[i];
  if (buffer.Strides == nullptr) {
    view.strides = packed_strides(view.shape());
  } else {
    for (int i = 0; i < view.rank; ++i) view.strides[i] = view.sizes[i] == 1 ? 0 : buffer.Strides[i];
  }
  return view;
}

inline Field read_tensor(std::string_view op, std::string_view name, Role role, const DML_TENSOR_DESC* desc) {
  if (desc == nullptr) invalid("{}: {}: is null, expected a DML_TENSOR_DESC", op, name);
  if (number_of(desc->Type) != DML_TENSOR_TYPE_BUFFER) {
    invalid("{}: {}: Type is {}, expected 1 (DML_TENSOR_TYPE_BUFFER)", op, name, number_of(desc->Type));
  }
  if (desc->Desc == nullptr) invalid("{}: {}: Desc is null, expected a DML_BUFFER_TENSOR_DESC", op, name);
  const auto& buffer = *static_cast<const DML_BUFFER_TENSOR_DESC*>(desc->Desc);
  const int type = number_of(buffer.DataType);
  if (type <= DML_TENSOR_DATA_TYPE_UNKNOWN || type > DML_TENSOR_DATA_TYPE_INT4) {
    invalid("{}: {}: DataType is {}, expected 1 to 13 (a DML_TENSOR_DATA_TYPE, not UNKNOWN)", op, name, type);
  }
  require_flags(op, name, role, number_of(buffer.Flags));
  if (buffer.DimensionCount < 1 || buffer.DimensionCount > DML_TENSOR_DIMENSION_COUNT_MAX1) {
    invalid("{}: {}: DimensionCount is {}, expected 1 to 8", op, name, buffer.DimensionCount);
  }
  if (buffer.Sizes == nullptr) {
    invalid("{}: {}: Sizes is null, expected {}", op, name, counted(buffer.DimensionCount, "entry", "entries"));
  }
  require_bytes(op, name, buffer, type);
  Field field{name, type, view_of(buffer, type)};
  if (role == Role::output) require_distinct_elements(op, name, field.view);
  return field;
}

inline void require_alike(std::string_view op, const Field& field, const Field& other) {
  if (field.type != other.type) {
    invalid("{}: {}: DataType is {}, expected {} (that of {})", op, field.name, kDataTypes[field.type].name,
            kDataTypes[other.type].name, other.name);
  }
  require_same_rank(op, field.name, field.view, other.name, other.view);
}

// ---- Parameters ----------------------------------------------------------------------------------------

template <class Number>
void require_array(std::string_view op, std::string_view name, const Number* values, UINT count) {
  if (values == nullptr) invalid("{}: {}: is null, expected {}", op, name, counted(count, "entry", "entries"));
}

inline void require_count(std::string_view op, std::string_view name, UINT count, const Field& of) {
  if (count != static_cast<UINT>(of.view.rank)) {
    invalid("{}: {}: is {}, expected {} (that of {})", op, name, count, of.view.rank, of.name);
  }
}

inline int require_enum(std::string_view op, std::string_view name, int value, std::string_view zero,
                        std::string_view one) {
  if (value != 0 && value != 1) invalid("{}: {}: is {}, expected 0 ({}) or 1 ({})", op, name, value, zero, one);
  return value;
}

}  // namespace bp::dml
