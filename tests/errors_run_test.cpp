// SPDX-License-Identifier: Apache-2.0
// What run and the queries refuse: the status, the exact sentence, and that not a byte was written. And the one failure
// that does write: stored winners that are wrong.
#include "errors_call.h"

#include <algorithm>
#include <thread>

namespace errors {
namespace {

template <class Pointer>
Pointer moved(Pointer p, std::ptrdiff_t bytes) {
  return reinterpret_cast<Pointer>(reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(bytes));
}

// ---- Expectations ----------------------------------------------------------------------------------------

void expect_refused(bp_status status, const std::string& sentence) {
  EXPECT_EQ(std::string(bp_last_error()), sentence);
  EXPECT_EQ(status, BP_INVALID_ARGUMENT) << sentence;
}

// Refused, and not a byte of any tensor or the workspace was touched.
template <class Run>
void expect_refused(const Bound& bound, Run&& run, const std::string& sentence) {
  const std::vector<std::byte> before = bound.snapshot();
  const bp_status status = run();
  expect_refused(status, bound.name + ": " + sentence);
  EXPECT_TRUE(bound.snapshot() == before) << "something was written: " << bound.name << ": " << sentence;
}
void expect_run_refused(Bound& bound, const std::string& sentence) {
  expect_refused(
      bound, [&] { return bound.run(); }, sentence);
}
void expect_runs(Bound& bound) { EXPECT_EQ(bound.run(), BP_OK) << bound.name << ": " << bp_last_error(); }

// ---- Handles, queries ------------------------------------------------------------------------------------

const std::string kNullHandle = "operator: the handle is null, expected one from bp_operator_create";

TEST(Query, ANullHandleIsRefusedEverywhere) {
  std::size_t size = 7;
  std::uint64_t bytes = 7;
  std::array<char, 4> text{'?', '?', '?', '?'};
  expect_refused(bp_operator_workspace_size(nullptr, &size), kNullHandle);
  expect_refused(bp_operator_bytes(nullptr, &bytes), kNullHandle);
  expect_refused(bp_operator_refusal(nullptr, 0, nullptr, nullptr), kNullHandle);
  expect_refused(bp_operator_explain(nullptr, text.data(), text.size(), &size), kNullHandle);
  expect_refused(bp_operator_run(nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr), kNullHandle);
  expect_refused(bp_operator_check(nullptr, nullptr, nullptr), kNullHandle);
  EXPECT_EQ(size, 7u);
  EXPECT_EQ(bytes, 7u);
  EXPECT_EQ(text[0], '?');
  EXPECT_STREQ(bp_operator_name(nullptr), "");
  EXPECT_STREQ(bp_operator_implementation(nullptr), "");
  EXPECT_EQ(bp_operator_refusal_count(nullptr), 0u);
  bp_operator_destroy(nullptr);
}

TEST(Query, ANullAddressForTheAnswerIsRefused) {
  for (const std::string_view line : kLines) {
    const Bound bound(line);
    expect_refused(bp_operator_workspace_size(bound.op.get(), nullptr),
                   bound.name + ": workspace: the address for its size is null, expected one");
    expect_refused(bp_operator_bytes(bound.op.get(), nullptr),
                   bound.name + ": bytes: the address for their number is null, expected one");
    expect_refused(bp_operator_explain(bound.op.get(), nullptr, 4, nullptr),
                   bound.name + ": explain: the text is null, expected 4 bytes");
  }
}

TEST(Query, ARefusalBeyondTheLastIsRefused) {
  for (const std::string_view line : kLines) {
    const Bound bound(line);
    const std::size_t count = bp_operator_refusal_count(bound.op.get());
    for (const std::size_t index : {count, count + 1, SIZE_MAX}) {
      const char* implementation = "untouched";
      const char* reason = "untouched";
      expect_refused(bp_operator_refusal(bound.op.get(), index, &implementation, &reason),
                     bound.name + ": refusal: index is " + std::to_string(index) + ", expected below " +
                         std::to_string(count) + " (the count of refusals)");
      EXPECT_STREQ(implementation, "untouched");
      EXPECT_STREQ(reason, "untouched");
    }
  }
}

TEST(Query, ExplainWritesNoMoreThanItsCapacity) {
  const Bound bound("relu --x-shape 1,2,4");
  std::size_t length = 0;
  ASSERT_EQ(bp_operator_explain(bound.op.get(), nullptr, 0, &length), BP_OK);
  std::vector<char> full(length + 1, '?');
  ASSERT_EQ(bp_operator_explain(bound.op.get(), full.data(), full.size(), nullptr), BP_OK);
  EXPECT_EQ(std::strlen(full.data()), length);
  EXPECT_EQ(std::string(full.data()).substr(0, 42), "problem: relu --dtype f32 --x-shape 1,2,4\n");
  for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{2}, length, length + 1, length + 2}) {
    std::vector<char> text(length + 3, '?');
    std::size_t found = 0;
    ASSERT_EQ(bp_operator_explain(bound.op.get(), text.data(), capacity, &found), BP_OK);
    EXPECT_EQ(found, length);
    const std::size_t kept = capacity == 0 ? 0 : std::min(capacity - 1, length);
    std::vector<char> expected(length + 3, '?');
    std::copy_n(full.data(), kept, expected.data());
    if (capacity > 0) expected[kept] = '\0';
    EXPECT_EQ(text, expected) << capacity;
  }
}

TEST(Query, TheExplanationOfTheLargestWindowsIsNotWrapped) {
  const Bound bound(
      "max-pool --x-shape 1,1,1,1,1 --y-shape 1,1,1,1,1 --window 2 --strides 1 --dilations 2147483647 "
      "--start-padding 2147483647 --end-padding 2147483647");
  std::vector<char> text(4096);
  ASSERT_EQ(bp_operator_explain(bound.op.get(), text.data(), text.size(), nullptr), BP_OK);
  EXPECT_EQ(std::string(text.data()).find("at most 0 of them"), std::string::npos) << text.data();
}

TEST(Query, BytesEndAtTheLargestNumber) {
  struct Row {
    std::string_view line;
    std::int32_t dtype;
    std::uint64_t bytes;
  };
  constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t kTensor = kAll / 2;  // the most that one has: 2^63 - 1
  for (const Row& row :
       {Row{"relu --x-shape 9223372036854775807", BP_I8, kAll - 1},
        Row{"relu-grad --x-shape 9223372036854775807 --x-strides 0 --dy-strides 0", BP_I8, kTensor + 2},
        Row{"relu-grad --x-shape 9223372036854775807 --x-strides 0", BP_I8, kAll},  // as it happens, exactly
        Row{"relu-grad --x-shape 9223372036854775807", BP_I8, kAll},
        Row{"relu-grad --x-shape 2,4611686018427387903 --x-strides 0,1 --dy-strides 0,1", BP_I8, kAll - 3},
        Row{"relu-grad --x-shape 2,4611686018427387903 --x-strides 0,1", BP_I8, kAll},
        Row{"relu-grad --x-shape 1152921504606846975", BP_F64, kAll}}) {
    const Bound bound(row.line, row.dtype);
    std::uint64_t bytes = 7;
    ASSERT_EQ(bp_operator_bytes(bound.op.get(), &bytes), BP_OK);
    EXPECT_EQ(bytes, row.bytes) << row.line;
  }
}

TEST(Query, EveryStatusHasAName) {
  const std::array<const char*, 6> names{"ok",      "invalid_argument", "unsupported", "out_of_memory", "backend_error",
                                         "internal"};
  for (std::int32_t status = 0; status < 6; ++status) {
    EXPECT_STREQ(bp_status_name(status), names.at(static_cast<std::size_t>(status)));
  }
  for (const std::int32_t status : {-1, 6, std::numeric_limits<std::int32_t>::min()}) {
    EXPECT_STREQ(bp_status_name(status), "unknown");
  }
}

TEST(Query, WhatThereIsNotIsAnsweredWithoutAnError) {
  for (const std::int32_t kind : {0, 10, -1}) {
    EXPECT_EQ(bp_is_supported(kind, BP_DEVICE_CPU, BP_F32), 0);
    EXPECT_EQ(bp_implementation_name(kind, BP_DEVICE_CPU, 0), nullptr);
  }
  for (const std::int32_t device : {2, -1}) {
    EXPECT_EQ(bp_is_supported(BP_RELU, device, BP_F32), 0);
    EXPECT_EQ(bp_implementation_name(BP_RELU, device, 0), nullptr);
    EXPECT_EQ(bp_device_count(device), 0);
  }
  for (const std::int32_t dtype : {0, 13, -1}) EXPECT_EQ(bp_is_supported(BP_RELU, BP_DEVICE_CPU, dtype), 0);
  EXPECT_EQ(bp_implementation_name(BP_RELU, BP_DEVICE_CPU, SIZE_MAX), nullptr);
}

TEST(LastError, BelongsToItsThreadAndOutlivesCallsThatSucceed) {
  expect_refused(bp_operator_check(nullptr, nullptr, nullptr), kNullHandle);
  std::thread other([] {
    EXPECT_STREQ(bp_last_error(), "");
    std::size_t* const nowhere = nullptr;
    const Bound bound("relu --x-shape 4");
    expect_refused(bp_operator_workspace_size(bound.op.get(), nowhere),
                   "relu: workspace: the address for its size is null, expected one");
  });
  other.join();
  Bound bound("relu --x-shape 4");
  expect_runs(bound);
  EXPECT_EQ(std::string(bp_last_error()), kNullHandle);
}

// ---- Pointers --------------------------------------------------------------------------------------------

TEST(Run, TheUnspoiledCallsRun) {
  for (const std::string_view line : kLines) {
    Bound bound(line);
    const std::vector<std::byte> before = bound.snapshot();
    expect_runs(bound);
    EXPECT_FALSE(bound.snapshot() == before) << line;
    EXPECT_EQ(bp_operator_check(bound.op.get(), bound.workspace, nullptr), BP_OK);
  }
}

// The slots up to the last that is used.
std::size_t least_count(const std::vector<tools::TensorSpec>& slots) {
  std::size_t count = slots.size();
  while (count > 0 && slots[count - 1].absent) --count;
  return count;
}
std::string expected_count(const std::vector<tools::TensorSpec>& slots) {
  const std::size_t least = least_count(slots);
  return (least == slots.size() ? "" : std::to_string(least) + " to ") + std::to_string(slots.size());
}

TEST(Run, EveryUsedSlotIsBoundAndTrailingAbsentOnesMayBeLeftOut) {
  for (const std::string_view line : kLines) {
    Bound bound(line);
    std::vector<const void*> in = bound.inputs;
    std::vector<void*> out = bound.outputs;
    in.push_back(nullptr);
    out.push_back(nullptr);
    for (std::size_t count = 0; count <= in.size(); ++count) {
      const auto run = [&] { return bound.run(in.data(), count, out.data(), bound.outputs.size()); };
      if (count >= least_count(bound.specs.inputs) && count <= bound.specs.inputs.size()) {
        EXPECT_EQ(run(), BP_OK) << line;
      } else {
        expect_refused(bound, run,
                       "inputs: " + std::to_string(count) + " bound, expected " + expected_count(bound.specs.inputs));
      }
    }
    for (std::size_t count = 0; count <= out.size(); ++count) {
      const auto run = [&] { return bound.run(in.data(), bound.inputs.size(), out.data(), count); };
      if (count >= least_count(bound.specs.outputs) && count <= bound.specs.outputs.size()) {
        EXPECT_EQ(run(), BP_OK) << line;
      } else {
        expect_refused(bound, run,
                       "outputs: " + std::to_string(count) + " bound, expected " + expected_count(bound.specs.outputs));
      }
    }
  }
}

TEST(Run, MaxPoolTakesOneOutputAndMaxPoolGradTwoInputsWhereTheLastIsAbsent) {
  Bound pool(kLines[2]);
  EXPECT_EQ(pool.run(pool.inputs.data(), 1, pool.outputs.data(), 1), BP_OK);
  expect_refused(
      pool, [&] { return pool.run(pool.inputs.data(), 1, pool.outputs.data(), 0); },
      "outputs: 0 bound, expected 1 to 2");
  Bound grad(kLines[4]);
  EXPECT_EQ(grad.run(grad.inputs.data(), 2, grad.outputs.data(), 1), BP_OK);
  expect_refused(
      grad, [&] { return grad.run(grad.inputs.data(), 1, grad.outputs.data(), 1); },
      "inputs: 1 bound, expected 2 to 3");
}

TEST(Run, ANullArrayIsRefused) {
  for (const std::string_view line : kLines) {
    Bound b(line);
    const std::size_t in = b.inputs.size();
    const std::size_t out = b.outputs.size();
    expect_refused(
        b, [&] { return b.run(nullptr, in, b.outputs.data(), out); },
        "inputs: the array is null, expected " + counted(in, "pointer"));
    expect_refused(
        b, [&] { return b.run(b.inputs.data(), in, nullptr, out); },
        "outputs: the array is null, expected " + counted(out, "pointer"));
  }
}

// Calls f(slot's spec, its pointer) for every slot.
template <class F>
void each_slot(Bound& bound, F&& f) {
  for (std::size_t i = 0; i < bound.inputs.size(); ++i) f(bound.specs.inputs[i], bound.inputs[i]);
  for (std::size_t i = 0; i < bound.outputs.size(); ++i) f(bound.specs.outputs[i], bound.outputs[i]);
}

TEST(Run, ANullPointerForAUsedTensorIsRefused) {
  for (const std::string_view line : kLines) {
    Bound bound(line);
    each_slot(bound, [&](const tools::TensorSpec& spec, auto& pointer) {
      if (spec.absent) return;
      const auto kept = std::exchange(pointer, nullptr);
      expect_run_refused(bound, std::string(spec.name) + ": the pointer is null, expected " +
                                    std::to_string(tools::element_count(spec.sizes)) + " elements");
      pointer = kept;
    });
    expect_runs(bound);
  }
  Bound scalar("relu --x-shape 1,1");
  scalar.inputs[0] = nullptr;
  expect_run_refused(scalar, "x: the pointer is null, expected 1 element");
}

TEST(Run, APointerForAnAbsentTensorIsRefused) {
  int absent_slots = 0;
  for (const std::string_view line : kLines) {
    Bound bound(line);
    each_slot(bound, [&](const tools::TensorSpec& spec, auto& pointer) {
      if (!spec.absent) return;
      ++absent_slots;
      pointer = bound.outputs[0];
      expect_run_refused(bound,
                         std::string(spec.name) + ": a pointer is bound, expected null (the desc has no such tensor)");
      pointer = nullptr;
    });
  }
  EXPECT_EQ(absent_slots, 3);  // max_pool's winners; max_pool_grad's winners, and its x
}

TEST(Run, AMisalignedPointerIsRefused) {
  for (const std::string_view line : kLines) {
    for (const std::int32_t dtype : {BP_F64, BP_F32, BP_F16}) {
      const bool converts = line.find("convert") == 0;
      Bound bound(line, converts ? std::nullopt : std::optional(dtype));
      each_slot(bound, [&](const tools::TensorSpec& spec, auto& pointer) {
        if (spec.absent) return;
        const std::size_t element = tools::dtype_size(spec.dtype);
        const auto kept = pointer;
        for (std::size_t excess = 1; excess < element; ++excess) {
          pointer = moved(kept, static_cast<std::ptrdiff_t>(excess));
          expect_run_refused(bound, std::string(spec.name) + ": the address is " + counted(excess, "byte") +
                                        " past a multiple of " + std::to_string(element) +
                                        ", expected alignment to the element");
        }
        pointer = kept;
      });
      expect_runs(bound);
    }
  }
}

TEST(Run, AnEmptyTensorNeedsNoPointer) {
  for (const std::string_view line :
       {"relu --x-shape 0,4", "relu-grad --x-shape 4,0", "max-pool --x-shape 0,2,4 --window 2",
        "max-pool-grad --x-shape 0,2,4 --window 2", "resample --x-shape 0 --y-shape 0", "slice --x-shape 0,4",
        "slice-grad --x-shape 0,4"}) {
    Bound bound(line);
    std::fill(bound.inputs.begin(), bound.inputs.end(), nullptr);
    std::fill(bound.outputs.begin(), bound.outputs.end(), nullptr);
    bound.workspace = nullptr;
    expect_runs(bound);
  }
  Bound bound("resample-grad --x-shape 2 --y-shape 0");
  bound.inputs[0] = nullptr;
  expect_runs(bound);
  EXPECT_EQ(support::bits(bound.output<float>(0, 2)), support::bits(std::vector<float>{0, 0}));
}

// ---- Workspace -------------------------------------------------------------------------------------------

// An operator that needs one, whatever faster implementations do: 16 bytes, a sum for each element of a plane.
const std::vector<std::string_view> kNeedWorkspace{kLines[4], kLines[5]};
Bound bound_with_workspace(std::string_view line) { return Bound(line, BP_F32, 256, "reference"); }

TEST(Workspace, AMissingOrMisalignedOneIsRefused) {
  for (const std::string_view line : kNeedWorkspace) {
    Bound bound = bound_with_workspace(line);
    void* const workspace = bound.workspace;
    bound.workspace = nullptr;
    expect_run_refused(bound, "workspace: the pointer is null, expected 16 bytes");
    for (const std::size_t excess : {1, 8, 15}) {
      bound.workspace = moved(workspace, static_cast<std::ptrdiff_t>(excess));
      expect_run_refused(bound, "workspace: the address is " + counted(excess, "byte") +
                                    " past a multiple of 16, expected malloc's alignment");
    }
  }
}

TEST(Workspace, MustNotShareMemoryWithATensor) {
  for (const std::string_view line : kNeedWorkspace) {
    Bound bound = bound_with_workspace(line);
    each_slot(bound, [&](const tools::TensorSpec& spec, auto& pointer) {
      if (spec.absent) return;
      bound.workspace = const_cast<void*>(static_cast<const void*>(pointer));
      expect_run_refused(bound, "workspace: shares memory with " + std::string(spec.name) + ", expected none");
    });
    bound.workspace = moved(bound.outputs[0], 16);  // dx has 32 bytes
    expect_run_refused(bound, "workspace: shares memory with dx, expected none");
    bound.workspace = moved(bound.outputs[0], 32);
    expect_runs(bound);
    bound.workspace = moved(bound.outputs[0], -16);  // the workspace has 16
    expect_runs(bound);
  }
}

TEST(Workspace, IsNotLookedAtWhereItsSizeIsZero) {
  for (const std::string_view line : kLines) {
    Bound bound(line);
    if (bound.workspace_bytes != 0) continue;
    bound.workspace = moved(bound.outputs[0], 1);
    expect_runs(bound);
  }
}

// ---- Tensors that share memory ---------------------------------------------------------------------------

TEST(Sharing, AnOutputThatOverlapsAnInputInPartIsRefused) {
  for (const std::string_view line : kLines) {
    Bound bound(line);
    const bool in_place = bound.name == "relu" || bound.name == "relu_grad";
    const std::string expected = in_place ? "none, or the identical view" : "none";
    for (std::size_t o = 0; o < bound.outputs.size(); ++o) {
      for (std::size_t i = 0; i < bound.inputs.size(); ++i) {
        if (bound.specs.outputs[o].absent || bound.specs.inputs[i].absent) continue;
        void* const kept = bound.outputs[o];
        // An input of single bytes is short: the output begins before it, not in it.
        const bool bytes = tools::dtype_size(bound.specs.inputs[i].dtype) == 1;
        bound.outputs[o] = moved(const_cast<void*>(bound.inputs[i]), bytes ? -8 : 8);
        expect_run_refused(bound, std::string(bound.specs.outputs[o].name) + ": shares memory with " +
                                      std::string(bound.specs.inputs[i].name) + ", expected " + expected);
        bound.outputs[o] = kept;
      }
    }
    expect_runs(bound);
  }
}

TEST(Sharing, TheIdenticalViewIsAllowedForReluAndReluGradAlone) {
  for (const std::string_view line :
       {kLines[0], kLines[1], std::string_view("max-pool --x-shape 1,2,4 --window 1"),
        std::string_view("max-pool-grad --x-shape 1,2,4 --window 1"),
        std::string_view("resample --x-shape 1,2,4 --y-shape 1,2,4"),
        std::string_view("resample-grad --x-shape 1,2,4 --y-shape 1,2,4"), std::string_view("slice --x-shape 1,2,4"),
        std::string_view("slice-grad --x-shape 1,2,4"),
        std::string_view("convert-winners --x-shape 1,2,4 --window 1 --winners-kind compact --winners compact")}) {
    Bound bound(line);
    for (std::size_t i = 0; i < bound.inputs.size(); ++i) {
      if (bound.specs.inputs[i].absent) continue;
      bound.outputs[0] = const_cast<void*>(bound.inputs[i]);
      if (bound.name == "relu" || bound.name == "relu_grad") {
        expect_runs(bound);
      } else {
        expect_run_refused(bound, std::string(bound.specs.outputs[0].name) + ": shares memory with " +
                                      std::string(bound.specs.inputs[i].name) + ", expected none");
      }
    }
  }
}

TEST(Sharing, TheSameAddressWithOtherStridesIsNotTheIdenticalView) {
  Bound bound("relu --x-shape 2,2 --x-strides 2,1 --y-strides 1,2");
  bound.outputs[0] = const_cast<void*>(bound.inputs[0]);
  expect_run_refused(bound, "y: shares memory with x, expected none, or the identical view");
}

TEST(Sharing, StridesOfAxesOfSizeOneDoNotMakeAViewAnother) {
  Bound bound("relu --x-shape 1,4 --x-strides 99,1 --y-strides -5,1");
  bound.outputs[0] = const_cast<void*>(bound.inputs[0]);
  expect_runs(bound);
}

TEST(Sharing, ReluGradInPlaceComputesTheSame) {
  for (const std::size_t input : {std::size_t{0}, std::size_t{1}}) {
    Bound bound("relu-grad --x-shape 4");
    bound.fill_input<float>(0, {1, -1, 2, 0});
    bound.fill_input<float>(1, {5, 6, 7, 8});
    bound.outputs[0] = const_cast<void*>(bound.inputs[input]);
    expect_runs(bound);
    EXPECT_EQ(bound.output<float>(0, 4), (std::vector<float>{5, 0, 7, 0}));
  }
}

TEST(Sharing, TwoOutputsThatOverlapAreRefused) {
  Bound bound(kLines[3]);
  for (const int bytes : {0, 5, 23}) {  // y has 24
    bound.outputs[1] = moved(bound.outputs[0], bytes);
    expect_run_refused(bound, "winners: shares memory with y, expected none");
  }
  bound.outputs[1] = moved(bound.outputs[0], 24);
  expect_runs(bound);
}

TEST(Sharing, InterleavedChannelSlicesPass) {
  struct Row {
    std::string_view line;
    std::ptrdiff_t apart;  // bytes from the input's first element to the output's: the next channel
  };
  for (const Row& row : {Row{"relu --x-shape 2,3,4 --x-strides 24,8,1 --y-strides 24,8,1", 16},
                         Row{"relu --x-shape 2,3,4 --x-strides 24,2,6 --y-strides 24,2,6", 4},
                         Row{"max-pool --x-shape 2,3,4 --window 1 --x-strides 24,8,1 --y-strides 24,8,1", 16},
                         Row{"max-pool-grad --x-shape 2,3,4 --window 2 --x-strides 24,2,6 --dx-strides 24,2,6", 4},
                         Row{"resample --x-shape 2,3,4 --y-shape 2,3,2 --x-strides 24,8,1 --y-strides 24,8,1", 16},
                         Row{"slice-grad --x-shape 2,3,4 --dy-strides 24,2,6 --dx-strides 24,2,6", 4}}) {
    Bound bound(row.line);
    bound.outputs[0] = moved(const_cast<void*>(bound.inputs[0]), row.apart);
    expect_runs(bound);
    const bool in_place = bound.name == "relu";
    // The channel after that is the input's.
    bound.outputs[0] = moved(const_cast<void*>(bound.inputs[0]), 2 * row.apart);
    expect_run_refused(bound, std::string(bound.specs.outputs[0].name) + ": shares memory with " +
                                  std::string(bound.specs.inputs[0].name) + ", expected " +
                                  (in_place ? "none, or the identical view" : "none"));
  }
}

TEST(Sharing, ElementsOfDifferentSizesMayInterleaveByteByByte) {
  // y takes bytes 0 to 3 of every 8, a winner one byte.
  Bound bound("max-pool --x-shape 1,1,8 --window 2 --y-strides 0,0,2 --winners compact --winners-strides 0,0,8");
  void* const y = bound.outputs[0];
  for (const int byte : {4, 5, 6, 7, -1, -4}) {
    bound.outputs[1] = moved(y, byte);
    expect_runs(bound);
  }
  for (const int byte : {0, 3, 8, 11, -5, -8}) {
    bound.outputs[1] = moved(y, byte);
    expect_run_refused(bound, "winners: shares memory with y, expected none");
  }
}

TEST(Sharing, WhatTheBoundedSearchCannotDecideIsRefused) {
  // Whether one byte is among the sums of eight multiples is a knapsack; this one has no solution, but the search for
  // it is longer than the bound.
  Bound bound(
      "slice --x-shape 6,6,6,6,6,6,6,6 --sizes 1,1,1,1,1,1,1,1 --x-strides "
      "100003,94117,88211,82393,76423,70507,64591,58679",
      BP_I8, 4 << 20);
  bound.outputs[0] = moved(const_cast<void*>(bound.inputs[0]), 1587311);
  expect_run_refused(
      bound, "y: could not be shown to be apart from x, whose bytes lie in the same range, expected views that can");
}

// ---- Stored winners that are wrong -----------------------------------------------------------------------

// Planes of four elements; window 0 reads the padding and elements 0 and 1, window 1 the elements 1, 2 and 3.
const std::string kPlanes = " --x-shape 2,2,4 --window 3 --strides 2 --start-padding 1";

struct WrongWinner {
  std::string_view what;
  std::string_view kind;
  std::int32_t dtype;
  std::int64_t stored;  // for window 0 of batch 1, channel 0
  std::string found;    // in the sentence
};

const std::vector<WrongWinner> kWrong{
    {"beyond the window", "compact", BP_U8, 3, "3"},
    {"far beyond the window", "compact", BP_U8, 254, "254"},
    {"in the padding", "compact", BP_U8, 0, "0"},
    {"no tap of its window", "flat", BP_I64, 10, "10"},
    {"another plane, before", "flat", BP_I64, 4, "4"},
    {"another plane, after", "flat", BP_I64, 12, "12"},
    {"beyond x", "flat", BP_I64, 16, "16"},
    {"the largest i64", "flat", BP_I64, kMost, "9223372036854775807"},
    {"negative", "flat", BP_I64, -2, "-2"},
    {"the least i64", "flat", BP_I64, kLeast, "-9223372036854775808"},
    {"no tap of its window", "flat", BP_I32, 10, "10"},
    {"negative", "flat", BP_I32, -2, "-2"},
    {"the least i32", "flat", BP_I32, std::numeric_limits<std::int32_t>::min(), "-2147483648"},
    {"the largest i32", "flat", BP_I32, std::numeric_limits<std::int32_t>::max(), "2147483647"},
    {"beyond x", "flat", BP_U32, 16, "16"},
    {"one below none", "flat", BP_U32, 0xfffffffe, "4294967294"},
    {"beyond x", "flat", BP_U64, 16, "16"},
    {"one below none", "flat", BP_U64, -2, "18446744073709551614"},
    {"the least u64 that is no i64", "flat", BP_U64, kLeast, "9223372036854775808"},
};

std::string winners_options(const WrongWinner& wrong) {
  std::string text = std::string(wrong.kind);
  if (wrong.kind != "compact") text += " --winners-dtype " + std::string(tools::dtype_name(wrong.dtype));
  return text;
}

// Stores a winner of any type.
void store(void* winners, std::int32_t dtype, std::size_t index, std::int64_t value) {
  const std::size_t size = tools::dtype_size(dtype);
  std::memcpy(static_cast<std::byte*>(winners) + index * size, &value, size);  // little-endian
}

// The winner of every window is element 1 of its plane, seen from window 0 as tap 2 and from window 1 as tap 0.
void store_valid(void* winners, const WrongWinner& wrong) {
  for (std::size_t window = 0; window < 8; ++window) {
    const auto plane = static_cast<std::int64_t>(window / 2);
    const std::int64_t tap = window % 2 == 0 ? 2 : 0;
    store(winners, wrong.dtype, window, wrong.kind == "compact" ? tap : (wrong.kind == "flat" ? 4 * plane + 1 : 1));
  }
}

std::string wrong_sentence(const std::string& op, const std::string& tensor, int count, const std::string& found) {
  const std::string start = op + ": " + tensor + ": ";
  const std::string place = "at [1, 0, 0] is " + found;
  if (count == 1) return start + place + ", which is no tap of its window, expected a tap or none";
  return start + std::to_string(count) + " are no tap of their window, the first " + place + ", expected a tap or none";
}

TEST(WrongWinners, MaxPoolGradReportsThemAndWritesEverythingElse) {
  for (const WrongWinner& wrong : kWrong) {
    SCOPED_TRACE(std::string(wrong.what) + ", " + std::string(tools::dtype_name(wrong.dtype)));
    Bound bound("max-pool-grad" + kPlanes + " --winners " + winners_options(wrong));
    bound.fill_input<float>(1, {1, 2, 3, 4, 5, 6, 7, 8});
    void* const winners = const_cast<void*>(bound.inputs[2]);
    store_valid(winners, wrong);
    expect_runs(bound);
    EXPECT_EQ(bound.output<float>(0, 16), (std::vector<float>{0, 3, 0, 0, 0, 7, 0, 0, 0, 11, 0, 0, 0, 15, 0, 0}));

    std::memset(bound.outputs[0], 0xc3, 64);
    store(winners, wrong.dtype, 4, wrong.stored);
    expect_refused(bound.run(), wrong_sentence("max_pool_grad", "winners", 1, wrong.found));
    EXPECT_EQ(bound.output<float>(0, 16), (std::vector<float>{0, 3, 0, 0, 0, 7, 0, 0, 0, 6, 0, 0, 0, 15, 0, 0}));

    if (wrong.kind == "flat" && wrong.stored == 12) continue;  // right for the next window
    store(winners, wrong.dtype, 6, wrong.stored);              // a second one: counted, and the first is named
    expect_refused(bound.run(), wrong_sentence("max_pool_grad", "winners", 2, wrong.found));
    EXPECT_EQ(bound.output<float>(0, 16), (std::vector<float>{0, 3, 0, 0, 0, 7, 0, 0, 0, 6, 0, 0, 0, 8, 0, 0}));
  }
}

TEST(WrongWinners, ConvertWinnersReportsThemAndWritesNone) {
  std::vector<WrongWinner> rows = kWrong;
  rows.push_back({"no tap of its window", "plane", BP_I64, 2, "2"});
  rows.push_back({"beyond the plane", "plane", BP_I64, 4, "4"});
  rows.push_back({"negative", "plane", BP_I32, -2, "-2"});
  rows.push_back({"one below none", "plane", BP_U32, 0xfffffffe, "4294967294"});
  for (const WrongWinner& wrong : rows) {
    SCOPED_TRACE(std::string(wrong.what) + ", " + std::string(tools::dtype_name(wrong.dtype)));
    Bound bound("convert-winners" + kPlanes + " --winners plane --winners-kind " + std::string(wrong.kind),
                wrong.dtype);
    void* const from = const_cast<void*>(bound.inputs[0]);
    store_valid(from, wrong);
    store(from, wrong.dtype, 4, wrong.stored);
    expect_refused(bound.run(), wrong_sentence("convert_winners", "from", 1, wrong.found));
    EXPECT_EQ(bound.output<std::int64_t>(0, 8), (std::vector<std::int64_t>{1, 1, 1, 1, -1, 1, 1, 1}));

    if (wrong.kind == "flat" && wrong.stored == 12) continue;  // right for the next window
    store(from, wrong.dtype, 6, wrong.stored);
    expect_refused(bound.run(), wrong_sentence("convert_winners", "from", 2, wrong.found));
    EXPECT_EQ(bound.output<std::int64_t>(0, 8), (std::vector<std::int64_t>{1, 1, 1, 1, -1, 1, -1, 1}));
  }
}

TEST(WrongWinners, OneIsNamedByItsPlaceAndOfSeveralTheFirst) {
  Bound grad("max-pool-grad --x-shape 1,1,1,4,1 --window 1,2,1 --winners compact");
  grad.fill_input<float>(1, {1, 2});
  grad.fill_input<std::uint8_t>(2, {0, 2});
  expect_refused(grad.run(),
                 "max_pool_grad: winners: at [0, 0, 0, 1, 0] is 2, which is no tap of its window, expected a tap or "
                 "none");
  grad.fill_input<std::uint8_t>(2, {254, 2});
  expect_refused(grad.run(),
                 "max_pool_grad: winners: 2 are no tap of their window, the first at [0, 0, 0, 0, 0] is 254, expected "
                 "a tap or none");
  EXPECT_EQ(support::bits(grad.output<float>(0, 4)), support::bits(std::vector<float>(4, 0.0f)));

  Bound convert("convert-winners --x-shape 1,1,4 --window 2 --winners compact --winners-kind plane");
  convert.fill_input<std::int64_t>(0, {2, 2});
  expect_refused(convert.run(),
                 "convert_winners: from: at [0, 0, 0] is 2, which is no tap of its window, expected a tap or none");
  EXPECT_EQ(convert.output<std::uint8_t>(0, 2), (std::vector<std::uint8_t>{255, 0}));
  convert.fill_input<std::int64_t>(0, {2, 1});
  expect_refused(convert.run(),
                 "convert_winners: from: 2 are no tap of their window, the first at [0, 0, 0] is 2, expected a tap or "
                 "none");
  EXPECT_EQ(convert.output<std::uint8_t>(0, 2), (std::vector<std::uint8_t>{255, 255}));
}

// All but -1, which says that there is none.
template <class Index>
void expect_printed_signed(const std::string& dtype) {
  constexpr Index kLeastIndex = std::numeric_limits<Index>::min();
  Bound bound("max-pool-grad --x-shape 1,1,4 --window 2 --winners flat --winners-dtype " + dtype);
  bound.fill_input<float>(1, {1, 2});
  bound.fill_input<Index>(2, {-1, -2});
  expect_refused(bound.run(),
                 "max_pool_grad: winners: at [0, 0, 1] is -2, which is no tap of its window, expected a tap or none");
  bound.fill_input<Index>(2, {kLeastIndex, -2});
  expect_refused(bound.run(), "max_pool_grad: winners: 2 are no tap of their window, the first at [0, 0, 0] is " +
                                  std::to_string(kLeastIndex) + ", expected a tap or none");
  EXPECT_EQ(support::bits(bound.output<float>(0, 4)), support::bits(std::vector<float>(4, 0.0f)));
}

TEST(WrongWinners, NegativeIndicesArePrintedAsTheyAreStored) {
  expect_printed_signed<std::int32_t>("i32");
  expect_printed_signed<std::int64_t>("i64");
}

TEST(WrongWinners, AnElementBetweenTheTapsIsWrong) {
  Bound bound(
      "max-pool-grad --x-shape 1,1,1,5 --window 1,2 --strides 1 --dilations 1,2 --y-shape 1,1,1,3 --winners flat");
  bound.fill_input<float>(1, {1, 2, 4});
  bound.fill_input<std::int64_t>(2, {2, 2, 2});  // windows {0, 2}, {1, 3}, {2, 4}
  expect_refused(bound.run(),
                 "max_pool_grad: winners: at [0, 0, 0, 1] is 2, which is no tap of its window, expected a tap or none");
  EXPECT_EQ(bound.output<float>(0, 5), (std::vector<float>{0, 0, 5, 0, 0}));
}

TEST(WrongWinners, NoWinnerIsNoError) {
  for (const WrongWinner& form : kWrong) {
    Bound grad("max-pool-grad" + kPlanes + " --winners " + winners_options(form));
    grad.fill_input<float>(1, {1, 2, 3, 4, 5, 6, 7, 8});
    for (std::size_t window = 0; window < 8; ++window) store(const_cast<void*>(grad.inputs[2]), form.dtype, window, -1);
    expect_runs(grad);
    EXPECT_EQ(support::bits(grad.output<float>(0, 16)), support::bits(std::vector<float>(16, 0.0f)));

    Bound convert("convert-winners" + kPlanes + " --winners flat --winners-kind " + std::string(form.kind), form.dtype);
    for (std::size_t window = 0; window < 8; ++window)
      store(const_cast<void*>(convert.inputs[0]), form.dtype, window, -1);
    expect_runs(convert);
    EXPECT_EQ(convert.output<std::int64_t>(0, 8), (std::vector<std::int64_t>(8, -1)));
  }
}

}  // namespace
}  // namespace errors
