// SPDX-License-Identifier: Apache-2.0
// What create refuses of any operator: the call itself, struct sizes, tensors, outputs; then the few parameters of relu
// and slice. For every rule of the contract the status, the exact sentence, and that no handle comes out; next to it
// what must still be accepted. The parameters of pooling and resample are in errors_parameters_test.cpp, what run
// refuses in errors_run_test.cpp, stored winners that are wrong in errors_winners_test.cpp.
#include "errors_call.h"

#include <algorithm>
#include <cstdlib>

namespace errors {
namespace {

// ---- The call itself -------------------------------------------------------------------------------------

TEST(CreateCall, TheUnspoiledCallsAreAccepted) {
  for (const Call& c : all_valid()) expect_accepted(c);
}

TEST(CreateCall, ANullAddressForTheHandleIsRefused) {
  EXPECT_EQ(bp_operator_create(BP_RELU, nullptr, {}, nullptr, nullptr), BP_INVALID_ARGUMENT);
  EXPECT_STREQ(bp_last_error(), "operator: the address for the new handle is null, expected one");
}

TEST(CreateCall, ANullDescIsRefused) {
  for (std::int32_t kind = BP_RELU; kind <= BP_CONVERT_WINNERS; ++kind) {
    expect_refused(create(kind, nullptr, {}, nullptr), BP_INVALID_ARGUMENT,
                   "operator: the desc is null, expected the struct of its kind");
  }
}

TEST(CreateCall, AnUnknownKindIsRefused) {
  for (const std::int32_t kind : {0, 10, -1, std::numeric_limits<std::int32_t>::max()}) {
    const bp_relu_desc desc{sizeof desc, nullptr, nullptr};
    expect_refused(create(kind, &desc, {}, nullptr), BP_INVALID_ARGUMENT,
                   "operator: kind is " + str(kind) + ", expected a bp_operator_kind (1 to 9)");
  }
}

TEST(CreateCall, DevicesThatAreNotThereAreRefused) {
  for (Call c : all_valid()) {
    for (const std::int32_t kind : {2, -1}) {
      c.device = {kind, 0};
      expect_invalid(c, "device: kind is " + str(kind) + ", expected 0 (cpu) or 1 (cuda)");
    }
    for (const std::int32_t ordinal : {1, -1}) {
      c.device = {BP_DEVICE_CPU, ordinal};
      expect_invalid(c, "device: ordinal is " + str(ordinal) + ", expected 0 (there is one cpu)");
    }
  }
}

TEST(CreateCall, CudaIsRefusedWhereThereIsNone) {
  if (bp_device_count(BP_DEVICE_CUDA) > 0) GTEST_SKIP() << "this machine has a CUDA device";
  const bool built = bp_implementation_name(BP_RELU, BP_DEVICE_CUDA, 0) != nullptr;
  const std::string sentence =
      built ? "device: no CUDA device can be used: " : "device: this build of backpass has no CUDA backend";
  for (Call c : all_valid()) {
    c.device = {BP_DEVICE_CUDA, 0};
    const Outcome outcome = create(c);
    EXPECT_EQ(outcome.status, BP_UNSUPPORTED);
    EXPECT_TRUE(outcome.error.starts_with(sentence)) << outcome.error;
    EXPECT_FALSE(outcome.has_handle);
  }
}

TEST(CreateCall, OptionsAreChecked) {
  for (Call c : all_valid()) {
    bp_options options{};
    c.options = &options;
    for (const std::size_t size : {std::size_t{0}, sizeof(bp_options) - 1, std::size_t{4097}}) {
      options.struct_size = size;
      expect_invalid(c, "options: bp_options: struct_size is " + std::to_string(size) + ", expected 40");
    }
    options = default_options();
    options.threads = -1;
    expect_invalid(c, "options: threads: is -1, expected 0 or more");
    options = default_options();
    options.reserved = 1;
    expect_invalid(c, "options: bp_options: reserved is 1, expected 0");
    options = default_options();
    options.implementation = "";  // as if null
    options.threads = std::numeric_limits<std::int32_t>::max();
    expect_accepted(c);
  }
}

TEST(CreateCall, OptionsOfANewerHeaderAreAcceptedWhileTheyAreZero) {
  Call c = valid(BP_RELU);
  const Block<bp_options> zero({}, {.size = sizeof(bp_options) + 8});
  c.options = zero.get();
  expect_accepted(c);
  const Block<bp_options> set({}, {.size = sizeof(bp_options) + 8, .tail = 1});
  c.options = set.get();
  expect_unsupported(c,
                     "options: bp_options: struct_size is 48 and fields beyond byte 40 are set, which this version "
                     "does not know");
}

std::string implementations(std::int32_t kind) {
  std::string list;
  for (std::size_t i = 0; bp_implementation_name(kind, BP_DEVICE_CPU, i) != nullptr; ++i) {
    list += (i == 0 ? "" : " ") + std::string(bp_implementation_name(kind, BP_DEVICE_CPU, i));
  }
  return list;
}

TEST(CreateCall, AnUnknownImplementationIsUnsupported) {
  bp_options options = default_options();
  options.implementation = "no_such";
  for (Call c : all_valid()) {
    c.options = &options;
    expect_unsupported(c, names(c.kind).op +
                              ": implementation: 'no_such' is not among those for cpu, expected one of " +
                              implementations(c.kind));
  }
}

TEST(CreateCall, ASentenceThatIsTooLongIsCut) {
  const std::string name(5000, 'a');
  bp_options options = default_options();
  options.implementation = name.c_str();
  Call c = valid(BP_RELU);
  c.options = &options;
  expect_unsupported(c, ("relu: implementation: '" + name).substr(0, 1023));
}

class Environment {
 public:
  explicit Environment(const char* value) { setenv("BACKPASS_IMPL", value, 1); }
  ~Environment() { unsetenv("BACKPASS_IMPL"); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
};

TEST(CreateCall, AnEnvironmentThatLeavesNoImplementationIsUnsupported) {
  const Environment environment("no_such,nor_this");
  for (Call c : all_valid()) {
    const std::string start = names(c.kind).op + ": implementation: ";
    const std::string end = " is not among those for cpu, expected one of " + implementations(c.kind);
    expect_unsupported(c, start + "'no_such,nor_this' (BACKPASS_IMPL)" + end);
    bp_options options = default_options();
    options.implementation = "reference";
    c.options = &options;
    expect_unsupported(c, start + "'reference' is forced, expected one that BACKPASS_IMPL ('no_such,nor_this') leaves");
    options.implementation = "no_such";  // what there is not is no matter of the environment
    expect_unsupported(c, start + "'no_such'" + end);
  }
}

// The instruction sets are read once in a process, so this needs one of its own.
TEST(CreateCall, AnUnknownInstructionSetIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto attempt = [] {
    setenv("BACKPASS_MAX_ISA", "no_such", 1);
    const Outcome outcome = create(valid(BP_RELU));
    unsetenv("BACKPASS_MAX_ISA");
    const std::string sets = bp_cpu_instruction_sets();
    expect_refused(outcome, BP_INVALID_ARGUMENT, "BACKPASS_MAX_ISA: is 'no_such', expected one of " + sets);
    std::_Exit(testing::Test::HasFailure() || sets.empty() ? 1 : 0);
  };
  EXPECT_EXIT(attempt(), testing::ExitedWithCode(0), "");
}

TEST(CreateCall, ReservedFieldsMustBeZero) {
  for (const std::int32_t kind : {BP_RELU_GRAD, BP_MAX_POOL, BP_MAX_POOL_GRAD}) {
    Call c = valid(kind);
    c.reserved = 7;
    expect_invalid(c, names(kind).op + ": desc: reserved is 7, expected 0");
  }
  expect_all_invalid(kPooling, {{[](Call& c) { c.window->reserved = -1; }, "window: reserved is -1, expected 0"}});
  expect_all_invalid(kSlice, {{[](Call& c) { c.slice->reserved = -1; }, "window: reserved is -1, expected 0"}});
}

// ---- Struct sizes ----------------------------------------------------------------------------------------

struct SizedStruct {
  std::string name;
  Claim* claim;
  std::size_t size;
};

std::vector<SizedStruct> structs(Call& c) {
  constexpr std::array<std::size_t, 9> kDescs{
      sizeof(bp_relu_desc),          sizeof(bp_relu_grad_desc),  sizeof(bp_max_pool_desc),
      sizeof(bp_max_pool_grad_desc), sizeof(bp_resample_desc),   sizeof(bp_resample_grad_desc),
      sizeof(bp_slice_desc),         sizeof(bp_slice_grad_desc), sizeof(bp_convert_winners_desc)};
  std::vector<SizedStruct> all{{"desc", &c.claim, kDescs.at(static_cast<std::size_t>(c.kind - BP_RELU))}};
  for (auto& [name, tensor] : c.tensors) all.push_back({name, &tensor.claim, sizeof(bp_tensor_desc)});
  if (c.window) all.push_back({"window", &c.window->claim, sizeof(bp_window)});
  if (c.map) all.push_back({"map", &c.map->claim, sizeof(bp_resample_map)});
  if (c.slice) all.push_back({"window", &c.slice->claim, sizeof(bp_slice_window)});
  return all;
}

TEST(StructSize, TooSmallOrAbsurdIsRefusedAndAnUnknownTailOnlyWhereItIsSet) {
  for (Call c : all_valid()) {
    for (const SizedStruct& s : structs(c)) {
      const std::string start = names(c.kind).op + ": " + s.name + ": struct_size is ";
      for (const std::size_t size : {std::size_t{0}, s.size - 1, std::size_t{4097}, SIZE_MAX}) {
        *s.claim = {.size = size};
        expect_invalid(c, start + std::to_string(size) + ", expected " + std::to_string(s.size));
      }
      for (const std::size_t size : {s.size + 1, s.size + 8, std::size_t{4096}}) {
        *s.claim = {.size = size, .tail = 0};
        expect_accepted(c);
        *s.claim = {.size = size, .tail = 1};
        expect_unsupported(c, start + std::to_string(size) + " and fields beyond byte " + std::to_string(s.size) +
                                  " are set, which this version does not know");
      }
      *s.claim = {.size = s.size, .tail = 0xff};  // what lies behind the struct is nobody's business
      expect_accepted(c);
      *s.claim = {};
    }
  }
}

// ---- Tensors ---------------------------------------------------------------------------------------------

struct TensorRefusal {
  void (*spoil)(View&);
  std::string sentence;  // $n: the size of the last axis
};

const std::vector<TensorRefusal> kTensorRefusals{
    {[](View& v) { v.dtype = 0; }, "data type is 0, expected a bp_dtype (1 to 12)"},
    {[](View& v) { v.dtype = 13; }, "data type is 13, expected a bp_dtype (1 to 12)"},
    {[](View& v) { v.dtype = -1; }, "data type is -1, expected a bp_dtype (1 to 12)"},
    {[](View& v) { v.rank = 0; }, "rank is 0, expected 1 to 8"},
    {[](View& v) { v.rank = 9; }, "rank is 9, expected 1 to 8"},
    {[](View& v) { v.rank = -1; }, "rank is -1, expected 1 to 8"},
    {[](View& v) { v = {.dtype = v.dtype, .rank = 3}; }, "sizes is null, expected 3 entries"},
    {[](View& v) { v.sizes->back() = -1; }, "axis 2: size is -1, expected 0 or more"},
    {[](View& v) { v.sizes = ints(kLeast, 2, 3); }, "axis 0: size is -9223372036854775808, expected 0 or more"},
    {[](View& v) { v.sizes = ints(0, kLeast, 3); }, "axis 1: size is -9223372036854775808, expected 0 or more"},
    {[](View& v) { v.sizes = ints(kMost, kMost, kMost); },
     "the sizes multiply to more than 2^63 - 1 bytes, expected at most that"},
    {[](View& v) { v.sizes = ints(two_to(62), 2, 1); },
     "the sizes multiply to more than 2^63 - 1 bytes, expected at most that"},
    {[](View& v) { v.strides = ints(0, 0, kLeast); },
     "axis 2: stride -9223372036854775808 of size $n reaches beyond 2^63 - 1 bytes, expected at most that"},
    {[](View& v) { v.strides = ints(0, kMost, 1); },
     "axis 1: stride 9223372036854775807 of size 2 reaches beyond 2^63 - 1 bytes, expected at most that"},
    {[](View& v) { v.strides = ints(0, -kMost, 1); },
     "axis 1: stride -9223372036854775807 of size 2 reaches beyond 2^63 - 1 bytes, expected at most that"},
};

TEST(Tensor, EveryTensorOfEveryOperatorIsChecked) {
  for (const Call& good : all_valid()) {
    for (const auto& [name, view] : good.tensors) {
      for (const TensorRefusal& refusal : kTensorRefusals) {
        Call c = good;
        refusal.spoil(c.tensor(name));
        const std::string sentence = replaced(refusal.sentence, "$n", str(view.sizes->back()));
        expect_invalid(c, names(c.kind).op + ": " + name + ": " + sentence);
      }
    }
  }
}

TEST(Tensor, ANullDescIsRefusedWhereTheTensorIsNotOptional) {
  for (const Call& good : all_valid()) {
    for (const auto& [name, view] : good.tensors) {
      const bool chosen = good.kind == BP_MAX_POOL_GRAD && (name == "x" || name == "winners");
      if (chosen || name == "winners") continue;
      Call c = good;
      c.tensors.erase(name);
      expect_invalid(c, names(c.kind).op + ": " + name + ": the tensor desc is null, expected one");
    }
  }
}

TEST(Tensor, ReachIsCountedOverAllAxesInBytes) {
  Call c = valid(BP_RELU);
  const auto set = [&](std::int32_t dtype, const Ints& x_strides) {
    set_dtype(c, dtype);
    for (const char* name : {"x", "y"}) c.tensor(name).sizes = ints(3, 2);
    c.tensor("x").strides = x_strides;
  };
  set(BP_I8, {two_to(61), two_to(62) - 2});  // 2 * 2^61 + 2^62 - 2 + 1
  expect_accepted(c);
  set(BP_I8, {-two_to(61), two_to(62) - 2});
  expect_accepted(c);
  set(BP_I8, {two_to(61), two_to(62)});
  expect_invalid(
      c, "relu: x: axis 1: stride 4611686018427387904 of size 2 reaches beyond 2^63 - 1 bytes, expected at most that");
  set(BP_F64, {two_to(59), two_to(59)});
  expect_invalid(
      c, "relu: x: axis 0: stride 576460752303423488 of size 3 reaches beyond 2^63 - 1 bytes, expected at most that");
}

TEST(Tensor, TheLargestSizesAreAcceptedAndNotWrapped) {
  Call c = valid(BP_RELU);
  const auto set = [&](std::int32_t dtype, const Ints& sizes) {
    set_dtype(c, dtype);
    for (const char* name : {"x", "y"}) c.tensor(name).sizes = sizes;
  };
  set(BP_I8, {kMost});
  expect_accepted(c);
  set(BP_F64, {1, two_to(60) - 1, 1});
  expect_accepted(c);
  set(BP_F64, {1, two_to(60), 1});
  expect_invalid(c, "relu: x: the sizes multiply to more than 2^63 - 1 bytes, expected at most that");
  set(BP_F32, {kMost, 0, kMost});  // empty
  expect_accepted(c);
}

TEST(Tensor, RanksOneToEightAreAcceptedByReluResampleAndSlice) {
  for (const std::int32_t kind : {BP_RELU, BP_RELU_GRAD, BP_RESAMPLE, BP_RESAMPLE_GRAD, BP_SLICE, BP_SLICE_GRAD}) {
    for (int rank = 1; rank <= 8; ++rank) {
      Call c = valid(kind);
      const Ints sizes(static_cast<std::size_t>(rank), 2);
      set_x(c, sizes);
      set_y(c, sizes);
      if (c.map) c.map->rank = rank;
      if (c.slice) c.slice = SliceWindow{.offsets = Ints(sizes.size(), 0), .sizes = sizes, .rank = rank};
      expect_accepted(c);
    }
  }
}

struct TypeTable {
  std::int32_t kind;
  std::string checked;  // the tensor whose type is looked at first
  std::vector<std::int32_t> types;
  std::string list;
};

TEST(Tensor, TypesOutsideTheOperatorsListAreUnsupported) {
  const std::vector<std::int32_t> floats{BP_F64, BP_F32, BP_F16, BP_BF16};
  const std::vector<std::int32_t> bytes{BP_F64, BP_F32, BP_F16, BP_BF16, BP_I8, BP_U8};
  const std::vector<std::int32_t> numbers{BP_F64, BP_F32, BP_F16, BP_BF16, BP_I64, BP_I32, BP_I16, BP_I8};
  const std::vector<std::int32_t> all{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<TypeTable> tables{{BP_RELU, "x", numbers, "f64 f32 f16 bf16 i64 i32 i16 i8"},
                                      {BP_RELU_GRAD, "x", numbers, "f64 f32 f16 bf16 i64 i32 i16 i8"},
                                      {BP_MAX_POOL, "x", all, ""},
                                      {BP_MAX_POOL_GRAD, "dx", floats, "f64 f32 f16 bf16"},
                                      {BP_RESAMPLE, "x", bytes, "f64 f32 f16 bf16 i8 u8"},
                                      {BP_RESAMPLE_GRAD, "dx", floats, "f64 f32 f16 bf16"},
                                      {BP_SLICE, "x", all, ""},
                                      {BP_SLICE_GRAD, "dx", all, ""}};
  for (const TypeTable& table : tables) {
    for (const std::int32_t dtype : all) {
      Call c = valid(table.kind);
      set_dtype(c, dtype);
      const bool listed = std::count(table.types.begin(), table.types.end(), dtype) > 0;
      EXPECT_EQ(bp_is_supported(table.kind, BP_DEVICE_CPU, dtype), listed ? 1 : 0);
      if (listed) {
        expect_accepted(c);
      } else {
        expect_unsupported(c, names(table.kind).op + ": " + table.checked + ": data type is " + type_name(dtype) +
                                  ", expected one of " + table.list);
      }
    }
  }
}

struct OneTensor {
  std::int32_t kind;
  std::string tensor;
  std::string reference;  // the tensor it must agree with
};
const std::vector<OneTensor> kAgreeing{{BP_RELU, "y", "x"},           {BP_RELU_GRAD, "dy", "x"},
                                       {BP_RELU_GRAD, "dx", "x"},     {BP_MAX_POOL, "y", "x"},
                                       {BP_MAX_POOL_GRAD, "x", "dx"}, {BP_MAX_POOL_GRAD, "dy", "dx"},
                                       {BP_RESAMPLE, "y", "x"},       {BP_RESAMPLE_GRAD, "dy", "dx"},
                                       {BP_SLICE, "y", "x"},          {BP_SLICE_GRAD, "dy", "dx"}};

TEST(Tensor, TypesMustAgree) {
  for (const OneTensor& row : kAgreeing) {
    Call c = valid(row.kind);
    c.tensor(row.tensor).dtype = BP_F16;
    expect_invalid(
        c, names(row.kind).op + ": " + row.tensor + ": data type is f16, expected f32 (that of " + row.reference + ")");
  }
}

TEST(Tensor, RanksMustAgree) {
  std::vector<OneTensor> rows = kAgreeing;
  rows.push_back({BP_MAX_POOL, "winners", "y"});
  rows.push_back({BP_CONVERT_WINNERS, "to", "from"});
  for (const OneTensor& row : rows) {
    Call c = valid(row.kind);
    c.tensor(row.tensor).sizes->push_back(1);
    expect_invalid(c,
                   names(row.kind).op + ": " + row.tensor + ": rank is 4, expected 3 (that of " + row.reference + ")");
  }
  Call c = max_pool_grad_of_stored_winners();
  c.tensor("winners").sizes->pop_back();
  expect_invalid(c, "max_pool_grad: winners: rank is 2, expected 3 (that of dy)");
}

TEST(Tensor, SizesMustAgree) {
  const std::vector<OneTensor> rows{{BP_RELU, "y", "x"},           {BP_RELU_GRAD, "dy", "x"},
                                    {BP_RELU_GRAD, "dx", "x"},     {BP_MAX_POOL_GRAD, "x", "dx"},
                                    {BP_MAX_POOL, "winners", "y"}, {BP_CONVERT_WINNERS, "to", "from"}};
  for (const OneTensor& row : rows) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      Call c = valid(row.kind);
      std::int64_t& size = c.tensor(row.tensor).sizes->at(axis);
      const std::int64_t expected = size++;
      expect_invalid(c, names(row.kind).op + ": " + row.tensor + ": axis " + std::to_string(axis) + ": size is " +
                            str(size) + ", expected " + str(expected) + " (that of " + row.reference + ")");
    }
  }
  Call c = max_pool_grad_of_stored_winners();
  c.tensor("winners").sizes = ints(1, 2, 2);
  expect_invalid(c, "max_pool_grad: winners: axis 2: size is 2, expected 3 (that of dy)");
}

// ---- Outputs whose elements share memory -----------------------------------------------------------------

TEST(Output, StridesThatLetElementsShareMemoryAreRefused) {
  for (std::int32_t kind = BP_RELU; kind <= BP_CONVERT_WINNERS; ++kind) {
    for (const std::string& name : outputs(kind)) {
      Call c = valid(kind);
      const std::int64_t n = c.tensor(name).sizes->back();  // the sizes are {1, 2, n}
      const auto expect_shared = [&](const Ints& strides, int axis, std::int64_t reach) {
        c.tensor(name).strides = strides;
        expect_invalid(c, names(kind).op + ": " + name + ": axis " + str(axis) + ": stride " +
                              str(strides.at(static_cast<std::size_t>(axis))) +
                              " lets elements of an output share memory, expected a magnitude above " + str(reach));
      };
      expect_shared({0, n, 0}, 2, 0);
      expect_shared({0, 0, 1}, 1, 0);
      expect_shared({0, n - 1, 1}, 1, n - 1);
      expect_shared({0, -(n - 1), 1}, 1, n - 1);
      expect_shared({0, -(n - 1), -1}, 1, n - 1);
      expect_shared({0, 2, 2}, 2, 2);
      expect_shared({0, -2, 2}, 2, 2);
    }
  }
}

TEST(Output, StridesThatKeepElementsApartAreAccepted) {
  for (std::int32_t kind = BP_RELU; kind <= BP_CONVERT_WINNERS; ++kind) {
    for (const std::string& name : outputs(kind)) {
      Call c = valid(kind);
      const std::int64_t n = c.tensor(name).sizes->back();
      for (const Ints& strides : {ints(0, n, 1), ints(0, -n, -1), ints(0, 1, -2), ints(0, 1, 2), ints(0, 100, 7)}) {
        c.tensor(name).strides = strides;
        expect_accepted(c);
      }
    }
  }
}

TEST(Output, StridesOfAxesOfSizeOneDoNotMatter) {
  for (std::int32_t kind = BP_RELU; kind <= BP_CONVERT_WINNERS; ++kind) {
    for (const std::string& name : outputs(kind)) {
      for (const std::int64_t odd : {std::int64_t{1}, std::int64_t{-7}, kMost, kLeast}) {
        Call c = valid(kind);
        c.tensor(name).strides = ints(odd, 10, 1);
        expect_accepted(c);
      }
    }
  }
}

TEST(Output, StridesOfAnEmptyOutputDoNotMatter) {
  for (std::int32_t kind = BP_RELU; kind <= BP_CONVERT_WINNERS; ++kind) {
    for (const std::string& name : outputs(kind)) {
      for (const Ints& strides : {ints(0, 0, 0), ints(1, 1, 1), ints(kLeast, kMost, kLeast)}) {
        Call c = valid(kind);
        for (auto& [other, tensor] : c.tensors) tensor.sizes->front() = 0;
        if (c.x_sizes) c.x_sizes->front() = 0;
        if (c.slice) c.slice->sizes->front() = 0;
        c.tensor(name).strides = strides;
        expect_accepted(c);
      }
    }
  }
}

// ---- ReLU ------------------------------------------------------------------------------------------------

TEST(ReluGrad, NanIsZeroOrPass) {
  Call c = valid(BP_RELU_GRAD);
  c.nan = BP_NAN_PASS;
  expect_accepted(c);
  for (const std::int32_t nan : {-1, 2}) {
    c.nan = nan;
    expect_invalid(c, "relu_grad: nan: is " + str(nan) + ", expected 0 (zero) or 1 (pass)");
  }
}

// ---- Slice -----------------------------------------------------------------------------------------------

TEST(SliceWindow, EveryFieldIsChecked) {
  expect_all_invalid(
      kSlice,
      {{[](Call& c) { c.slice.reset(); }, "window: is null, expected a bp_slice_window"},
       {[](Call& c) { c.slice->rank = 2; }, "window: rank is 2, expected 3 (that of $x)"},
       {[](Call& c) { c.slice->rank = 0; }, "window: rank is 0, expected 3 (that of $x)"},
       {[](Call& c) { c.slice->offsets.reset(); }, "offsets: is null, expected 3 entries"},
       {[](Call& c) { c.slice->sizes.reset(); }, "sizes: is null, expected 3 entries"},
       {[](Call& c) { c.slice->offsets = ints(0, -1, 0); }, "offsets: axis 1: is -1, expected 0 or more"},
       {[](Call& c) { c.slice->offsets = ints(0, 0, kLeast); },
        "offsets: axis 2: is -9223372036854775808, expected 0 or more"},
       {[](Call& c) { c.slice->sizes = ints(1, 2, 0); }, "sizes: axis 2: is 0, expected 1 or more"},
       {[](Call& c) { c.slice->sizes = ints(1, 2, -3); }, "sizes: axis 2: is -3, expected 1 or more"},
       {[](Call& c) { c.slice->offsets = ints(0, 0, 2); },
        "sizes: axis 2: the window [2, 2 + 3) leaves the axis, expected offset + size <= 4"},
       {[](Call& c) { c.slice->sizes = ints(1, 2, kMost); },
        "sizes: axis 2: the window [0, 0 + 9223372036854775807) leaves the axis, expected offset + size <= 4"},
       {[](Call& c) {
          c.slice->offsets = ints(0, 0, 3);
          c.slice->sizes = ints(1, 2, kMost);
        },
        "sizes: axis 2: the window [3, 3 + 9223372036854775807) leaves the axis, expected offset + size <= 4"}});
}

TEST(SliceWindow, OffsetsEndBeforeTheAxisDoes) {
  for (const std::int32_t kind : kSlice) {
    Call c = valid(kind);
    set_y(c, ints(1, 2, 1));
    c.slice->sizes = ints(1, 2, 1);
    c.slice->offsets = ints(0, 0, 3);
    expect_accepted(c);
    for (const std::int64_t size : {std::int64_t{1}, std::int64_t{0}, std::int64_t{-1}, kMost}) {  // no size mends it
      c.slice->sizes = ints(1, 2, size);
      for (const std::int64_t offset : {std::int64_t{4}, std::int64_t{5}, kMost}) {
        c.slice->offsets = ints(0, 0, offset);
        expect_invalid(c, names(kind).op + ": offsets: axis 2: is " + str(offset) +
                              ", expected at most 3 (the axis has 4 elements)");
      }
    }
    c.slice->offsets = ints(1, 0, 0);
    expect_invalid(c, names(kind).op + ": offsets: axis 0: is 1, expected at most 0 (the axis has 1 element)");
  }
}

TEST(SliceWindow, StridesAreNotZeroAndBelowTwoToThe31) {
  for (const std::int32_t kind : kSlice) {
    Call c = valid(kind);
    for (const std::int64_t stride : {std::int64_t{0}, two_to(31), -two_to(31), kMost, kLeast}) {
      c.slice->strides = ints(1, stride, 1);
      expect_invalid(c, names(kind).op + ": strides: axis 1: is " + str(stride) +
                            ", expected a number other than 0 between -2^31 and 2^31");
    }
    set_y(c, ints(1, 1, 3));
    for (const std::int64_t stride : {two_to(31) - 1, 1 - two_to(31)}) {
      c.slice->strides = ints(1, stride, 1);
      expect_accepted(c);
    }
  }
}

TEST(SliceWindow, OutputSizesEndWhereTheWindowDoes) {
  expect_all_invalid(
      kSlice,
      {{[](Call& c) { set_y(c, ints(1, 2, 0)); }, "$y: axis 2: size is 0, expected 1 to 3 (window of 3 walked by 1)"},
       {[](Call& c) { set_y(c, ints(1, 2, 4)); }, "$y: axis 2: size is 4, expected 1 to 3 (window of 3 walked by 1)"},
       {[](Call& c) { c.slice->strides = ints(1, 1, -2); },
        "$y: axis 2: size is 3, expected 1 to 2 (window of 3 walked by -2)"},
       {[](Call& c) { set_y(c, ints(2, 2, 3)); }, "$y: axis 0: size is 2, expected 1 to 1 (window of 1 walked by 1)"}});
  expect_all_accepted(kSlice, {[](Call& c) { set_y(c, ints(1, 2, 1)); },
                               [](Call& c) {
                                 c.slice->strides = ints(1, 1, -2);
                                 set_y(c, ints(1, 2, 2));
                               }});
}

TEST(SliceWindow, AnAxisOfSizeZeroHasAnEmptyWindow) {
  for (const std::int32_t kind : kSlice) {
    Call c = valid(kind);
    set_x(c, ints(1, 0, 4));
    set_y(c, ints(1, 0, 3));
    c.slice->sizes = ints(1, 0, 3);
    expect_accepted(c);
    c.slice->strides = ints(1, -5, 1);
    expect_accepted(c);
    c.slice->offsets = ints(0, 1, 0);
    expect_invalid(c, names(kind).op + ": offsets: axis 1: is 1, expected at most 0 (the axis has 0 elements)");
    c.slice->offsets = ints(0, 0, 0);
    c.slice->sizes = ints(1, 1, 3);
    expect_invalid(
        c, names(kind).op + ": sizes: axis 1: the window [0, 0 + 1) leaves the axis, expected offset + size <= 0");
    c.slice->sizes = ints(1, -1, 3);
    expect_invalid(c, names(kind).op + ": sizes: axis 1: is -1, expected 0 or more");
    c.slice->sizes = ints(1, 0, 3);
    set_y(c, ints(1, 1, 3));
    expect_invalid(
        c, names(kind).op + ": " + names(kind).y + ": axis 1: size is 1, expected 0 to 0 (window of 0 walked by -5)");
  }
}

TEST(SliceWindow, TheLargestAxisIsSlicedWithoutWrapping) {
  for (const std::int32_t kind : kSlice) {
    Call c = valid(kind);
    set_dtype(c, BP_I8);
    set_x(c, ints(1, 1, kMost));
    set_y(c, ints(1, 1, 1));
    c.slice = SliceWindow{.offsets = ints(0, 0, kMost - 1), .sizes = ints(1, 1, 1), .strides = ints(1, 1, -1)};
    expect_accepted(c);
    c.slice->offsets = ints(0, 0, kMost);
    expect_invalid(c, names(kind).op +
                          ": offsets: axis 2: is 9223372036854775807, expected at most 9223372036854775806 (the axis "
                          "has 9223372036854775807 elements)");
    c.slice->offsets = ints(0, 0, kMost - 1);
    c.slice->sizes = ints(1, 1, 2);
    expect_invalid(c, names(kind).op +
                          ": sizes: axis 2: the window [9223372036854775806, 9223372036854775806 + 2) leaves the "
                          "axis, expected offset + size <= 9223372036854775807");
    c.slice->offsets = ints(0, 0, 0);
    c.slice->sizes = ints(1, 1, kMost);
    set_y(c, ints(1, 1, kMost));
    expect_accepted(c);
  }
}

}  // namespace
}  // namespace errors
