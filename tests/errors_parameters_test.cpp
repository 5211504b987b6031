// SPDX-License-Identifier: Apache-2.0
// What create refuses of the parameters of pooling and resample, with the exact sentence, and the largest it must still
// accept.
#include "errors_call.h"

#include <sys/resource.h>

#include <cstdlib>
#include <utility>

namespace errors {
namespace {

// ---- Pooling windows -------------------------------------------------------------------------------------

TEST(Pooling, TheWindowIsChecked) {
  expect_all_invalid(
      kPooling,
      {{[](Call& c) { c.window.reset(); }, "window: is null, expected a bp_window"},
       {[](Call& c) { c.window->spatial_rank = 0; }, "window: spatial_rank is 0, expected 1 (rank 3 of $rank less 2)"},
       {[](Call& c) { c.window->spatial_rank = 2; }, "window: spatial_rank is 2, expected 1 (rank 3 of $rank less 2)"},
       {[](Call& c) { c.window->spatial_rank = -1; },
        "window: spatial_rank is -1, expected 1 (rank 3 of $rank less 2)"},
       {[](Call& c) { c.window->size.reset(); }, "window: size is null, expected 1 entry"},
       {[](Call& c) { c.window->size = ints(5); },
        "window: spatial axis 0: spans 5 (5 taps, dilation 1), expected at most 4 (size 4 and padding 0 + 0)"},
       {[](Call& c) {
          c.window->start_padding = ints(1);
          c.window->end_padding = ints(2);
          c.window->dilations = ints(7);
        },
        "window: spatial axis 0: spans 8 (2 taps, dilation 7), expected at most 7 (size 4 and padding 1 + 2)"}});
}

TEST(Pooling, RanksOtherThanThreeToFiveAreRefused) {
  for (const std::int32_t kind : kPooling) {
    for (const Ints& sizes : {ints(2), ints(1, 2), ints(1, 2, 2, 2, 2, 2), ints(1, 1, 1, 1, 1, 1, 1, 1)}) {
      Call c = valid(kind);
      set_x(c, sizes);
      set_y(c, sizes);
      c.window->spatial_rank = static_cast<std::int32_t>(sizes.size()) - 2;
      expect_invalid(c, names(kind).op + ": " + names(kind).rank + ": rank is " + std::to_string(sizes.size()) +
                            ", expected 3 to 5 (N, C and 1 to 3 spatial axes)");
    }
  }
}

TEST(Pooling, EveryParameterHasARange) {
  struct Parameter {
    std::string name;
    std::optional<Ints> Window::*values;
    std::int64_t least;
  };
  const std::vector<Parameter> parameters{{"window", &Window::size, 1},
                                          {"strides", &Window::strides, 1},
                                          {"start_padding", &Window::start_padding, 0},
                                          {"end_padding", &Window::end_padding, 0},
                                          {"dilations", &Window::dilations, 1}};
  for (const std::int32_t kind : kPooling) {
    for (const Parameter& p : parameters) {
      for (const std::int64_t value : {p.least - 1, std::int64_t{-5}, kLeast, two_to(31), kMost}) {
        Call c = valid(kind);
        (*c.window).*p.values = ints(value);
        expect_invalid(c, names(kind).op + ": " + p.name + ": spatial axis 0: is " + str(value) + ", expected " +
                              str(p.least) + " to 2^31 - 1");
      }
    }
    Call c = valid(kind);  // the axis is the one that is wrong
    set_x(c, ints(1, 2, 4, 4, 4));
    set_y(c, ints(1, 2, 3, 3, 3));
    c.window = Window{.size = ints(2, 2, 2), .strides = ints(1, 1, 1), .spatial_rank = 3};
    expect_accepted(c);
    c.window->strides = ints(1, 1, 0);
    expect_invalid(c, names(kind).op + ": strides: spatial axis 2: is 0, expected 1 to 2^31 - 1");
  }
}

TEST(Pooling, TheCountOfTapsIsLimited) {
  // 2 * (2^31 - 1) taps are 2^32 - 2: the most there may be.
  const auto set = [](Call& c, const Ints& window) {
    Ints x(window.size() + 2, 1);
    set_x(c, x);
    set_y(c, x);
    c.window = Window{.size = window,
                      .start_padding = Ints(window.size(), two_to(31) - 1),
                      .spatial_rank = static_cast<std::int32_t>(window.size())};
    if (c.kind == BP_MAX_POOL) c.tensor("winners").dtype = BP_U32;
    if (c.kind == BP_CONVERT_WINNERS) c.tensor("from").dtype = BP_U32;
  };
  const std::int64_t most = two_to(31) - 1;
  for (const std::int32_t kind : kPooling) {
    for (const Ints& window : {ints(2, most), ints(most, 1, 2), ints(most)}) {
      Call c = valid(kind);
      set(c, window);
      expect_accepted(c);
    }
    const std::vector<std::pair<Ints, std::string>> too_many{{{65535, 65537}, "4294967295"},
                                                             {{3, most}, "6442450941"},
                                                             {{most, 2, most}, "9223372028264841218"},
                                                             {{most, most, 3}, "more than 2^63 - 1"},
                                                             {{most, most, most}, "more than 2^63 - 1"}};
    for (const auto& [window, taps] : too_many) {
      Call c = valid(kind);
      set(c, window);
      expect_invalid(c, names(kind).op + ": window: has " + taps + " taps, expected at most 2^32 - 2");
    }
  }
}

TEST(Pooling, OutputSizesEndAtTheCeilSize) {
  expect_all_invalid(kPooling,
                     {{[](Call& c) { set_y(c, ints(1, 2, 0)); },
                       "$y: axis 2: size is 0, expected 1 to 3 (with whole windows only: 3)"},
                      {[](Call& c) { set_y(c, ints(1, 2, 4)); },
                       "$y: axis 2: size is 4, expected 1 to 3 (with whole windows only: 3)"},
                      {[](Call& c) {
                         c.window->size = ints(3);
                         c.window->strides = ints(2);
                       },
                       "$y: axis 2: size is 3, expected 1 to 2 (with whole windows only: 1)"},
                      {[](Call& c) { set_y(c, ints(1, 2, kMost / 16)); },
                       "$y: axis 2: size is 576460752303423487, expected 1 to 3 (with whole windows only: 3)"},
                      {[](Call& c) { set_y(c, ints(2, 2, 3)); }, "$y: axis 0: size is 2, expected 1 (that of $x)"},
                      {[](Call& c) { set_y(c, ints(1, 1, 3)); }, "$y: axis 1: size is 1, expected 2 (that of $x)"}});
  expect_all_accepted(kPooling, {[](Call& c) { set_y(c, ints(1, 2, 1)); },
                                 [](Call& c) {
                                   c.window->size = ints(3);
                                   c.window->strides = ints(2);
                                   set_y(c, ints(1, 2, 2));
                                 }});
}

// An empty batch, or an axis of size 0, so that the tensors themselves are fine.
TEST(Pooling, HugePlanesAreUnsupported) {
  expect_all_refused(kPooling, BP_UNSUPPORTED,
                     {{[](Call& c) {
                         set_x(c, ints(0, 1, two_to(60)));
                         set_y(c, ints(0, 1, 1));
                       },
                       "$x: the spatial sizes multiply to 2^60 or more, expected less"},
                      {[](Call& c) {
                         set_x(c, ints(0, 1, kMost));
                         set_y(c, ints(0, 1, 1));
                       },
                       "$x: the spatial sizes multiply to 2^60 or more, expected less"},
                      {[](Call& c) {
                         set_x(c, ints(0, 1, two_to(30), two_to(30)));
                         set_y(c, ints(0, 1, 1, 1));
                         c.window = Window{.size = ints(1, 1), .spatial_rank = 2};
                       },
                       "$x: the spatial sizes multiply to 2^60 or more, expected less"}});
  expect_all_accepted(kPooling, {[](Call& c) {
                        set_x(c, ints(0, 1, two_to(60) - 1));
                        set_y(c, ints(0, 1, two_to(60) - 2));
                      }});

  Call c = valid(BP_MAX_POOL);  // the same of a broadcast x that is not empty
  set_dtype(c, BP_U8);
  set_x(c, ints(1, 1, kMost));
  set_y(c, ints(1, 1, 1));
  c.tensor("x").strides = ints(0, 0, 0);
  expect_unsupported(c, "max_pool: x: the spatial sizes multiply to 2^60 or more, expected less");
}

TEST(Pooling, EmptyPlanesOfHugeAxesAreAccepted) {
  expect_all_accepted(kPooling,
                      {[](Call& c) {
                         set_x(c, ints(0, 1, two_to(59), two_to(59), 0));
                         set_y(c, ints(0, 1, 1, 1, 1));
                         c.window = Window{.size = ints(1, 1, 1), .end_padding = ints(0, 0, 1), .spatial_rank = 3};
                       },
                       [](Call& c) {  // max_pool gives the lowest value
                         set_x(c, ints(1, 1, 0, two_to(59), two_to(59)));
                         set_y(c, ints(1, 1, 1, 1, 1));
                         c.window = Window{.size = ints(1, 1, 1), .end_padding = ints(1, 0, 0), .spatial_rank = 3};
                       },
                       [](Call& c) {
                         set_x(c, ints(0, 1, 0, kMost - two_to(31) - 1));
                         set_y(c, ints(0, 1, 1, 1));
                         c.window = Window{.size = ints(1, 1), .end_padding = ints(1, 1), .spatial_rank = 2};
                       }});
  expect_all_invalid(
      kPooling, {{[](Call& c) {
                    set_x(c, ints(0, 1, 0, kMost - two_to(31) - 1));
                    set_y(c, ints(0, 1, 1, 1));
                    c.window = Window{
                        .size = ints(1, 1), .start_padding = ints(0, 1), .end_padding = ints(1, 1), .spatial_rank = 2};
                  },
                  "$x: axis 3: size 9223372034707292158 and padding 1 + 1 exceed 2^63 - 1 - 2^31, "
                  "expected at most that"},
                 {[](Call& c) {
                    set_x(c, ints(0, 1, kMost, 0));
                    set_y(c, ints(0, 1, 1, 1));
                    c.window = Window{.size = ints(1, 1), .end_padding = ints(2, 1), .spatial_rank = 2};
                  },
                  "$x: axis 2: size 9223372036854775807 and padding 0 + 2 exceed 2^63 - 1 - 2^31, "
                  "expected at most that"}});
}

TEST(Pooling, AnEmptyPlaneOfHugeAxesGivesTheLowestValue) {
  Bound bound(
      "max-pool --x-shape 1,1,576460752303423488,576460752303423488,0 --y-shape 1,1,1,1,1 --window 1 --end-padding "
      "0,0,1 --winners flat");
  bound.inputs[0] = nullptr;
  ASSERT_EQ(bound.run(), BP_OK) << bp_last_error();
  EXPECT_EQ(bound.output<float>(0, 1), (std::vector<float>{static_cast<float>(-kInf)}));
  EXPECT_EQ(bound.output<std::int64_t>(1, 1), (std::vector<std::int64_t>{-1}));
}

TEST(Pooling, TheLargestParametersAreAcceptedAndNotWrapped) {
  const std::int64_t most = two_to(31) - 1;
  for (const std::int32_t kind : kPooling) {
    for (int spatial = 1; spatial <= 3; ++spatial) {
      Call c = valid(kind);
      const Ints ones(static_cast<std::size_t>(spatial) + 2, 1);
      const Ints all_most(static_cast<std::size_t>(spatial), most);
      set_x(c, ones);
      set_y(c, ones);
      c.window = Window{.size = Ints(static_cast<std::size_t>(spatial), 2),
                        .strides = Ints(static_cast<std::size_t>(spatial), 1),
                        .start_padding = all_most,
                        .end_padding = all_most,
                        .dilations = all_most,
                        .spatial_rank = spatial};
      expect_accepted(c);
      c.window->strides = all_most;
      expect_accepted(c);
    }
  }
}

TEST(Pooling, ConvertWinnersNeedsTheSizesOfX) {
  Call c = valid(BP_CONVERT_WINNERS);
  c.x_sizes.reset();
  expect_invalid(c, "convert_winners: x_sizes: is null, expected 3 entries");
  c.x_sizes = ints(1, 2, -4);
  expect_invalid(c, "convert_winners: x_sizes: axis 2: size is -4, expected 0 or more");
  c.x_sizes = ints(two_to(62), 2, 4);
  expect_invalid(c, "convert_winners: x_sizes: the sizes multiply to more than 2^63 - 1 bytes, expected at most that");
}

// x_sizes has as many entries as the window says (spatial_rank + 2); the winners' rank is not to be trusted before the
// two agree. Reading further shows under AddressSanitizer.
TEST(Pooling, ConvertWinnersReadsNoMoreSizesOfXThanTheWindowPromises) {
  Call c = valid(BP_CONVERT_WINNERS);
  set_y(c, ints(1, 2, 3, 3, 3));
  expect_invalid(c, "convert_winners: window: spatial_rank is 1, expected 3 (rank 5 of from less 2)");
}

// ---- Winners ---------------------------------------------------------------------------------------------

// The three tensors that hold stored winners, each in a valid call.
struct WinnersSlot {
  Call call;
  std::string name;  // of the tensor
  std::int32_t Call::*kind;
  std::string kind_name;
  std::string kinds;  // that are accepted
};
std::vector<WinnersSlot> winners_slots() {
  const std::string two = "1 (compact) or 2 (flat)";
  const std::string three = "1 (compact), 2 (flat) or 3 (plane)";
  return {{valid(BP_MAX_POOL), "winners", &Call::winners_kind, "winners_kind", two},
          {max_pool_grad_of_stored_winners(), "winners", &Call::winners_kind, "winners_kind", two},
          {valid(BP_CONVERT_WINNERS), "from", &Call::from_kind, "from_kind", three},
          {valid(BP_CONVERT_WINNERS), "to", &Call::to_kind, "to_kind", three}};
}

TEST(Winners, TheKindIsChecked) {
  for (WinnersSlot slot : winners_slots()) {
    Call& c = slot.call;
    const std::string start = names(c.kind).op + ": " + slot.kind_name + ": is ";
    for (const std::int32_t kind : {0, 4, -1}) {
      c.*slot.kind = kind;
      expect_invalid(c, start + str(kind) + ", expected " + slot.kinds);
    }
    if (c.kind == BP_CONVERT_WINNERS) continue;
    c.*slot.kind = BP_WINNERS_PLANE;
    expect_invalid(c, start + "3, expected " + slot.kinds + "; convert_winners rewrites plane indices");
  }
}

TEST(Winners, AKindWithoutWinnersIsRefused) {
  for (Call c : {valid(BP_MAX_POOL), valid(BP_MAX_POOL_GRAD)}) {
    c.tensors.erase("winners");
    for (const std::int32_t kind : {1, 2, 3, -1}) {
      c.winners_kind = kind;
      expect_invalid(
          c, names(c.kind).op + ": winners_kind: is " + str(kind) + ", expected 0 (no winners tensor is given)");
    }
    c.winners_kind = BP_WINNERS_NONE;
    expect_accepted(c);
  }
}

TEST(Winners, MaxPoolGradTakesExactlyOneOfXAndWinners) {
  Call c = max_pool_grad_of_stored_winners();
  c.tensors["x"] = view(kWhole);
  expect_invalid(c, "max_pool_grad: winners: both x and winners are given, expected exactly one");
  c.tensors.erase("x");
  c.tensors.erase("winners");
  expect_invalid(c, "max_pool_grad: winners: neither x nor winners is given, expected exactly one");
}

TEST(Winners, TheCompactTypeFollowsTheCountOfTaps) {
  struct Row {
    std::int64_t taps;
    std::int32_t dtype;
  };
  for (const WinnersSlot& slot : winners_slots()) {
    for (const Row& row : {Row{1, BP_U8}, Row{255, BP_U8}, Row{256, BP_U16}, Row{65535, BP_U16}, Row{65536, BP_U32}}) {
      Call c = slot.call;
      c.window->size = ints(row.taps);
      c.window->start_padding = ints(row.taps);
      if (c.kind == BP_CONVERT_WINNERS) {  // the other tensor's type does not depend on the taps
        c.from_kind = c.to_kind = BP_WINNERS_FLAT;
        c.tensor("from").dtype = c.tensor("to").dtype = BP_I64;
      }
      c.*slot.kind = BP_WINNERS_COMPACT;
      for (std::int32_t dtype = BP_F64; dtype <= BP_U8; ++dtype) {
        c.tensor(slot.name).dtype = dtype;
        if (dtype == row.dtype) {
          expect_accepted(c);
        } else {
          expect_invalid(c, names(c.kind).op + ": " + slot.name + ": data type is " + type_name(dtype) + ", expected " +
                                type_name(row.dtype) + " for compact winners of " + str(row.taps) +
                                (row.taps == 1 ? " tap" : " taps"));
        }
      }
    }
  }
}

TEST(Winners, FlatAndPlaneIndicesHaveFourTypes) {
  for (const WinnersSlot& slot : winners_slots()) {
    for (const std::int32_t kind : {BP_WINNERS_FLAT, BP_WINNERS_PLANE}) {
      if (kind == BP_WINNERS_PLANE && slot.call.kind != BP_CONVERT_WINNERS) continue;
      for (std::int32_t dtype = BP_F64; dtype <= BP_U8; ++dtype) {
        Call c = slot.call;
        c.*slot.kind = kind;
        c.tensor(slot.name).dtype = dtype;
        if (dtype == BP_U32 || dtype == BP_U64 || dtype == BP_I32 || dtype == BP_I64) {
          expect_accepted(c);
        } else {
          expect_invalid(c, names(c.kind).op + ": " + slot.name + ": data type is " + type_name(dtype) +
                                ", expected one of u32 u64 i32 i64");
        }
      }
    }
  }
}

TEST(Winners, ThirtyTwoBitTypesMustHoldEveryIndex) {
  struct Row {
    Ints x;
    std::int32_t kind;
    std::int32_t dtype;
    std::string cannot;  // hold; empty: all indices fit
  };
  const std::vector<Row> rows{
      {{1, 1, two_to(31)}, BP_WINNERS_FLAT, BP_I32, ""},
      {{2, 1024, two_to(20)}, BP_WINNERS_FLAT, BP_I32, ""},
      {{1, 1, two_to(31) + 1}, BP_WINNERS_FLAT, BP_I32, "2147483649 indices of x, expected u32 or "},
      {{3, 1024, two_to(20)}, BP_WINNERS_FLAT, BP_I32, "3221225472 indices of x, expected u32 or "},
      {{1, 1, two_to(32) - 1}, BP_WINNERS_FLAT, BP_I32, "4294967295 indices of x, expected u32 or "},
      {{1, 1, two_to(32)}, BP_WINNERS_FLAT, BP_I32, "4294967296 indices of x, expected "},
      {{1, 1, two_to(32) - 1}, BP_WINNERS_FLAT, BP_U32, ""},
      {{1, 1, two_to(32)}, BP_WINNERS_FLAT, BP_U32, "4294967296 indices of x, expected "},
      {{4, 1024, two_to(20)}, BP_WINNERS_FLAT, BP_U32, "4294967296 indices of x, expected "},
      {{4, 1024, two_to(20)}, BP_WINNERS_FLAT, BP_I64, ""},
      {{4, 1024, two_to(20)}, BP_WINNERS_FLAT, BP_U64, ""},
      {{4, 1, two_to(31)}, BP_WINNERS_PLANE, BP_I32, ""},
      {{1, 1, two_to(31) + 1}, BP_WINNERS_PLANE, BP_I32, "2147483649 indices of a plane of x, expected u32 or "},
      {{4, 1, two_to(32) - 1}, BP_WINNERS_PLANE, BP_U32, ""},
      {{1, 1, two_to(32)}, BP_WINNERS_PLANE, BP_U32, "4294967296 indices of a plane of x, expected "}};
  for (const WinnersSlot& slot : winners_slots()) {
    for (const Row& row : rows) {
      if (row.kind == BP_WINNERS_PLANE && slot.call.kind != BP_CONVERT_WINNERS) continue;
      Call c = slot.call;
      if (c.kind == BP_CONVERT_WINNERS) c.from_kind = c.to_kind = BP_WINNERS_COMPACT;
      for (const char* other : {"from", "to"}) {
        if (c.tensors.count(other) != 0) c.tensor(other).dtype = BP_U8;
      }
      set_x(c, row.x);
      set_y(c, ints(row.x[0], row.x[1], 1));
      c.*slot.kind = row.kind;
      c.tensor(slot.name).dtype = row.dtype;
      if (row.cannot.empty()) {
        expect_accepted(c);
      } else {
        expect_invalid(c, names(c.kind).op + ": " + slot.name + ": data type is " + type_name(row.dtype) +
                              ", which cannot hold the " + row.cannot + "a 64-bit type");
      }
    }
  }
}

// ---- Resample --------------------------------------------------------------------------------------------

TEST(ResampleMap, TheMapIsChecked) {
  expect_all_invalid(
      kResample,
      {{[](Call& c) { c.map.reset(); }, "map: is null, expected a bp_resample_map"},
       {[](Call& c) { c.map->rank = 2; }, "map: rank is 2, expected 3 (that of the tensors)"},
       {[](Call& c) { c.map->rank = 4; }, "map: rank is 4, expected 3 (that of the tensors)"},
       {[](Call& c) { c.map->rank = -1; }, "map: rank is -1, expected 3 (that of the tensors)"},
       {[](Call& c) { c.map->mode = 2; }, "mode: is 2, expected 0 (nearest) or 1 (linear)"},
       {[](Call& c) { c.map->mode = -1; }, "mode: is -1, expected 0 (nearest) or 1 (linear)"},
       {[](Call& c) { c.map->rounding = 3; }, "rounding: is 3, expected 0 (increasing), 1 (decreasing) or 2 (half-up)"},
       {[](Call& c) { c.map->rounding = -1; },
        "rounding: is -1, expected 0 (increasing), 1 (decreasing) or 2 (half-up)"},
       {[](Call& c) { c.map->convention = 3; },
        "convention: is 3, expected 0 (half-pixel), 1 (align-corners) or 2 (asymmetric)"},
       {[](Call& c) { c.map->convention = -1; },
        "convention: is -1, expected 0 (half-pixel), 1 (align-corners) or 2 (asymmetric)"},
       {[](Call& c) { c.map->input_offsets = reals(0, 0, 0); },
        "scales: is null although input_offsets is given, expected 3 entries (the exact conventions have no offsets)"},
       {[](Call& c) { c.map->output_offsets = reals(0, 0, 0); },
        "scales: is null although output_offsets is given, expected 3 entries (the exact conventions have no "
        "offsets)"}});
}

TEST(ResampleMap, ScalesAndOffsetsAreFiniteAndScalesPositive) {
  struct Row {
    std::string name;
    std::optional<Reals> Map::*values;
    double value;
    std::string found;
    std::string expected;
  };
  std::vector<Row> rows{{"scales", &Map::scales, 0.0, "0", "a finite number above 0"},
                        {"scales", &Map::scales, -0.0, "-0", "a finite number above 0"},
                        {"scales", &Map::scales, -1.5, "-1.5", "a finite number above 0"},
                        {"scales", &Map::scales, kNaN, "nan", "a finite number above 0"},
                        {"scales", &Map::scales, kInf, "inf", "a finite number above 0"},
                        {"scales", &Map::scales, -kInf, "-inf", "a finite number above 0"}};
  const std::vector<std::pair<std::string, std::optional<Reals> Map::*>> offsets{
      {"input_offsets", &Map::input_offsets}, {"output_offsets", &Map::output_offsets}};
  for (const auto& [name, values] : offsets) {
    rows.push_back({name, values, kNaN, "nan", "a finite number"});
    rows.push_back({name, values, kInf, "inf", "a finite number"});
    rows.push_back({name, values, -kInf, "-inf", "a finite number"});
  }
  for (const std::int32_t kind : kResample) {
    for (const Row& row : rows) {
      for (std::size_t axis = 0; axis < 3; ++axis) {
        Call c = valid(kind);
        c.map->scales = reals(1, 1, 1);
        (*c.map).*row.values = reals(1, 1, 1);
        expect_accepted(c);
        ((*c.map).*row.values)->at(axis) = row.value;
        expect_invalid(c, names(kind).op + ": " + row.name + ": axis " + std::to_string(axis) + ": is " + row.found +
                              ", expected " + row.expected);
      }
    }
  }
}

TEST(ResampleMap, AbsurdScalesAndOffsetsAreAccepted) {
  for (const std::int32_t kind : kResample) {
    for (const std::int32_t mode : {BP_NEAREST, BP_LINEAR}) {
      for (const std::int32_t rounding : {BP_ROUND_INCREASING, BP_ROUND_DECREASING, BP_ROUND_HALF_UP}) {
        for (const double scale : {1e-300, 5e-324, 1e300}) {
          for (const double offset : {0.0, 1e308, -1e308}) {
            Call c = valid(kind);
            c.map = Map{.mode = mode,
                        .rounding = rounding,
                        .scales = Reals(3, scale),
                        .input_offsets = Reals(3, offset),
                        .output_offsets = Reals(3, -offset)};
            expect_accepted(c);
            c.map->output_offsets = Reals(3, offset);
            expect_accepted(c);
          }
        }
      }
    }
  }
}

TEST(Resample, AbsurdScalesAndOffsetsClampToTheEnds) {
  struct Row {
    std::string_view map;
    float expected;  // x is 1, 2, 3, 4
  };
  for (const Row& row : {Row{"--scales 1e-300", 4}, Row{"--scales 1e300", 1},
                         Row{"--scales 1e-300 --input-offsets 0 --output-offsets 1e308", 1},
                         Row{"--scales 1e-300 --input-offsets 0 --output-offsets -1e308", 4},
                         Row{"--scales 1e300 --input-offsets 1e308 --output-offsets 0", 1},
                         Row{"--scales 1e300 --input-offsets -1e308 --output-offsets 0", 4}}) {
    for (const std::string_view mode : {"nearest", "linear"}) {
      const std::string line =
          "resample --x-shape 4 --y-shape 2 --mode " + std::string(mode) + " " + std::string(row.map);
      EXPECT_EQ(support::run<float>(line, {{1, 2, 3, 4}}), (std::vector<float>{row.expected, row.expected})) << line;
    }
  }
}

TEST(ResampleTable, EveryFieldIsChecked) {
  for (const std::int32_t kind : kResample) {
    Call c = valid(kind);
    set_table(c);
    expect_accepted(c);
    c.table().first.reset();  // the axis is left to the mode
    c.table().count.reset();
    expect_accepted(c);
  }
  const std::vector<Refusal> refusals{
      {[](Call& c) { c.table().count.reset(); }, "count is null, expected 3 entries"},
      {[](Call& c) { c.table().count = ints(2, -1, 1); }, "count of output 1 is -1, expected 0 or more"},
      {[](Call& c) { c.table().count = ints(2, 0, kLeast); },
       "count of output 2 is -9223372036854775808, expected 0 or more"},
      {[](Call& c) { c.table().first = ints(-1, 0, 0); },
       "output 0 reads [-1, -1 + 2), expected to stay within [0, 4)"},
      {[](Call& c) { c.table().first = ints(0, 5, 0); }, "output 1 reads [5, 5 + 0), expected to stay within [0, 4)"},
      {[](Call& c) { c.table().first = ints(3, 0, 0); }, "output 0 reads [3, 3 + 2), expected to stay within [0, 4)"},
      {[](Call& c) {
         c.table().first = ints(0, 0, kMost);
         c.table().count = ints(2, 0, kMost);
       },
       "output 2 reads [9223372036854775807, 9223372036854775807 + 9223372036854775807), expected to stay within "
       "[0, 4)"},
      {[](Call& c) { c.table().count = ints(kMost, 0, 0); },
       "output 0 reads [0, 0 + 9223372036854775807), expected to stay within [0, 4)"},
      {[](Call& c) { c.table().weight_count = 2; }, "weight_count is 2, expected the sum of count (3)"},
      {[](Call& c) { c.table().weight_count = 4; }, "weight_count is 4, expected the sum of count (3)"},
      {[](Call& c) { c.table().weight_count = -1; }, "weight_count is -1, expected the sum of count (3)"},
      {[](Call& c) { c.table().weights.reset(); }, "weights is null, expected 3 entries"},
      {[](Call& c) { c.table().weights = reals(0.5, kNaN, 1); },
       "weight 1 is nan, expected a number that is finite in f32"},
      {[](Call& c) { c.table().weights = reals(0.5, 0.5, -kInf); },
       "weight 2 is -inf, expected a number that is finite in f32"},
      {[](Call& c) { c.table().weights = reals(1e300, 0.5, 1); },
       "weight 0 is 1e+300, expected a number that is finite in f32"}};
  for (const std::int32_t kind : kResample) {
    for (const Refusal& refusal : refusals) {
      Call c = valid(kind);
      set_table(c);
      refusal.spoil(c);
      expect_invalid(c, names(kind).op + ": tables: axis 2: " + refusal.sentence);
    }
  }
}

TEST(ResampleTable, WeightsMustBeFiniteInTheAccumulator) {
  for (const std::int32_t kind : kResample) {
    Call c = valid(kind);
    set_table(c);
    set_dtype(c, BP_F64);
    c.table().weights = reals(1e300, -1e308, 5e-324);
    expect_accepted(c);
    c.table().weights = reals(1e300, kInf, 1);
    expect_invalid(c, names(kind).op + ": tables: axis 2: weight 1 is inf, expected a number that is finite in f64");
    set_dtype(c, BP_F16);  // the accumulator counts, not the storage type
    c.table().weights = reals(1e38, -3.4e38, 1e-300);
    expect_accepted(c);
    c.table().weights = reals(1, 1, 3.5e38);
    expect_invalid(c,
                   names(kind).op + ": tables: axis 2: weight 2 is 3.5e+38, expected a number that is finite in f32");
  }
}

TEST(ResampleTable, CountsWhoseSumLeavesSixtyThreeBitsAreRefused) {
  for (const std::int32_t kind : kResample) {
    Call c = valid(kind);
    set_dtype(c, BP_F16);
    set_x(c, ints(1, 1, two_to(61)));
    set_y(c, ints(1, 1, 4));
    set_table(c);
    c.table() = {Ints(4, 0), Ints(4, two_to(61)), reals(1), 0};
    expect_invalid(
        c, names(kind).op + ": tables: axis 2: weight_count is 0, expected the sum of count (more than 2^63 - 1)");
  }
}

TEST(ResampleTable, RowsWithoutTapsNeedNoWeights) {
  for (const std::int32_t kind : kResample) {
    Call c = valid(kind);
    set_table(c);
    c.table() = {ints(0, 4, 0), ints(0, 0, 0), std::nullopt, 0};
    expect_accepted(c);
  }
}

TEST(Resample, AnEmptyXHasNoElementsToGive) {
  Call c = valid(BP_RESAMPLE);
  set_x(c, ints(1, 2, 0));
  expect_invalid(c, "resample: y: has 6 elements although x is empty, expected none");
  set_y(c, ints(1, 0, 3));
  expect_accepted(c);
  c = valid(BP_RESAMPLE_GRAD);  // dx = +0 from an empty dy; an empty dx is nothing to do
  set_y(c, ints(1, 2, 0));
  expect_accepted(c);
  set_x(c, ints(1, 0, 4));
  expect_accepted(c);
}

TEST(Resample, LongAxesAreUnsupportedWhereTheyAreResampledAndFineWhereTheyAreLeftAlone) {
  const auto with = [](std::int32_t kind, std::int64_t in, std::int64_t out) {
    Call c = valid(kind);
    set_x(c, ints(1, 1, in));
    set_y(c, ints(1, 1, out));
    return c;
  };
  const std::int64_t huge = two_to(41);
  for (const std::int32_t kind : kResample) {
    const std::string start = names(kind).op + ": sizes: axis 2: is to be resampled from ";
    const std::string between = " to ";
    const std::string end = ", expected at most 2^40";
    expect_unsupported(with(kind, 3, huge), start + "3" + between + "2199023255552" + end);
    expect_unsupported(with(kind, huge, 4), start + "2199023255552" + between + "4" + end);
    expect_unsupported(with(kind, 3, two_to(40) + 1), start + "3" + between + "1099511627777" + end);
    expect_unsupported(with(kind, two_to(60), 4), start + "1152921504606846976" + between + "4" + end);
    for (const std::int32_t convention : {BP_HALF_PIXEL, BP_ALIGN_CORNERS, BP_ASYMMETRIC}) {
      Call c = with(kind, huge, huge);
      c.map->convention = convention;
      expect_accepted(c);
      c.map->scales = reals(1, 1, 1);
      expect_accepted(c);
      c.map->scales = reals(1, 1, 2);
      expect_unsupported(c, start + "2199023255552" + between + "2199023255552" + end);
    }
  }
}

// Address space is limited in a child process, where the sanitizer has not taken it all already.
#if !defined(__SANITIZE_ADDRESS__)
TEST(Resample, ATableThatDoesNotFitInMemoryIsReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto attempt = [] {
    const rlimit limit{rlim_t{1} << 32, rlim_t{1} << 32};
    setrlimit(RLIMIT_AS, &limit);
    Call c = valid(BP_RESAMPLE);
    set_x(c, ints(1, 1, 1));
    set_y(c, ints(1, 1, two_to(40)));
    expect_refused(create(c), BP_OUT_OF_MEMORY, "backpass: out of memory");
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(attempt(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace errors
