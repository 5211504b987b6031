// SPDX-License-Identifier: Apache-2.0
// Stored winners that are wrong, the one failure that does write: the sentence, and what was written.
#include "errors_call.h"

namespace errors {
namespace {

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
