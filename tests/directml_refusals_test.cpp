// SPDX-License-Identifier: Apache-2.0
// Everything the DirectML door refuses before it looks at a table, with HRESULT and sentence, and next to it what must
// still be accepted.
#include "directml_support.h"

#include <limits>
#include <string>
#include <utility>

namespace directml {
namespace {

// ---- Refusals: the call ----------------------------------------------------------------------------------

TEST(DirectmlRefusal, NullPointersOfTheCall) {
  const bp_device cpu{BP_DEVICE_CPU, 0};
  bp_operator* op = nullptr;
  EXPECT_EQ(bp_dml_create_operator(nullptr, DML_FEATURE_LEVEL_6_4, cpu, &op), kInvalid);
  EXPECT_STREQ(bp_last_error(), "desc: is null, expected a DML_OPERATOR_DESC");
  EXPECT_EQ(bp_dml_check_support(nullptr, DML_FEATURE_LEVEL_6_4), kInvalid);
  EXPECT_EQ(bp_dml_create_operator(nullptr, DML_FEATURE_LEVEL_6_4, cpu, nullptr), kInvalid);
  EXPECT_STREQ(bp_last_error(), "op: is null, expected the address for the new handle");
  for (const int type : kFourteen) {
    Call c = valid(type);
    c.null_desc = true;
    expect_refused(c, kInvalid, "desc: Desc is null, expected the struct of operator type " + std::to_string(type));
  }
}

TEST(DirectmlRefusal, TheShortEntryPointIsTheLongOneWithoutFlagsAndOptions) {
  const UINT sizes[] = {4};
  const DML_BUFFER_TENSOR_DESC buffer{DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 1, sizes, nullptr, 16, 0};
  const DML_TENSOR_DESC tensor{DML_TENSOR_TYPE_BUFFER, &buffer};
  const DML_ACTIVATION_RELU_OPERATOR_DESC relu{&tensor, &tensor};
  const DML_OPERATOR_DESC desc{DML_OPERATOR_ACTIVATION_RELU, &relu};
  bp_operator* op = nullptr;
  EXPECT_EQ(bp_dml_create_operator(&desc, DML_FEATURE_LEVEL_3_0, {BP_DEVICE_CPU, 0}, &op), kOk);
  EXPECT_STREQ(bp_operator_name(op), "relu");
  bp_operator_destroy(op);
  EXPECT_EQ(bp_dml_create_operator(&desc, DML_FEATURE_LEVEL_2_0, {BP_DEVICE_CPU, 0}, &op), kUnsupported);
  EXPECT_EQ(op, nullptr);
}

TEST(DirectmlRefusal, FlagsThatAreNoneOrHaveNothingToSwap) {
  for (const int type : kFourteen) {
    Call c = valid(type);
    c.flags = 2;
    expect_refused(c, kInvalid, "flags: is 0x2, expected 0x0 or 0x1 (BP_DML_OFFSETS_SWAPPED)");
    c.flags = BP_DML_OFFSETS_SWAPPED;
    if (type == DML_OPERATOR_RESAMPLE_GRAD || type == DML_OPERATOR_RESAMPLE_GRAD1) {
      expect_accepted(c);
    } else {
      expect_refused(c, kInvalid,
                     "flags: BP_DML_OFFSETS_SWAPPED is set, expected only for RESAMPLE_GRAD and RESAMPLE_GRAD1");
    }
  }
}

TEST(DirectmlRefusal, DevicesAndOptions) {
  for (const int type : kFourteen) {
    Call c = valid(type);
    c.device = {7, 0};
    expect_refused(c, kInvalid, "device: kind is 7, expected 0 (cpu) or 1 (cuda)");
    c.device = {BP_DEVICE_CPU, 1};
    expect_refused(c, kInvalid, name(type) + ": device: ordinal is 1, expected 0 (there is one cpu)");
    c = valid(type);
    bp_options options{};
    options.struct_size = sizeof options;
    options.implementation = "no_such";
    c.options = &options;
    EXPECT_EQ(create(c).hresult, kUnsupported);
    options.implementation = "reference";
    expect_accepted(c);
    options.threads = -1;
    expect_refused(c, kInvalid, name(type) + ": options: threads: is -1, expected 0 or more");
  }
}

// ---- Refusals: any tensor of any operator ----------------------------------------------------------------

struct TensorRefusal {
  void (*spoil)(View&);
  std::string sentence;
};

const std::vector<TensorRefusal> kTensorRefusals{
    {[](View& v) { v.tensor_type = DML_TENSOR_TYPE_INVALID; }, "Type is 0, expected 1 (DML_TENSOR_TYPE_BUFFER)"},
    {[](View& v) { v.tensor_type = 2; }, "Type is 2, expected 1 (DML_TENSOR_TYPE_BUFFER)"},
    {[](View& v) { v.null_desc = true; }, "Desc is null, expected a DML_BUFFER_TENSOR_DESC"},
    {[](View& v) { v.type = DML_TENSOR_DATA_TYPE_UNKNOWN; },
     "DataType is 0, expected 1 to 13 (a DML_TENSOR_DATA_TYPE, not UNKNOWN)"},
    {[](View& v) { v.type = 14; }, "DataType is 14, expected 1 to 13 (a DML_TENSOR_DATA_TYPE, not UNKNOWN)"},
    {[](View& v) { v.type = -1; }, "DataType is -1, expected 1 to 13 (a DML_TENSOR_DATA_TYPE, not UNKNOWN)"},
    {[](View& v) { v.flags = 2; }, "Flags is 0x2, expected 0x0 (NONE) or 0x1 (OWNED_BY_DML)"},
    {[](View& v) { v.flags = 3; }, "Flags is 0x3, expected 0x0 (NONE) or 0x1 (OWNED_BY_DML)"},
    {[](View& v) { v.flags = -1; }, "Flags is 0xffffffff, expected 0x0 (NONE) or 0x1 (OWNED_BY_DML)"},
    {[](View& v) { v.rank = 0; }, "DimensionCount is 0, expected 1 to 8"},
    {[](View& v) { v.rank = 9; }, "DimensionCount is 9, expected 1 to 8"},
    {[](View& v) { v.rank = 0xffffffffU; }, "DimensionCount is 4294967295, expected 1 to 8"},
    {[](View& v) {
       v.sizes.reset();
       v.rank = 4;
     },
     "Sizes is null, expected 4 entries"},
    {[](View& v) { v.sizes->at(0) = 0; }, "axis 0: size is 0, expected 1 or more"},
    {[](View& v) { v.sizes->at(3) = 0; }, "axis 3: size is 0, expected 1 or more"},
    {[](View& v) {
       v.sizes = Uints{65536, 65536, 1, 1};
     },
     "axis 1: size 65536 makes more than 2^32 - 1 elements, expected at most that"},
    {[](View& v) {
       v.sizes = Uints{0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU};
     },
     "axis 1: size 4294967295 makes more than 2^32 - 1 elements, expected at most that"},
    {[](View& v) {
       v.sizes = Uints{1, 1, 2, 2};
       v.strides = Uints{0, 0, 0xfffffffeU, 1};
     },
     "axis 3: stride 1 of size 2 spans more than 2^32 - 1 elements, expected at most that"},
    {[](View& v) {
       v.sizes = Uints{2, 3, 2, 3};
       v.strides = Uints{0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU};
     },
     "axis 0: stride 4294967295 of size 2 spans more than 2^32 - 1 elements, expected at most that"},
    {[](View& v) { v.total = 0; }, "TotalTensorSizeInBytes is 0, expected $n or more"},
    {[](View& v) { v.alignment = 1; }, "GuaranteedBaseOffsetAlignment is 1, expected 0 or a power of two from 4 on"},
    {[](View& v) { v.alignment = 2; }, "GuaranteedBaseOffsetAlignment is 2, expected 0 or a power of two from 4 on"},
    {[](View& v) { v.alignment = 12; }, "GuaranteedBaseOffsetAlignment is 12, expected 0 or a power of two from 4 on"},
};

std::string bytes_of(const View& v) {
  UINT64 bytes = 4;
  if (v.sizes) {
    for (const UINT size : *v.sizes) bytes *= size;
  }
  return std::to_string(bytes);
}

std::string with(std::string text, const std::string& mark, const std::string& by) {
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? text : text.replace(at, mark.size(), by);
}

// A valid call with every tensor present.
Call complete(int type) {
  Call c = valid(type);
  if (has_indices(type)) c.tensors[2] = View{.type = DML_TENSOR_DATA_TYPE_UINT32, .sizes = c.tensor(1).sizes};
  return c;
}

TEST(DirectmlRefusal, EveryTensorOfEveryOperator) {
  for (const int type : kFourteen) {
    const std::vector<std::string> names = tensor_names(type);
    for (std::size_t i = 0; i < names.size(); ++i) {
      for (const TensorRefusal& refusal : kTensorRefusals) {
        Call c = complete(type);
        const std::string bytes = bytes_of(c.tensor(i));
        refusal.spoil(c.tensor(i));
        expect_refused(c, kInvalid, name(type) + ": " + names[i] + ": " + with(refusal.sentence, "$n", bytes));
      }
    }
  }
}

TEST(DirectmlRefusal, ATensorThatIsNull) {
  for (const int type : kFourteen) {
    const std::vector<std::string> names = tensor_names(type);
    for (std::size_t i = 0; i < names.size(); ++i) {
      Call c = complete(type);
      c.tensors[i].reset();
      if (names[i] == "OutputIndicesTensor") {
        expect_accepted(c);
      } else {
        expect_refused(c, kInvalid, name(type) + ": " + names[i] + ": is null, expected a DML_TENSOR_DESC");
      }
    }
  }
}

TEST(DirectmlRefusal, OwnedByDmlIsForInputs) {
  for (const int type : kFourteen) {
    const std::vector<std::string> names = tensor_names(type);
    for (std::size_t i = 0; i < names.size(); ++i) {
      Call c = complete(type);
      c.tensor(i).flags = DML_TENSOR_FLAG_OWNED_BY_DML;
      if (i < input_count(type)) {
        expect_accepted(c);
      } else {
        expect_refused(
            c, kInvalid,
            name(type) + ": " + names[i] + ": Flags is 0x1 (OWNED_BY_DML), expected 0x0 (NONE) of an output");
      }
    }
  }
}

TEST(DirectmlRefusal, AnOutputWhoseElementsShareMemory) {
  for (const int type : kFourteen) {
    const std::vector<std::string> names = tensor_names(type);
    for (std::size_t i = 0; i < names.size(); ++i) {
      Call c = complete(type);
      c.tensor(i).strides = Uints{9, 9, 0, 1};
      if (i < input_count(type)) {
        expect_accepted(c);
      } else {
        expect_refused(c, kInvalid,
                       name(type) + ": " + names[i] +
                           ": axis 2: stride 0 lets elements of an output share memory, expected a magnitude above 0");
      }
    }
  }
}

TEST(DirectmlRefusal, TensorsThatMustAgree) {
  for (const int type : kFourteen) {
    const std::vector<std::string> names = tensor_names(type);
    const std::string start = name(type) + ": " + names[1] + ": ";
    Call c = valid(type);
    c.tensor(1).type = DML_TENSOR_DATA_TYPE_FLOAT16;
    expect_refused(c, kInvalid, start + "DataType is FLOAT16, expected FLOAT32 (that of " + names[0] + ")");
    c = valid(type);
    c.tensor(1).sizes->push_back(1);
    expect_refused(c, kInvalid, start + "rank is 5, expected 4 (that of " + names[0] + ")");
  }
  for (const int type : {DML_OPERATOR_ACTIVATION_RELU_GRAD, DML_OPERATOR_MAX_POOLING_GRAD}) {
    Call c = valid(type);
    c.tensor(2).type = DML_TENSOR_DATA_TYPE_FLOAT16;
    expect_refused(c, kInvalid,
                   name(type) + ": OutputGradientTensor: DataType is FLOAT16, expected FLOAT32 (that of InputTensor)");
    c = valid(type);
    c.tensor(2).sizes = Uints{1, 1, 3, 4};
    expect_refused(c, kInvalid,
                   name(type) + ": OutputGradientTensor: axis 3: size is 4, expected 3 (that of InputTensor)");
  }
  Call c = complete(DML_OPERATOR_MAX_POOLING2);
  c.tensor(2).sizes = Uints{1, 1, 2, 1};
  expect_refused(
      c, kInvalid,
      "DML_OPERATOR_MAX_POOLING2: OutputIndicesTensor: axis 3: size is 1, expected 2 (that of OutputTensor)");
  c = valid(DML_OPERATOR_ACTIVATION_RELU);
  c.tensor(1).sizes = Uints{1, 1, 3, 4};
  expect_refused(c, kInvalid,
                 "DML_OPERATOR_ACTIVATION_RELU: OutputTensor: axis 3: size is 4, expected 3 (that of InputTensor)");
}

// ---- The minimum size ------------------------------------------------------------------------------------

struct MinimumSize {
  int type;
  Uints sizes;
  std::optional<Uints> strides;
  UINT64 bytes;
};

TEST(DirectmlTensor, TotalTensorSizeInBytesIsAtLeastTheImpliedSize) {
  const std::vector<MinimumSize> rows{
      {DML_TENSOR_DATA_TYPE_FLOAT16, {1, 1, 1, 3}, std::nullopt, 8},
      {DML_TENSOR_DATA_TYPE_FLOAT32, {2, 3}, Uints{5, 1}, 32},
      {DML_TENSOR_DATA_TYPE_UINT8, {2, 3}, Uints{0, 1}, 4},
      {DML_TENSOR_DATA_TYPE_INT8, {5}, std::nullopt, 8},
      {DML_TENSOR_DATA_TYPE_FLOAT64, {3}, std::nullopt, 24},
      {DML_TENSOR_DATA_TYPE_UINT64, {2}, Uints{3}, 32},
  };
  for (const MinimumSize& row : rows) {
    // The input of a slice takes every type; one element is taken from it.
    const auto rank = static_cast<UINT>(row.sizes.size());
    Call c = valid(DML_OPERATOR_SLICE1, row.type, rank);
    c.tensor(0).sizes = row.sizes;
    c.tensor(0).strides = row.strides;
    c.tensor(1).sizes = Uints(rank, 1);
    c.sizes = Uints(rank, 1);
    c.tensor(0).total = row.bytes;
    expect_accepted(c);
    c.tensor(0).total = row.bytes + 1;
    expect_accepted(c);
    c.tensor(0).total = row.bytes - 1;
    expect_refused(c, kInvalid,
                   "DML_OPERATOR_SLICE1: InputTensor: TotalTensorSizeInBytes is " + std::to_string(row.bytes - 1) +
                       ", expected " + std::to_string(row.bytes) + " or more");
  }
}

TEST(DirectmlTensor, FourBitTypesAreMeasuredInBits) {
  Call c = valid(DML_OPERATOR_SLICE, DML_TENSOR_DATA_TYPE_UINT4);
  c.tensor(0).total = 7;  // 9 elements, 5 bytes, 8 in whole words
  expect_refused(c, kInvalid, "DML_OPERATOR_SLICE: InputTensor: TotalTensorSizeInBytes is 7, expected 8 or more");
  c.tensor(0).total = 8;
  EXPECT_EQ(create(c).hresult, kUnsupported);
}

TEST(DirectmlTensor, AlignmentsArePowersOfTwoFromTheElementOn) {
  for (const auto& [type, element] : {std::pair{DML_TENSOR_DATA_TYPE_UINT8, 1U},
                                      {DML_TENSOR_DATA_TYPE_FLOAT16, 2U},
                                      {DML_TENSOR_DATA_TYPE_FLOAT32, 4U},
                                      {DML_TENSOR_DATA_TYPE_FLOAT64, 8U}}) {
    for (UINT alignment = 0; alignment <= 64; ++alignment) {
      Call c = valid(DML_OPERATOR_SLICE1, type);
      c.tensor(0).alignment = alignment;
      const bool sound = alignment == 0 || ((alignment & (alignment - 1)) == 0 && alignment >= element);
      EXPECT_EQ(create(c).hresult, sound ? kOk : kInvalid) << alignment;
    }
  }
}

TEST(DirectmlTensor, TheLargestSpanIsAccepted) {
  Call c = valid(DML_OPERATOR_SLICE1, DML_TENSOR_DATA_TYPE_UINT8, 1);
  c.tensor(0).sizes = Uints{0xffffffffU};
  expect_accepted(c);
  c.tensor(0).sizes = Uints{2};
  c.tensor(0).strides = Uints{0xfffffffeU};
  expect_accepted(c);
  c.tensor(0).strides = Uints{0xffffffffU};
  EXPECT_EQ(create(c).hresult, kInvalid);
}

// ---- Refusals: parameters --------------------------------------------------------------------------------

struct Refusal {
  void (*spoil)(Call&);
  std::string sentence;  // $x, $y: the tensors of the forward input's and output's sizes
};

void expect_all_refused(const std::vector<int>& types, const std::vector<Refusal>& refusals) {
  for (const int type : types) {
    const std::vector<std::string> names = tensor_names(type);
    const bool three = type == DML_OPERATOR_MAX_POOLING_GRAD || !is_gradient(type);
    for (const Refusal& refusal : refusals) {
      Call c = valid(type);
      refusal.spoil(c);
      expect_refused(
          c, kInvalid,
          name(type) + ": " +
              with(with(refusal.sentence, "$x", three ? names[0] : names[1]), "$y", three ? names[1] : names[0]));
    }
  }
}

const std::vector<int> kPooling{DML_OPERATOR_MAX_POOLING, DML_OPERATOR_MAX_POOLING1, DML_OPERATOR_MAX_POOLING2,
                                DML_OPERATOR_MAX_POOLING_GRAD};
const std::vector<int> kDilated{DML_OPERATOR_MAX_POOLING2, DML_OPERATOR_MAX_POOLING_GRAD};

TEST(DirectmlRefusal, PoolingParameters) {
  expect_all_refused(
      kPooling,
      {
          {[](Call& c) { c.count = 1; }, "DimensionCount: is 1, expected 2 (rank 4 of $x less 2)"},
          {[](Call& c) { c.count = 3; }, "DimensionCount: is 3, expected 2 (rank 4 of $x less 2)"},
          {[](Call& c) { c.strides.reset(); }, "Strides: is null, expected 2 entries"},
          {[](Call& c) { c.window.reset(); }, "WindowSize: is null, expected 2 entries"},
          {[](Call& c) { c.start_padding.reset(); }, "StartPadding: is null, expected 2 entries"},
          {[](Call& c) { c.end_padding.reset(); }, "EndPadding: is null, expected 2 entries"},
          {[](Call& c) {
             c.strides = Uints{1, 0};
           },
           "Strides: spatial axis 1: is 0, expected 1 to 2^31 - 1"},
          {[](Call& c) {
             c.window = Uints{0, 2};
           },
           "WindowSize: spatial axis 0: is 0, expected 1 to 2^31 - 1"},
          {[](Call& c) {
             c.strides = Uints{1, 0x80000000U};
           },
           "Strides: spatial axis 1: is 2147483648, expected 1 to 2^31 - 1"},
          {[](Call& c) {
             c.start_padding = Uints{0x80000000U, 0};
           },
           "StartPadding: spatial axis 0: is 2147483648, expected 0 to 2^31 - 1"},
          {[](Call& c) {
             c.end_padding = Uints{0, 0xffffffffU};
           },
           "EndPadding: spatial axis 1: is 4294967295, expected 0 to 2^31 - 1"},
          {[](Call& c) {
             c.window = Uints{2, 4};
           },
           "WindowSize: spatial axis 1: spans 4 (4 taps, dilation 1), expected at most 3 (size 3 and padding 0 + 0)"},
          {[](Call& c) {
             c.window = Uints{3, 2};
           },
           "$y: axis 2: size is 2, expected 1 to 1 (with whole windows only: 1)"},
          {[](Call& c) {
             c.tensor(1).sizes = Uints{2, 1, 2, 2};
           },
           "$y: axis 0: size is 2, expected 1 (that of $x)"},
          {[](Call& c) {
             c.tensor(1).sizes = Uints{1, 7, 2, 2};
           },
           "$y: axis 1: size is 7, expected 1 (that of $x)"},
          {[](Call& c) {
             c.window = Uints{65536, 65536};
             c.start_padding = Uints{65535, 65535};
           },
           "WindowSize: has more than 2^32 - 2 taps, expected at most that"},
      });
  expect_all_refused(
      kDilated,
      {
          {[](Call& c) { c.dilations.reset(); }, "Dilations: is null, expected 2 entries"},
          {[](Call& c) {
             c.dilations = Uints{1, 0};
           },
           "Dilations: spatial axis 1: is 0, expected 1 to 2^31 - 1"},
          {[](Call& c) {
             c.dilations = Uints{3, 1};
           },
           "WindowSize: spatial axis 0: spans 4 (2 taps, dilation 3), expected at most 3 (size 3 and padding 0 + 0)"},
      });
}

TEST(DirectmlRefusal, PoolingSizesUpToTheCeilAreAccepted) {
  for (const int type : kPooling) {
    Call c = valid(type);
    c.strides = Uints{2, 2};  // whole windows: 1; with a partial one: 2
    expect_accepted(c);
    c.tensor(1).sizes = Uints{1, 1, 1, 1};
    expect_accepted(c);
    c.tensor(1).sizes = Uints{1, 1, 3, 2};
    EXPECT_EQ(create(c).hresult, kInvalid);
  }
}

const std::vector<int> kResample{DML_OPERATOR_RESAMPLE, DML_OPERATOR_RESAMPLE1, DML_OPERATOR_RESAMPLE2,
                                 DML_OPERATOR_RESAMPLE_GRAD, DML_OPERATOR_RESAMPLE_GRAD1};

TEST(DirectmlRefusal, ResampleParameters) {
  constexpr FLOAT kInf = std::numeric_limits<FLOAT>::infinity();
  expect_all_refused(
      kResample,
      {
          {[](Call& c) { c.mode = 2; }, "InterpolationMode: is 2, expected 0 (NEAREST_NEIGHBOR) or 1 (LINEAR)"},
          {[](Call& c) { c.mode = -1; }, "InterpolationMode: is -1, expected 0 (NEAREST_NEIGHBOR) or 1 (LINEAR)"},
          {[](Call& c) { c.scales.reset(); }, "Scales: is null, expected 4 entries"},
          {[](Call& c) {
             c.scales = Floats{1, 1, 0, 1};
           },
           "Scales: axis 2: is 0, expected a number above 0"},
          {[](Call& c) {
             c.scales = Floats{1, 1, 1, -2};
           },
           "Scales: axis 3: is -2, expected a number above 0"},
          {[](Call& c) {
             c.scales = Floats{1, kInf, 1, 1};
           },
           "Scales: axis 1: is inf, expected a finite number"},
          {[](Call& c) {
             c.scales = Floats{1, 1, 1, std::numeric_limits<FLOAT>::quiet_NaN()};
           },
           "Scales: axis 3: is nan, expected a finite number"},
      });
  for (const int type : kResample) {
    Call c = valid(type);
    const std::string count = type == DML_OPERATOR_RESAMPLE ? "ScaleCount" : "DimensionCount";
    for (const UINT wrong : {0U, 3U, 5U, 0xffffffffU}) {
      c.count = wrong;
      expect_refused(c, kInvalid,
                     name(type) + ": " + count + ": is " + std::to_string(wrong) + ", expected 4 (that of " +
                         tensor_names(type)[0] + ")");
    }
  }
  expect_all_refused(
      {DML_OPERATOR_RESAMPLE1, DML_OPERATOR_RESAMPLE2, DML_OPERATOR_RESAMPLE_GRAD, DML_OPERATOR_RESAMPLE_GRAD1},
      {
          {[](Call& c) { c.input_offsets.reset(); }, "InputPixelOffsets: is null, expected 4 entries"},
          {[](Call& c) { c.output_offsets.reset(); }, "OutputPixelOffsets: is null, expected 4 entries"},
          {[](Call& c) { c.input_offsets->at(1) = -kInf; },
           "InputPixelOffsets: axis 1: is -inf, expected a finite number"},
          {[](Call& c) { c.output_offsets->at(0) = kInf; },
           "OutputPixelOffsets: axis 0: is inf, expected a finite number"},
      });
  for (const int mode : {DML_INTERPOLATION_MODE_LINEAR, DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR}) {
    for (const int type : {DML_OPERATOR_RESAMPLE2, DML_OPERATOR_RESAMPLE_GRAD1}) {
      Call c = valid(type);
      c.mode = mode;
      c.rounding = 2;
      expect_refused(c, kInvalid, name(type) + ": RoundingDirection: is 2, expected 0 (INCREASING) or 1 (DECREASING)");
    }
  }
}

TEST(DirectmlRefusal, SliceParameters) {
  expect_all_refused(
      {DML_OPERATOR_SLICE},
      {
          {[](Call& c) { c.count = 3; }, "DimensionCount: is 3, expected 4 (that of InputTensor)"},
          {[](Call& c) { c.offsets.reset(); }, "Offsets: is null, expected 4 entries"},
          {[](Call& c) { c.sizes.reset(); }, "Sizes: is null, expected 4 entries"},
          {[](Call& c) { c.strides.reset(); }, "Strides: is null, expected 4 entries"},
          {[](Call& c) { c.sizes->at(3) = 3; }, "Sizes: axis 3: is 3, expected 2 (that of OutputTensor)"},
          {[](Call& c) { c.strides->at(3) = 0; }, "Strides: axis 3: is 0, expected 1 to 2^31 - 1"},
          {[](Call& c) { c.strides->at(3) = 0xffffffffU; }, "Strides: axis 3: is 4294967295, expected 1 to 2^31 - 1"},
          {[](Call& c) { c.offsets->at(2) = 2; },
           "Offsets: axis 2: the last element read is 2 + 1 * 1, expected below 3 (the size of InputTensor)"},
          {[](Call& c) { c.offsets->at(2) = 0xffffffffU; },
           "Offsets: axis 2: the last element read is 4294967295 + 1 * 1, expected below 3 (the size of InputTensor)"},
          {[](Call& c) { c.strides->at(2) = 3; },
           "Offsets: axis 2: the last element read is 0 + 3 * 1, expected below 3 (the size of InputTensor)"},
      });
  expect_all_refused(
      {DML_OPERATOR_SLICE1, DML_OPERATOR_SLICE_GRAD},
      {
          {[](Call& c) { c.count = 5; }, "DimensionCount: is 5, expected 4 (that of $x)"},
          {[](Call& c) { c.offsets.reset(); }, "InputWindowOffsets: is null, expected 4 entries"},
          {[](Call& c) { c.sizes.reset(); }, "InputWindowSizes: is null, expected 4 entries"},
          {[](Call& c) { c.signed_strides.reset(); }, "InputWindowStrides: is null, expected 4 entries"},
          {[](Call& c) { c.sizes->at(2) = 0; }, "InputWindowSizes: axis 2: is 0, expected 1 or more"},
          {[](Call& c) { c.offsets->at(3) = 2; },
           "InputWindowSizes: axis 3: the window [2, 2 + 2) leaves the axis, expected offset + size <= 3"},
          {[](Call& c) { c.offsets->at(3) = 0xffffffffU; },
           "InputWindowSizes: axis 3: the window [4294967295, 4294967295 + 2) leaves the axis, expected offset + size "
           "<= 3"},
          {[](Call& c) { c.signed_strides->at(3) = 0; },
           "InputWindowStrides: axis 3: is 0, expected a number other than 0 between -2^31 and 2^31"},
          {[](Call& c) { c.signed_strides->at(3) = std::numeric_limits<INT>::min(); },
           "InputWindowStrides: axis 3: is -2147483648, expected a number other than 0 between -2^31 and 2^31"},
          {[](Call& c) { c.signed_strides->at(3) = -2; },
           "$y: axis 3: size is 2, expected 1 to 1 (window of 2 walked by -2)"},
      });
}

TEST(DirectmlRefusal, ASliceMayTakeFewerElementsThanItsWindowHas) {
  for (const int type : {DML_OPERATOR_SLICE1, DML_OPERATOR_SLICE_GRAD}) {
    Call c = valid(type);
    c.sizes = Uints{1, 1, 3, 3};
    expect_accepted(c);
  }
}

}  // namespace
}  // namespace directml
