// SPDX-License-Identifier: Apache-2.0
// DirectML's numbers, its layout, and its tables: every operator at every feature level with every data type and rank
// is accepted or refused exactly as the pages say.
#include "directml_support.h"

#include <map>
#include <sstream>

namespace directml {
namespace {

// ---- Numbers ---------------------------------------------------------------------------------------------

TEST(DirectmlNumbers, TheEnumsHaveDirectmlsValues) {
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_UNKNOWN, 0);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_FLOAT32, 1);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_FLOAT16, 2);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_UINT32, 3);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_UINT16, 4);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_UINT8, 5);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_INT32, 6);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_INT16, 7);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_INT8, 8);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_FLOAT64, 9);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_UINT64, 10);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_INT64, 11);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_UINT4, 12);
  EXPECT_EQ(DML_TENSOR_DATA_TYPE_INT4, 13);
  EXPECT_EQ(DML_TENSOR_TYPE_INVALID, 0);
  EXPECT_EQ(DML_TENSOR_TYPE_BUFFER, 1);
  EXPECT_EQ(DML_TENSOR_FLAG_NONE, 0);
  EXPECT_EQ(DML_TENSOR_FLAG_OWNED_BY_DML, 1);
  EXPECT_EQ(DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR, 0);
  EXPECT_EQ(DML_INTERPOLATION_MODE_LINEAR, 1);
  EXPECT_EQ(DML_AXIS_DIRECTION_INCREASING, 0);
  EXPECT_EQ(DML_AXIS_DIRECTION_DECREASING, 1);
  EXPECT_EQ(DML_TENSOR_DIMENSION_COUNT_MAX, 5U);
  EXPECT_EQ(DML_TENSOR_DIMENSION_COUNT_MAX1, 8U);
}

TEST(DirectmlNumbers, TheFourteenHaveDirectmlsValues) {
  EXPECT_EQ(DML_OPERATOR_INVALID, 0);
  EXPECT_EQ(DML_OPERATOR_ACTIVATION_RELU, 44);
  EXPECT_EQ(DML_OPERATOR_MAX_POOLING, 58);
  EXPECT_EQ(DML_OPERATOR_SLICE, 60);
  EXPECT_EQ(DML_OPERATOR_MAX_POOLING1, 91);
  EXPECT_EQ(DML_OPERATOR_RESAMPLE, 96);
  EXPECT_EQ(DML_OPERATOR_MAX_POOLING2, 110);
  EXPECT_EQ(DML_OPERATOR_SLICE1, 111);
  EXPECT_EQ(DML_OPERATOR_RESAMPLE1, 116);
  EXPECT_EQ(DML_OPERATOR_ACTIVATION_RELU_GRAD, 129);
  EXPECT_EQ(DML_OPERATOR_MAX_POOLING_GRAD, 131);
  EXPECT_EQ(DML_OPERATOR_RESAMPLE_GRAD, 134);
  EXPECT_EQ(DML_OPERATOR_SLICE_GRAD, 135);
  EXPECT_EQ(DML_OPERATOR_RESAMPLE2, 161);
  EXPECT_EQ(DML_OPERATOR_RESAMPLE_GRAD1, 162);
}

TEST(DirectmlNumbers, TheirRelativesHaveDirectmlsValues) {
  EXPECT_EQ(DML_OPERATOR_ELEMENT_WISE_CLIP, 8);
  EXPECT_EQ(DML_OPERATOR_AVERAGE_POOLING, 56);
  EXPECT_EQ(DML_OPERATOR_UPSAMPLE_2D, 66);
  EXPECT_EQ(DML_OPERATOR_BATCH_NORMALIZATION, 72);
  EXPECT_EQ(DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION, 74);
  EXPECT_EQ(DML_OPERATOR_MAX_UNPOOLING, 92);
  EXPECT_EQ(DML_OPERATOR_AVERAGE_POOLING_GRAD, 130);
  EXPECT_EQ(DML_OPERATOR_ADAM_OPTIMIZER, 136);
  EXPECT_EQ(DML_OPERATOR_ROI_ALIGN, 139);
  EXPECT_EQ(DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD, 142);
  EXPECT_EQ(DML_OPERATOR_LOCAL_RESPONSE_NORMALIZATION_GRAD, 144);
  EXPECT_EQ(DML_OPERATOR_BATCH_NORMALIZATION_GRAD, 146);
  EXPECT_EQ(DML_OPERATOR_ROI_ALIGN1, 149);
  EXPECT_EQ(DML_OPERATOR_ROI_ALIGN_GRAD, 150);
  EXPECT_EQ(DML_OPERATOR_BATCH_NORMALIZATION_TRAINING, 151);
  EXPECT_EQ(DML_OPERATOR_BATCH_NORMALIZATION_TRAINING_GRAD, 152);
  EXPECT_EQ(DML_OPERATOR_ELEMENT_WISE_CLIP1, 153);
  EXPECT_EQ(DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD1, 154);
  EXPECT_EQ(DML_OPERATOR_AVERAGE_POOLING1, 166);
  EXPECT_EQ(DML_OPERATOR_RESAMPLE3, 175);
  EXPECT_EQ(DML_OPERATOR_UNFOLD, 177);
}

TEST(DirectmlNumbers, TheResultsAreWindowsResults) {
  EXPECT_EQ(S_OK, 0);
  EXPECT_EQ(E_INVALIDARG, static_cast<std::int32_t>(0x80070057U));
  EXPECT_EQ(DXGI_ERROR_UNSUPPORTED, static_cast<std::int32_t>(0x887A0004U));
  EXPECT_EQ(E_OUTOFMEMORY, static_cast<std::int32_t>(0x8007000EU));
  EXPECT_EQ(E_FAIL, static_cast<std::int32_t>(0x80004005U));
  EXPECT_EQ(BP_DML_OFFSETS_SWAPPED, 1);
}

TEST(DirectmlNumbers, TensorFlagsCombineAsOnWindows) {
  DML_TENSOR_FLAGS flags = DML_TENSOR_FLAG_NONE | DML_TENSOR_FLAG_OWNED_BY_DML;
  EXPECT_EQ(flags, DML_TENSOR_FLAG_OWNED_BY_DML);
  EXPECT_EQ(flags & DML_TENSOR_FLAG_NONE, DML_TENSOR_FLAG_NONE);
  flags &= DML_TENSOR_FLAG_NONE;
  EXPECT_EQ(flags, DML_TENSOR_FLAG_NONE);
  flags |= DML_TENSOR_FLAG_OWNED_BY_DML;
  EXPECT_EQ(flags, DML_TENSOR_FLAG_OWNED_BY_DML);
  flags &= ~DML_TENSOR_FLAG_OWNED_BY_DML;
  EXPECT_EQ(flags, DML_TENSOR_FLAG_NONE);
  flags ^= DML_TENSOR_FLAG_OWNED_BY_DML;
  EXPECT_EQ(flags, DML_TENSOR_FLAG_OWNED_BY_DML);
  EXPECT_EQ(flags ^ flags, DML_TENSOR_FLAG_NONE);
  EXPECT_EQ(0x7 & ~flags, 0x6);
}

// ---- Layout ----------------------------------------------------------------------------------------------

using Offsets = std::vector<std::size_t>;

TEST(DirectmlLayout, TensorAndOperatorDescs) {
  using Tensor = DML_TENSOR_DESC;
  using Buffer = DML_BUFFER_TENSOR_DESC;
  using Operator = DML_OPERATOR_DESC;
  EXPECT_EQ(Offsets({offsetof(Tensor, Type), offsetof(Tensor, Desc), sizeof(Tensor)}), Offsets({0, 8, 16}));
  EXPECT_EQ(Offsets({offsetof(Operator, Type), offsetof(Operator, Desc), sizeof(Operator)}), Offsets({0, 8, 16}));
  EXPECT_EQ(Offsets({offsetof(Buffer, DataType), offsetof(Buffer, Flags), offsetof(Buffer, DimensionCount),
                     offsetof(Buffer, Sizes), offsetof(Buffer, Strides), offsetof(Buffer, TotalTensorSizeInBytes),
                     offsetof(Buffer, GuaranteedBaseOffsetAlignment), sizeof(Buffer)}),
            Offsets({0, 4, 8, 16, 24, 32, 40, 48}));
}

TEST(DirectmlLayout, Relu) {
  using Forward = DML_ACTIVATION_RELU_OPERATOR_DESC;
  using Grad = DML_ACTIVATION_RELU_GRAD_OPERATOR_DESC;
  EXPECT_EQ(Offsets({offsetof(Forward, InputTensor), offsetof(Forward, OutputTensor), sizeof(Forward)}),
            Offsets({0, 8, 16}));
  EXPECT_EQ(Offsets({offsetof(Grad, InputTensor), offsetof(Grad, InputGradientTensor),
                     offsetof(Grad, OutputGradientTensor), sizeof(Grad)}),
            Offsets({0, 8, 16, 24}));
}

TEST(DirectmlLayout, MaxPooling) {
  using Zero = DML_MAX_POOLING_OPERATOR_DESC;
  using One = DML_MAX_POOLING1_OPERATOR_DESC;
  using Two = DML_MAX_POOLING2_OPERATOR_DESC;
  using Grad = DML_MAX_POOLING_GRAD_OPERATOR_DESC;
  EXPECT_EQ(Offsets({offsetof(Zero, InputTensor), offsetof(Zero, OutputTensor), offsetof(Zero, DimensionCount),
                     offsetof(Zero, Strides), offsetof(Zero, WindowSize), offsetof(Zero, StartPadding),
                     offsetof(Zero, EndPadding), sizeof(Zero)}),
            Offsets({0, 8, 16, 24, 32, 40, 48, 56}));
  EXPECT_EQ(Offsets({offsetof(One, InputTensor), offsetof(One, OutputTensor), offsetof(One, OutputIndicesTensor),
                     offsetof(One, DimensionCount), offsetof(One, Strides), offsetof(One, WindowSize),
                     offsetof(One, StartPadding), offsetof(One, EndPadding), sizeof(One)}),
            Offsets({0, 8, 16, 24, 32, 40, 48, 56, 64}));
  EXPECT_EQ(Offsets({offsetof(Two, InputTensor), offsetof(Two, OutputTensor), offsetof(Two, OutputIndicesTensor),
                     offsetof(Two, DimensionCount), offsetof(Two, Strides), offsetof(Two, WindowSize),
                     offsetof(Two, StartPadding), offsetof(Two, EndPadding), offsetof(Two, Dilations), sizeof(Two)}),
            Offsets({0, 8, 16, 24, 32, 40, 48, 56, 64, 72}));
  EXPECT_EQ(
      Offsets({offsetof(Grad, InputTensor), offsetof(Grad, InputGradientTensor), offsetof(Grad, OutputGradientTensor),
               offsetof(Grad, DimensionCount), offsetof(Grad, Strides), offsetof(Grad, WindowSize),
               offsetof(Grad, StartPadding), offsetof(Grad, EndPadding), offsetof(Grad, Dilations), sizeof(Grad)}),
      Offsets({0, 8, 16, 24, 32, 40, 48, 56, 64, 72}));
}

// RESAMPLE1 and RESAMPLE_GRAD, RESAMPLE2 and RESAMPLE_GRAD1 are alike behind their tensors.
template <class Desc>
Offsets sampling_offsets() {
  return {offsetof(Desc, InterpolationMode), offsetof(Desc, DimensionCount),     offsetof(Desc, Scales),
          offsetof(Desc, InputPixelOffsets), offsetof(Desc, OutputPixelOffsets), sizeof(Desc)};
}

TEST(DirectmlLayout, Resample) {
  using Zero = DML_RESAMPLE_OPERATOR_DESC;
  using One = DML_RESAMPLE1_OPERATOR_DESC;
  using Two = DML_RESAMPLE2_OPERATOR_DESC;
  using Grad = DML_RESAMPLE_GRAD_OPERATOR_DESC;
  using Grad1 = DML_RESAMPLE_GRAD1_OPERATOR_DESC;
  EXPECT_EQ(Offsets({offsetof(Zero, InputTensor), offsetof(Zero, OutputTensor), offsetof(Zero, InterpolationMode),
                     offsetof(Zero, ScaleCount), offsetof(Zero, Scales), sizeof(Zero)}),
            Offsets({0, 8, 16, 20, 24, 32}));
  EXPECT_EQ(
      Offsets({offsetof(One, InputTensor), offsetof(One, OutputTensor), offsetof(Two, InputTensor),
               offsetof(Two, OutputTensor), offsetof(Grad, InputGradientTensor), offsetof(Grad, OutputGradientTensor),
               offsetof(Grad1, InputGradientTensor), offsetof(Grad1, OutputGradientTensor)}),
      Offsets({0, 8, 0, 8, 0, 8, 0, 8}));
  EXPECT_EQ(sampling_offsets<One>(), Offsets({16, 20, 24, 32, 40, 48}));
  EXPECT_EQ(sampling_offsets<Grad>(), Offsets({16, 20, 24, 32, 40, 48}));
  EXPECT_EQ(sampling_offsets<Two>(), Offsets({16, 24, 32, 40, 48, 56}));
  EXPECT_EQ(sampling_offsets<Grad1>(), Offsets({16, 24, 32, 40, 48, 56}));
  EXPECT_EQ(Offsets({offsetof(Two, RoundingDirection), offsetof(Grad1, RoundingDirection)}), Offsets({20, 20}));
}

TEST(DirectmlLayout, Slice) {
  using Zero = DML_SLICE_OPERATOR_DESC;
  using One = DML_SLICE1_OPERATOR_DESC;
  using Grad = DML_SLICE_GRAD_OPERATOR_DESC;
  EXPECT_EQ(Offsets({offsetof(Zero, InputTensor), offsetof(Zero, OutputTensor), offsetof(Zero, DimensionCount),
                     offsetof(Zero, Offsets), offsetof(Zero, Sizes), offsetof(Zero, Strides), sizeof(Zero)}),
            Offsets({0, 8, 16, 24, 32, 40, 48}));
  EXPECT_EQ(Offsets({offsetof(One, InputTensor), offsetof(One, OutputTensor), offsetof(One, DimensionCount),
                     offsetof(One, InputWindowOffsets), offsetof(One, InputWindowSizes),
                     offsetof(One, InputWindowStrides), sizeof(One)}),
            Offsets({0, 8, 16, 24, 32, 40, 48}));
  EXPECT_EQ(Offsets({offsetof(Grad, InputGradientTensor), offsetof(Grad, OutputGradientTensor),
                     offsetof(Grad, DimensionCount), offsetof(Grad, InputWindowOffsets),
                     offsetof(Grad, InputWindowSizes), offsetof(Grad, InputWindowStrides), sizeof(Grad)}),
            Offsets({0, 8, 16, 24, 32, 40, 48}));
}

// ---- Tables ----------------------------------------------------------------------------------------------

struct Level {
  std::string name;
  int value;
};
const std::vector<Level> kLevels{{"1_0", 0x1000}, {"2_0", 0x2000}, {"2_1", 0x2100}, {"3_0", 0x3000}, {"3_1", 0x3100},
                                 {"4_0", 0x4000}, {"4_1", 0x4100}, {"5_0", 0x5000}, {"5_1", 0x5100}, {"5_2", 0x5200},
                                 {"6_0", 0x6000}, {"6_1", 0x6100}, {"6_2", 0x6200}, {"6_3", 0x6300}, {"6_4", 0x6400}};

const std::vector<std::string> kTypes{"UNKNOWN", "FLOAT32", "FLOAT16", "UINT32", "UINT16", "UINT8", "INT32",
                                      "INT16",   "INT8",    "FLOAT64", "UINT64", "INT64",  "UINT4", "INT4"};

struct Row {
  std::string from;
  unsigned least_rank, most_rank;
  std::string types;
  std::string indices{};
};

// As the pages have them, oldest row first: a row holds until the next one's level.
const std::map<int, std::vector<Row>> kTables{
    {DML_OPERATOR_ACTIVATION_RELU,
     {{"1_0", 4, 4, "FLOAT32 FLOAT16"},
      {"2_0", 4, 5, "FLOAT32 FLOAT16"},
      {"3_0", 1, 8, "FLOAT32 FLOAT16"},
      {"5_1", 1, 8, "FLOAT32 FLOAT16 INT32 INT16 INT8"}}},
    {DML_OPERATOR_ACTIVATION_RELU_GRAD,
     {{"3_0", 1, 8, "FLOAT32 FLOAT16"}, {"5_1", 1, 8, "FLOAT32 FLOAT16 INT32 INT16 INT8"}}},
    {DML_OPERATOR_MAX_POOLING,
     {{"1_0", 4, 5, "FLOAT32 FLOAT16"},
      {"3_0", 4, 5, "FLOAT32 FLOAT16 INT8 UINT8"},
      {"5_0", 4, 5, "FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8"}}},
    {DML_OPERATOR_MAX_POOLING1,
     {{"2_0", 4, 5, "FLOAT32 FLOAT16", "UINT32"},
      {"3_0", 4, 5, "FLOAT32 FLOAT16 INT8 UINT8", "UINT32"},
      {"5_0", 4, 5, "FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8", "UINT64 UINT32"}}},
    {DML_OPERATOR_MAX_POOLING2,
     {{"2_1", 4, 5, "FLOAT32 FLOAT16", "UINT32"},
      {"3_0", 4, 5, "FLOAT32 FLOAT16 INT8 UINT8", "UINT32"},
      {"5_0", 4, 5, "FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8", "UINT64 UINT32"}}},
    {DML_OPERATOR_MAX_POOLING_GRAD, {{"3_0", 4, 4, "FLOAT32 FLOAT16"}, {"4_0", 4, 5, "FLOAT32 FLOAT16"}}},
    {DML_OPERATOR_RESAMPLE,
     {{"2_0", 4, 4, "FLOAT32 FLOAT16"}, {"5_1", 1, 4, "FLOAT32 FLOAT16"}, {"6_2", 1, 4, "FLOAT32 FLOAT16 INT8 UINT8"}}},
    {DML_OPERATOR_RESAMPLE1,
     {{"2_1", 4, 4, "FLOAT32 FLOAT16"}, {"5_1", 1, 4, "FLOAT32 FLOAT16"}, {"6_2", 1, 4, "FLOAT32 FLOAT16 INT8 UINT8"}}},
    {DML_OPERATOR_RESAMPLE2, {{"5_1", 1, 4, "FLOAT32 FLOAT16"}, {"6_2", 1, 4, "FLOAT32 FLOAT16 INT8 UINT8"}}},
    {DML_OPERATOR_RESAMPLE_GRAD, {{"3_0", 4, 4, "FLOAT32 FLOAT16"}, {"5_1", 1, 4, "FLOAT32 FLOAT16"}}},
    {DML_OPERATOR_RESAMPLE_GRAD1, {{"5_1", 1, 4, "FLOAT32 FLOAT16"}}},
    {DML_OPERATOR_SLICE,
     {{"1_0", 4, 5, "FLOAT32 FLOAT16 INT32 INT16 UINT32 UINT16"},
      {"2_1", 4, 5, "FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8"},
      {"3_0", 1, 8, "FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8"},
      {"4_1", 1, 8, "FLOAT64 FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8"}}},
    {DML_OPERATOR_SLICE1,
     {{"2_1", 4, 5, "FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8"},
      {"3_0", 1, 8, "FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8"},
      {"4_1", 1, 8, "FLOAT64 FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8"}}},
    {DML_OPERATOR_SLICE_GRAD,
     {{"3_0", 4, 5, "FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8"},
      {"3_1", 1, 8, "FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8"},
      {"4_1", 1, 8, "FLOAT64 FLOAT32 FLOAT16 INT64 INT32 INT16 INT8 UINT64 UINT32 UINT16 UINT8"}}},
};

bool lists(const std::string& types, const std::string& type) {
  std::istringstream words(types);
  for (std::string word; words >> word;) {
    if (word == type) return true;
  }
  return false;
}

// Level names sort as levels do.
const Row* row_at(int op, const std::string& level) {
  const Row* found = nullptr;
  for (const Row& row : kTables.at(op)) {
    if (row.from <= level) found = &row;
  }
  return found;
}

std::string words(const Level& level, const std::string& type, unsigned rank) {
  return " at " + level.name + ", " + type + ", rank " + std::to_string(rank);
}

TEST(DirectmlTables, AnOperatorOfTheHeaderHasATable) {
  EXPECT_EQ(kTables.size(), 14U);
  for (const int op : kFourteen) EXPECT_EQ(kTables.count(op), 1U) << name(op);
}

TEST(DirectmlTables, EveryLevelTypeAndRankIsAnsweredAsThePagesSay) {
  std::size_t accepted = 0;
  for (const int op : kFourteen) {
    for (const Level& level : kLevels) {
      const Row* row = row_at(op, level.name);
      for (std::size_t type = 0; type < kTypes.size(); ++type) {
        for (unsigned rank = 0; rank <= 9; ++rank) {
          Call c = valid(op, static_cast<int>(type), rank);
          c.level = level.value;
          const bool broken = kTypes[type] == "UNKNOWN" || rank == 0 || rank == 9;
          const bool listed =
              row != nullptr && rank >= row->least_rank && rank <= row->most_rank && lists(row->types, kTypes[type]);
          const std::int32_t expected = broken ? kInvalid : listed ? kOk : kUnsupported;
          const Answer answer = create(c);
          ASSERT_EQ(answer.hresult, expected) << name(op) << words(level, kTypes[type], rank) << ": " << answer.error;
          accepted += answer.hresult == kOk ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(accepted, 2000U);
}

TEST(DirectmlTables, EveryTypeOfIndicesIsAnsweredAsThePagesSay) {
  for (const int op : {DML_OPERATOR_MAX_POOLING1, DML_OPERATOR_MAX_POOLING2}) {
    for (const Level& level : kLevels) {
      const Row* row = row_at(op, level.name);
      for (std::size_t type = 0; type < kTypes.size(); ++type) {
        for (const unsigned rank : {4U, 5U}) {
          Call c = valid(op, DML_TENSOR_DATA_TYPE_FLOAT16, rank);
          c.level = level.value;
          c.tensors[2] = View{.type = static_cast<int>(type), .sizes = c.tensor(1).sizes};
          const bool listed = row != nullptr && lists(row->indices, kTypes[type]);
          const std::int32_t expected = kTypes[type] == "UNKNOWN" ? kInvalid : listed ? kOk : kUnsupported;
          const Answer answer = create(c);
          ASSERT_EQ(answer.hresult, expected) << name(op) << words(level, kTypes[type], rank) << ": " << answer.error;
        }
      }
    }
  }
}

TEST(DirectmlTables, TheSentenceOfAnUnlistedCallSaysWhatIsListed) {
  Call c = valid(DML_OPERATOR_RESAMPLE2);
  c.level = DML_FEATURE_LEVEL_5_0;
  expect_refused(c, kUnsupported,
                 "DML_OPERATOR_RESAMPLE2: level: is DML_FEATURE_LEVEL_5_0, expected DML_FEATURE_LEVEL_5_1 or above");
  c = valid(DML_OPERATOR_MAX_POOLING_GRAD, DML_TENSOR_DATA_TYPE_FLOAT32, 5);
  c.level = DML_FEATURE_LEVEL_3_1;
  expect_refused(c, kUnsupported,
                 "DML_OPERATOR_MAX_POOLING_GRAD: InputTensor: DimensionCount is 5, expected 4 at "
                 "DML_FEATURE_LEVEL_3_1");
  c = valid(DML_OPERATOR_MAX_POOLING, DML_TENSOR_DATA_TYPE_FLOAT32, 3);
  expect_refused(c, kUnsupported,
                 "DML_OPERATOR_MAX_POOLING: InputTensor: DimensionCount is 3, expected 4 to 5 at "
                 "DML_FEATURE_LEVEL_6_4");
  c = valid(DML_OPERATOR_RESAMPLE_GRAD1, DML_TENSOR_DATA_TYPE_INT4);
  expect_refused(c, kUnsupported,
                 "DML_OPERATOR_RESAMPLE_GRAD1: InputGradientTensor: DataType is INT4, expected one of FLOAT32 FLOAT16 "
                 "at DML_FEATURE_LEVEL_6_4");
  c = valid(DML_OPERATOR_MAX_POOLING1);
  c.tensors[2] = View{.type = DML_TENSOR_DATA_TYPE_INT32, .sizes = c.tensor(1).sizes};
  expect_refused(c, kUnsupported,
                 "DML_OPERATOR_MAX_POOLING1: OutputIndicesTensor: DataType is INT32, expected one of UINT32 UINT64 at "
                 "DML_FEATURE_LEVEL_6_4");
}

// ---- The order of refusals -------------------------------------------------------------------------------

TEST(DirectmlOrder, ABrokenConstraintComesBeforeEveryTable) {
  for (const int op : kFourteen) {
    for (const int type : {DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_DATA_TYPE_UINT8, DML_TENSOR_DATA_TYPE_INT4}) {
      for (unsigned rank = 1; rank <= 8; ++rank) {
        Call c = valid(op, type, rank);
        c.level = DML_FEATURE_LEVEL_1_0;
        c.tensor(0).total = 1;
        EXPECT_EQ(create(c).hresult, kInvalid) << name(op);
        c = valid(op, type, rank);
        c.level = DML_FEATURE_LEVEL_1_0;
        c.tensor(1).type = DML_TENSOR_DATA_TYPE_INT16;
        EXPECT_EQ(create(c).hresult, kInvalid) << name(op);
        if (is_relu(op) || (is_pooling(op) && rank <= 2)) continue;
        c = valid(op, type, rank);
        c.level = DML_FEATURE_LEVEL_1_0;
        ++c.count;
        EXPECT_EQ(create(c).hresult, kInvalid) << name(op);
        c = valid(op, type, rank);
        c.level = DML_FEATURE_LEVEL_1_0;
        if (is_pooling(op)) c.window->at(rank - 3) = 4;
        if (is_slice(op)) c.sizes->at(rank - 1) = 4;
        if (is_resample(op)) c.scales->at(rank - 1) = 0;
        EXPECT_EQ(create(c).hresult, kInvalid) << name(op) << " rank " << rank;
      }
    }
  }
}

TEST(DirectmlOrder, NoDimensionCountIsRightForAPoolingWithoutSpatialAxes) {
  for (const int op : kFourteen) {
    if (!is_pooling(op)) continue;
    for (const unsigned rank : {1U, 2U}) {
      Call c = valid(op, DML_TENSOR_DATA_TYPE_FLOAT32, rank);
      for (const UINT count : {0U, 1U, 2U, 0xffffffffU}) {
        c.count = count;
        EXPECT_EQ(create(c).hresult, kUnsupported) << name(op) << " rank " << rank;
      }
    }
  }
}

TEST(DirectmlOrder, OperatorTypesOutsideTheFourteenAreUnsupportedAndOutsideTheEnumInvalid) {
  for (int type = -2; type <= 300; ++type) {
    if (kTables.count(type) != 0) continue;
    Call c = valid(DML_OPERATOR_ACTIVATION_RELU);
    c.type = type;
    if (type >= 1 && type <= 177) {
      expect_refused(c, kUnsupported,
                     "desc: Type is " + std::to_string(type) +
                         ", expected one of the fourteen operators that backpass/directml.h marks");
      c.level = 0x1001;
      EXPECT_EQ(create(c).hresult, kInvalid);
      c.level = DML_FEATURE_LEVEL_1_0;
      c.null_desc = true;
      EXPECT_EQ(create(c).hresult, kInvalid);
    } else {
      expect_refused(c, kInvalid,
                     "desc: Type is " + std::to_string(type) + ", expected a DML_OPERATOR_TYPE (1 to 177)");
    }
  }
}

TEST(DirectmlOrder, LevelsThatAreNoneAreInvalid) {
  for (const int op : kFourteen) {
    for (const int level : {0, 1, 0x0fff, 0x1001, 0x1100, 0x2200, 0x6500, 0x7000, 0x7fff}) {
      Call c = valid(op);
      c.level = level;
      const Answer answer = create(c);
      EXPECT_EQ(answer.hresult, kInvalid) << level;
      EXPECT_NE(answer.error.find("expected a DML_FEATURE_LEVEL (0x1000 to 0x6400)"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace directml
