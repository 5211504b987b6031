// SPDX-License-Identifier: Apache-2.0
// DirectML's tables: which ranks and data types each operator takes at each feature level, as the operator's own page
// lists them.
#pragma once

#include <backpass/directml.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace bp::dml {

// ---- Data types ----------------------------------------------------------------------------------------

struct DataTypeFacts {
  std::string_view name;
  std::uint32_t bits;
  std::int32_t dtype;  // the library's; a 4-bit type, which it has not, is measured as bytes and never created
};

// Indexed by DML_TENSOR_DATA_TYPE.
inline constexpr std::array<DataTypeFacts, 14> kDataTypes{{{"UNKNOWN", 0, 0},
                                                           {"FLOAT32", 32, BP_F32},
                                                           {"FLOAT16", 16, BP_F16},
                                                           {"UINT32", 32, BP_U32},
                                                           {"UINT16", 16, BP_U16},
                                                           {"UINT8", 8, BP_U8},
                                                           {"INT32", 32, BP_I32},
                                                           {"INT16", 16, BP_I16},
                                                           {"INT8", 8, BP_I8},
                                                           {"FLOAT64", 64, BP_F64},
                                                           {"UINT64", 64, BP_U64},
                                                           {"INT64", 64, BP_I64},
                                                           {"UINT4", 4, BP_U8},
                                                           {"INT4", 4, BP_I8}}};
static_assert(kDataTypes.size() == DML_TENSOR_DATA_TYPE_INT4 + 1);

class DataTypes {
 public:
  template <class... Types>
  explicit constexpr DataTypes(Types... types) : bits_((0U | ... | (1U << types))) {}
  [[nodiscard]] constexpr bool contains(int type) const { return (bits_ >> type & 1U) != 0; }
  friend constexpr DataTypes operator+(DataTypes a, DataTypes b) {
    DataTypes both;
    both.bits_ = a.bits_ | b.bits_;
    return both;
  }
  [[nodiscard]] std::string names() const {
    std::string list;
    for (int type = 0; type < static_cast<int>(kDataTypes.size()); ++type) {
      if (contains(type)) list += (list.empty() ? "" : " ") + std::string(kDataTypes[type].name);
    }
    return list;
  }

 private:
  std::uint32_t bits_;
};

inline constexpr DataTypes kFloat32And16{DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_DATA_TYPE_FLOAT16};
inline constexpr DataTypes kFloat64{DML_TENSOR_DATA_TYPE_FLOAT64};
inline constexpr DataTypes kSigned32To8{DML_TENSOR_DATA_TYPE_INT32, DML_TENSOR_DATA_TYPE_INT16,
                                        DML_TENSOR_DATA_TYPE_INT8};
inline constexpr DataTypes kIntegers32And16{DML_TENSOR_DATA_TYPE_INT32, DML_TENSOR_DATA_TYPE_INT16,
                                            DML_TENSOR_DATA_TYPE_UINT32, DML_TENSOR_DATA_TYPE_UINT16};
inline constexpr DataTypes kIntegers8{DML_TENSOR_DATA_TYPE_INT8, DML_TENSOR_DATA_TYPE_UINT8};
inline constexpr DataTypes kIntegers64{DML_TENSOR_DATA_TYPE_INT64, DML_TENSOR_DATA_TYPE_UINT64};
inline constexpr DataTypes kIntegers32To8 = kIntegers32And16 + kIntegers8;
inline constexpr DataTypes kIntegers64To8 = kIntegers64 + kIntegers32To8;
inline constexpr DataTypes kUint32{DML_TENSOR_DATA_TYPE_UINT32};
inline constexpr DataTypes kUint64And32{DML_TENSOR_DATA_TYPE_UINT64, DML_TENSOR_DATA_TYPE_UINT32};

// ---- Feature levels ------------------------------------------------------------------------------------

struct LevelFacts {
  int value;
  std::string_view name;
};

inline constexpr std::array<LevelFacts, 15> kLevels{{{DML_FEATURE_LEVEL_1_0, "DML_FEATURE_LEVEL_1_0"},
                                                     {DML_FEATURE_LEVEL_2_0, "DML_FEATURE_LEVEL_2_0"},
                                                     {DML_FEATURE_LEVEL_2_1, "DML_FEATURE_LEVEL_2_1"},
                                                     {DML_FEATURE_LEVEL_3_0, "DML_FEATURE_LEVEL_3_0"},
                                                     {DML_FEATURE_LEVEL_3_1, "DML_FEATURE_LEVEL_3_1"},
                                                     {DML_FEATURE_LEVEL_4_0, "DML_FEATURE_LEVEL_4_0"},
                                                     {DML_FEATURE_LEVEL_4_1, "DML_FEATURE_LEVEL_4_1"},
                                                     {DML_FEATURE_LEVEL_5_0, "DML_FEATURE_LEVEL_5_0"},
                                                     {DML_FEATURE_LEVEL_5_1, "DML_FEATURE_LEVEL_5_1"},
                                                     {DML_FEATURE_LEVEL_5_2, "DML_FEATURE_LEVEL_5_2"},
                                                     {DML_FEATURE_LEVEL_6_0, "DML_FEATURE_LEVEL_6_0"},
                                                     {DML_FEATURE_LEVEL_6_1, "DML_FEATURE_LEVEL_6_1"},
                                                     {DML_FEATURE_LEVEL_6_2, "DML_FEATURE_LEVEL_6_2"},
                                                     {DML_FEATURE_LEVEL_6_3, "DML_FEATURE_LEVEL_6_3"},
                                                     {DML_FEATURE_LEVEL_6_4, "DML_FEATURE_LEVEL_6_4"}}};

// Null for a value that is none.
constexpr const LevelFacts* find_level(int value) {
  const auto* found =
      std::find_if(kLevels.begin(), kLevels.end(), [&](const LevelFacts& l) { return l.value == value; });
  return found == kLevels.end() ? nullptr : found;
}

// ---- Operators -----------------------------------------------------------------------------------------

// What holds from a level on, until a newer row replaces it.
struct Row {
  DML_FEATURE_LEVEL from;
  int least_rank;
  int most_rank;
  DataTypes types;
  DataTypes indices{};
};

// Newest first; the last is the introduction.
inline constexpr Row kRelu[] = {{DML_FEATURE_LEVEL_5_1, 1, 8, kFloat32And16 + kSigned32To8},
                                {DML_FEATURE_LEVEL_3_0, 1, 8, kFloat32And16},
                                {DML_FEATURE_LEVEL_2_0, 4, 5, kFloat32And16},
                                {DML_FEATURE_LEVEL_1_0, 4, 4, kFloat32And16}};
inline constexpr Row kReluGrad[] = {{DML_FEATURE_LEVEL_5_1, 1, 8, kFloat32And16 + kSigned32To8},
                                    {DML_FEATURE_LEVEL_3_0, 1, 8, kFloat32And16}};

inline constexpr Row kMaxPooling5 = {DML_FEATURE_LEVEL_5_0, 4, 5, kFloat32And16 + kIntegers64To8, kUint64And32};
inline constexpr Row kMaxPooling3 = {DML_FEATURE_LEVEL_3_0, 4, 5, kFloat32And16 + kIntegers8, kUint32};
inline constexpr Row kMaxPooling[] = {kMaxPooling5, kMaxPooling3, {DML_FEATURE_LEVEL_1_0, 4, 5, kFloat32And16}};
inline constexpr Row kMaxPooling1[] = {
    kMaxPooling5, kMaxPooling3, {DML_FEATURE_LEVEL_2_0, 4, 5, kFloat32And16, kUint32}};
inline constexpr Row kMaxPooling2[] = {
    kMaxPooling5, kMaxPooling3, {DML_FEATURE_LEVEL_2_1, 4, 5, kFloat32And16, kUint32}};
inline constexpr Row kMaxPoolingGrad[] = {{DML_FEATURE_LEVEL_4_0, 4, 5, kFloat32And16},
                                          {DML_FEATURE_LEVEL_3_0, 4, 4, kFloat32And16}};

inline constexpr Row kResample62 = {DML_FEATURE_LEVEL_6_2, 1, 4, kFloat32And16 + kIntegers8};
inline constexpr Row kResample51 = {DML_FEATURE_LEVEL_5_1, 1, 4, kFloat32And16};
inline constexpr Row kResample[] = {kResample62, kResample51, {DML_FEATURE_LEVEL_2_0, 4, 4, kFloat32And16}};
inline constexpr Row kResample1[] = {kResample62, kResample51, {DML_FEATURE_LEVEL_2_1, 4, 4, kFloat32And16}};
inline constexpr Row kResample2[] = {kResample62, kResample51};
inline constexpr Row kResampleGrad[] = {kResample51, {DML_FEATURE_LEVEL_3_0, 4, 4, kFloat32And16}};
inline constexpr Row kResampleGrad1[] = {kResample51};

inline constexpr Row kSlice41 = {DML_FEATURE_LEVEL_4_1, 1, 8, kFloat64 + kFloat32And16 + kIntegers64To8};
inline constexpr Row kSlice1[] = {kSlice41,
                                  {DML_FEATURE_LEVEL_3_0, 1, 8, kFloat32And16 + kIntegers32To8},
                                  {DML_FEATURE_LEVEL_2_1, 4, 5, kFloat32And16 + kIntegers32To8}};
inline constexpr Row kSlice[] = {kSlice41,
                                 {DML_FEATURE_LEVEL_3_0, 1, 8, kFloat32And16 + kIntegers32To8},
                                 {DML_FEATURE_LEVEL_2_1, 4, 5, kFloat32And16 + kIntegers32To8},
                                 {DML_FEATURE_LEVEL_1_0, 4, 5, kFloat32And16 + kIntegers32And16}};
inline constexpr Row kSliceGrad[] = {kSlice41,
                                     {DML_FEATURE_LEVEL_3_1, 1, 8, kFloat32And16 + kIntegers32To8},
                                     {DML_FEATURE_LEVEL_3_0, 4, 5, kFloat32And16 + kIntegers32To8}};

struct OperatorFacts {
  DML_OPERATOR_TYPE type;
  std::string_view name;
  std::span<const Row> rows;
};

inline constexpr std::array<OperatorFacts, 14> kOperators{
    {{DML_OPERATOR_ACTIVATION_RELU, "DML_OPERATOR_ACTIVATION_RELU", kRelu},
     {DML_OPERATOR_ACTIVATION_RELU_GRAD, "DML_OPERATOR_ACTIVATION_RELU_GRAD", kReluGrad},
     {DML_OPERATOR_MAX_POOLING, "DML_OPERATOR_MAX_POOLING", kMaxPooling},
     {DML_OPERATOR_MAX_POOLING1, "DML_OPERATOR_MAX_POOLING1", kMaxPooling1},
     {DML_OPERATOR_MAX_POOLING2, "DML_OPERATOR_MAX_POOLING2", kMaxPooling2},
     {DML_OPERATOR_MAX_POOLING_GRAD, "DML_OPERATOR_MAX_POOLING_GRAD", kMaxPoolingGrad},
     {DML_OPERATOR_RESAMPLE, "DML_OPERATOR_RESAMPLE", kResample},
     {DML_OPERATOR_RESAMPLE1, "DML_OPERATOR_RESAMPLE1", kResample1},
     {DML_OPERATOR_RESAMPLE2, "DML_OPERATOR_RESAMPLE2", kResample2},
     {DML_OPERATOR_RESAMPLE_GRAD, "DML_OPERATOR_RESAMPLE_GRAD", kResampleGrad},
     {DML_OPERATOR_RESAMPLE_GRAD1, "DML_OPERATOR_RESAMPLE_GRAD1", kResampleGrad1},
     {DML_OPERATOR_SLICE, "DML_OPERATOR_SLICE", kSlice},
     {DML_OPERATOR_SLICE1, "DML_OPERATOR_SLICE1", kSlice1},
     {DML_OPERATOR_SLICE_GRAD, "DML_OPERATOR_SLICE_GRAD", kSliceGrad}}};

// Null for a type that is none of the fourteen.
constexpr const OperatorFacts* find_operator(int type) {
  const auto* found =
      std::find_if(kOperators.begin(), kOperators.end(), [&](const OperatorFacts& o) { return o.type == type; });
  return found == kOperators.end() ? nullptr : found;
}

// The row that holds at a level; null where the operator is newer.
constexpr const Row* find_row(const OperatorFacts& op, int level) {
  for (const Row& row : op.rows) {
    if (row.from <= level) return &row;
  }
  return nullptr;
}

}  // namespace bp::dml
