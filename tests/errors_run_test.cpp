// SPDX-License-Identifier: Apache-2.0
// What run and the queries refuse: the status, the exact sentence, and that not a byte was written.
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

// Refused, and not a byte of any tensor or the workspace was touched.
template <class Run>
void expect_run_refused(const Bound& bound, Run&& run, const std::string& sentence) {
  const std::vector<std::byte> before = bound.snapshot();
  const bp_status status = run();
  expect_refused(status, bound.name + ": " + sentence);
  EXPECT_TRUE(bound.snapshot() == before) << "something was written: " << bound.name << ": " << sentence;
}
void expect_run_refused(Bound& bound, const std::string& sentence) {
  expect_run_refused(
      bound, [&] { return bound.run(); }, sentence);
}

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
  EXPECT_NE(std::string(text.data()).find("an element of x lies in at most 8 of them"), std::string::npos)
      << text.data();
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
        expect_run_refused(
            bound, run, "inputs: " + std::to_string(count) + " bound, expected " + expected_count(bound.specs.inputs));
      }
    }
    for (std::size_t count = 0; count <= out.size(); ++count) {
      const auto run = [&] { return bound.run(in.data(), bound.inputs.size(), out.data(), count); };
      if (count >= least_count(bound.specs.outputs) && count <= bound.specs.outputs.size()) {
        EXPECT_EQ(run(), BP_OK) << line;
      } else {
        expect_run_refused(
            bound, run,
            "outputs: " + std::to_string(count) + " bound, expected " + expected_count(bound.specs.outputs));
      }
    }
  }
}

TEST(Run, MaxPoolTakesOneOutputAndMaxPoolGradTwoInputsWhereTheLastIsAbsent) {
  Bound pool(kLines[2]);
  EXPECT_EQ(pool.run(pool.inputs.data(), 1, pool.outputs.data(), 1), BP_OK);
  expect_run_refused(
      pool, [&] { return pool.run(pool.inputs.data(), 1, pool.outputs.data(), 0); },
      "outputs: 0 bound, expected 1 to 2");
  Bound grad(kLines[4]);
  EXPECT_EQ(grad.run(grad.inputs.data(), 2, grad.outputs.data(), 1), BP_OK);
  expect_run_refused(
      grad, [&] { return grad.run(grad.inputs.data(), 1, grad.outputs.data(), 1); },
      "inputs: 1 bound, expected 2 to 3");
}

TEST(Run, ANullArrayIsRefused) {
  for (const std::string_view line : kLines) {
    Bound b(line);
    const std::size_t in = b.inputs.size();
    const std::size_t out = b.outputs.size();
    expect_run_refused(
        b, [&] { return b.run(nullptr, in, b.outputs.data(), out); },
        "inputs: the array is null, expected " + counted(in, "pointer"));
    expect_run_refused(
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
  int without = 0;
  for (const std::string_view line : kLines) {
    Bound bound(line);
    if (bound.workspace_bytes != 0) continue;
    ++without;
    bound.workspace = moved(bound.outputs[0], 1);
    expect_runs(bound);
  }
  EXPECT_GT(without, 0);
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

}  // namespace
}  // namespace errors
