// SPDX-License-Identifier: Apache-2.0
// Bad input on the command line: one line on stderr that names what is wrong, exit 2, nothing on stdout, no output
// file.
#include "cli_support.h"

#include <cstdlib>

namespace cli {
namespace {

struct Refusal {
  std::string line, fragment;
};

class CliErrorsTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    if (HasFatalFailure()) return;
    put<float>("v.npy", {6}, {1, 2, 3, 4, 5, 6});
    put<float>("x.npy", {1, 1, 3, 3}, {1, 2, 3, 2, 4, 2, 5, 6, 7});
    put<float>("dy.npy", {1, 1, 2, 2}, {1, 2, 4, 5});
    put<std::int32_t>("ints.npy", {1, 1, 3, 3}, support::count_from<std::int32_t>(1, 9));
    put<std::int64_t>("flat.npy", {1, 1, 2, 2}, {4, 4, 7, 8});
    put<std::uint8_t>("compact.npy", {1, 1, 2, 2}, {3, 2, 3, 3});
    put_text("old.npy", "the user's own");
  }

  void refuse_all(const std::vector<Refusal>& refusals, const Environment& environment = {}) const {
    for (const auto& [line, fragment] : refusals) refuse(line, fragment, environment);
  }

  // A run that must write neither a new file nor over an old one.
  void refuse_runs(const std::string& start, const std::vector<Refusal>& refusals) const {
    for (const auto& [end, fragment] : refusals) {
      for (const std::string out : {"new.npy", "old.npy"}) refuse(start + " " + end + " --out " + out, fragment);
    }
  }
};

const std::string kPooling = " --window 2 --strides 1";

// ---- Commands and options ------------------------------------------------------------------------------

TEST_F(CliErrorsTest, UnknownWordsAreNamed) {
  refuse_all(
      {{"nosuch", "nosuch"},
       {"run nosuch", "nosuch"},
       {"explain nosuch --x-shape 3", "nosuch"},
       {"check nosuch", "'nosuch' is no named problem"},
       {"list nosuch", "'nosuch' is no operator, expected one of relu relu-grad "},
       {"list problems nosuch", "'nosuch' is no operator, expected one of relu relu-grad "},
       {"list problems --markdown", "--markdown: is for the table of operators"},
       {"run relu --x x.npy --out new.npy nosuch", "'nosuch' is not expected here"},
       {"run relu --x x.npy --out new.npy --nosuch 3", "'--nosuch' is not expected here"},
       {"run relu --x x.npy --out new.npy --window 2", "'--window' is not expected here"},
       {"run relu-grad --x x.npy --dy x.npy --out new.npy --y-shape 3", "--y-shape"},
       {"run relu-grad --x x.npy --dy x.npy --out new.npy --x-shape 1,1,3,3", "--x-shape"},              // x has them
       {"run max-pool-grad --x x.npy --dy dy.npy --out new.npy --window 2 --ceil-mode", "--ceil-mode"},  // dy has
       {"run --nosuch relu", "'--nosuch' stands where the operator should, expected one of relu "},
       {"explain relu --x-shape 3 --nosuch 4", "'--nosuch' is not expected here"},
       {"check --nosuch", "'--nosuch' is not expected here"},
       {"check relu --nosuch", "'--nosuch' is not expected here"},
       {"list --nosuch", "'--nosuch' is not expected here"},
       {"bench --nosuch", "'--nosuch' is not expected here"},
       {"--nosuch", "'--nosuch' stands where the command should, expected one of list "}});
}

TEST_F(CliErrorsTest, AMissingCommandOrOperatorIsAskedFor) {
  refuse_all({{"", "the command is missing, expected one of list run check explain bench"},
              {"run", "the operator is missing, expected one of relu "},
              {"explain", "the operator is missing, expected one of relu "}});
}

TEST_F(CliErrorsTest, AnOptionHasOneValue) {
  refuse_all({{"explain relu --x-shape", "--x-shape: has no value"},
              {"explain relu --x-shape 3 --x-shape 3", "--x-shape: is given twice"},
              {"check --random 3 relu --random 3", "--random: is given twice"},
              {"check --device cpu relu --device cpu", "--device: is given twice"}});
}

TEST_F(CliErrorsTest, EveryRequiredOptionIsAskedFor) {
  using Options = std::vector<std::pair<std::string, std::string>>;
  const std::vector<std::pair<std::string, Options>> commands{
      {"relu", {{"--x", "x.npy"}}},
      {"relu-grad", {{"--x", "x.npy"}, {"--dy", "x.npy"}}},
      {"max-pool", {{"--x", "x.npy"}, {"--window", "2"}}},
      {"max-pool-grad --strides 1", {{"--x", "x.npy"}, {"--dy", "dy.npy"}, {"--window", "2"}}},
      {"max-pool-grad --strides 1",
       {{"--winners-in", "flat.npy"}, {"--x-shape", "1,1,3,3"}, {"--dy", "dy.npy"}, {"--window", "2"}}},
      {"resample", {{"--x", "x.npy"}, {"--y-shape", "1,1,6,6"}}},
      {"resample", {{"--x", "x.npy"}, {"--scales", "2"}}},
      {"resample-grad", {{"--dy", "dy.npy"}, {"--x-shape", "1,1,3,3"}}},
      {"slice", {{"--x", "x.npy"}}},
      {"slice-grad --sizes 1,1,2,2", {{"--dy", "dy.npy"}, {"--x-shape", "1,1,3,3"}}},
      {"convert-winners --strides 1",
       {{"--winners-in", "flat.npy"},
        {"--x-shape", "1,1,3,3"},
        {"--window", "2"},
        {"--winners-kind", "flat"},
        {"--winners", "compact"}}},
  };
  for (const auto& [op, given] : commands) {
    Options options = given;
    options.emplace_back("--out", "new.npy");
    const auto line_without = [&](const std::string& left_out) {
      std::string line = "run " + op;
      for (const auto& [name, value] : options) line += name == left_out ? "" : " " + name + " " + value;
      return line;
    };
    succeed(line_without(""));
    std::filesystem::remove(path("new.npy"));
    for (const auto& [name, value] : options) refuse(line_without(name), name);
  }
}

TEST_F(CliErrorsTest, ExplainAsksForTheShapeAndTheWindow) {
  refuse_all({{"explain relu", "--x-shape"},
              {"explain max-pool --window 2", "--x-shape"},
              {"explain max-pool-grad --x-shape 1,1,3,3", "--window"},
              {"explain resample --x-shape 3", "--y-shape"},
              {"explain convert-winners --x-shape 1,1,3,3 --window 2 --winners flat", "--winners-kind: is missing"},
              {"explain convert-winners --x-shape 1,1,3,3 --window 2 --winners-kind flat", "--winners: is missing"},
              {"check max-pool --x-shape 1,1,3,3", "--window"}});
}

TEST_F(CliErrorsTest, OptionsThatExcludeEachOtherAreRefused) {
  refuse_runs("run max-pool-grad --x x.npy --dy dy.npy --winners-in flat.npy" + kPooling, {{"", "--winners-in"}});
  // Without --winners-in there are no winners of any kind.
  for (const std::string option : {"--winners", "--winners-kind"}) {
    refuse_runs("run max-pool-grad --x x.npy --dy dy.npy " + option + " flat" + kPooling,
                {{"", "--winners (or --winners-kind): needs --winners-in"}});
  }
  refuse_runs("run max-pool --x x.npy --window 2 --winners flat", {{"", "--winners-out"}});
  refuse("run relu --x x.npy --x x.npy --out new.npy", "--x");
}

TEST_F(CliErrorsTest, OneOutputFileCannotHoldTwoTensors) {
  for (const std::string name : {"new.npy", "old.npy"}) {
    refuse("run max-pool --x x.npy --window 2 --out " + name + " --winners-out " + name, "two outputs");
    refuse("run max-pool --x x.npy --window 2 --out " + name + " --winners-out ./" + name, "two outputs");
  }
}

// ---- Values --------------------------------------------------------------------------------------------

TEST_F(CliErrorsTest, WhatIsNoIntegerIsRefused) {
  for (const std::string text :
       {"abc", "1.5", "1e3", "0x10", "1,,2", "1,", ",1", ",", "--", "1;2", "+", "-", "+-1", "1 2", " 1", "",
        "9223372036854775808", "-9223372036854775809", "1,99999999999999999999999"}) {
    refuse(Words{"run", "slice", "--x", "v.npy", "--out", "new.npy", "--offsets", text}, "--offsets");
    refuse(Words{"explain", "relu", "--x-shape", text}, "--x-shape");
  }
}

TEST_F(CliErrorsTest, WhatIsNoNumberIsRefused) {
  for (const std::string text : {"abc", "1,,2", "1,", "", "1e999", "1.5.2", "0x1p3", "1 2"}) {
    refuse(Words{"run", "resample", "--x", "v.npy", "--out", "new.npy", "--scales", text}, "--scales");
  }
}

TEST_F(CliErrorsTest, NumbersOfOneValueAreRefusedLikewise) {
  for (const std::string text : {"abc", "1.5", "-1", "99999999999999999999999", "1,2", ""}) {
    refuse(Words{"run", "relu", "--x", "x.npy", "--out", "new.npy", "--threads", text}, "--threads");
    refuse(Words{"check", "--random", text}, "--random");
    refuse(Words{"check", "--random", "1", "--first", text}, "--first");
    if (text != "-1") refuse(Words{"check", "relu", "--x-shape", "3", "--seed", text}, "--seed");
  }
  refuse("check --random 18446744073709551616", "--random");
  refuse("check --random 5 --first 18446744073709551615", "--first");  // there are no five
}

TEST_F(CliErrorsTest, AListHasOneValueOrOneForEachAxis) {
  refuse_runs("run slice --x x.npy", {{"--offsets 0,0,1", "--offsets: has 3 values"},
                                      {"--sizes 1,1", "--sizes: has 2 values"},
                                      {"--strides 1,1,1,1,1", "--strides: has 5 values"}});
  refuse_runs("run max-pool --x x.npy", {{"--window 2,2,2", "--window: has 3 values"},
                                         {"--window 2 --strides 1,1,1", "--strides: has 3 values"},
                                         {"--window 2 --start-padding 0,0,0", "--start-padding: has 3 values"},
                                         {"--window 2 --end-padding 0,0,0", "--end-padding: has 3 values"},
                                         {"--window 2 --dilations 1,1,1", "--dilations: has 3 values"}});
  refuse_runs("run resample --x x.npy", {{"--scales 1,2", "--scales: has 2 values"},
                                         {"--scales 1 --input-offsets 0,0", "--input-offsets: has 2 values"},
                                         {"--scales 1 --output-offsets 0,0", "--output-offsets: has 2 values"}});
  refuse("explain relu --x-shape 3,4 --x-strides 1", "--x-strides: has 1 value, expected 2");
}

TEST_F(CliErrorsTest, ChoicesOutsideTheListAreRefusedWithTheList) {
  refuse_runs("run resample --x v.npy --y-shape 3",
              {{"--mode cubic", "linear"}, {"--rounding up", "half-up"}, {"--convention pytorch", "align-corners"}});
  refuse_runs("run relu-grad --x v.npy --dy v.npy", {{"--nan keep", "pass"}});
  refuse_runs("run relu --x v.npy", {{"--device tpu", "cuda"},
                                     {"--dtype float", "'float' is no data type"},
                                     {"--implementation nosuch", "'nosuch' is not among those for cpu"}});
  refuse_runs("run max-pool --x x.npy --window 2 --winners-out w.npy",
              {{"--winners plane", "compact|flat"},
               {"--winners flat --winners-dtype f32", "u32"},
               {"--winners flat --winners-dtype int", "'int'"},
               {"--winners-dtype u32", "is for flat winners, expected --winners flat beside it"}});
  refuse(
      "explain convert-winners --x-shape 1,1,3,3 --window 2 --winners-kind flat --winners compact --winners-dtype u32",
      "is for flat or plane winners, expected --winners flat or plane beside it");
  refuse("explain relu --x-shape 3 --implementation nosuch", "'nosuch' is not among those for cpu");
  refuse("check relu --x-shape 3 --fill zeros", "ones");
}

TEST_F(CliErrorsTest, CudaIsRefusedWhereThereIsNone) {
  if (bp_device_count(BP_DEVICE_CUDA) > 0) GTEST_SKIP() << "this machine has a CUDA device";
  refuse_runs("run relu --x x.npy --device cuda", {{"", "CUDA"}});
  refuse("explain relu --x-shape 3 --device cuda", "CUDA");
  refuse("check --device cuda", "device");
  refuse("check relu --x-shape 3 --device cuda", "device");
  const bool built = bp_implementation_name(BP_RELU, BP_DEVICE_CUDA, 0) != nullptr;
  refuse("check --device cuda relu",
         built ? "no CUDA device can be used" : "device: this build has no implementation of relu for cuda");
  refuse("bench --device cuda", "device: no CUDA device can be used");
}

TEST_F(CliErrorsTest, ParametersThatTheOperatorForbidsAreRefused) {
  refuse_runs("run max-pool --x x.npy", {{"--window 4", "window: spatial axis 0: spans 4"},
                                         {"--window 0", "window"},
                                         {"--window -1", "window"},
                                         {"--window 2 --strides 0", "strides"},
                                         {"--window 2 --start-padding -1", "start_padding"},
                                         {"--window 2 --end-padding 2147483648", "end_padding"},
                                         {"--window 2 --dilations 0", "dilations"}});
  refuse_runs("run slice --x v.npy", {{"--strides 0", "strides"},
                                      {"--offsets 4 --sizes 3", "offset"},
                                      {"--offsets -1", "offsets"},
                                      {"--offsets -9223372036854775808", "offsets"},
                                      {"--offsets 9223372036854775807", "offset"},
                                      {"--sizes 0", "sizes"},
                                      {"--sizes -9223372036854775808", "sizes"},
                                      {"--strides -9223372036854775808", "strides"}});
  refuse_runs("run resample --x v.npy", {{"--scales 0 --y-shape 3", "scales"},
                                         {"--scales -1 --y-shape 3", "scales"},
                                         {"--scales nan --y-shape 3", "scales"},
                                         {"--scales inf", "scales"},
                                         {"--scales 0.1", "is below 1 and leaves no output"},
                                         {"--scales 1e-300", "is below 1 and leaves no output"},
                                         {"--scales 1 --input-offsets inf", "offsets"},
                                         {"--y-shape 3 --input-offsets 0.5", "scales"}});
}

TEST_F(CliErrorsTest, TablesAreCheckedAgainstTheSizes) {
  refuse_runs("run resample --x v.npy --y-shape 3", {{"--table 0", "--table: expected AXIS=first:weight:"},
                                                     {"--table =0:1,0,0", "--table: '' is not an axis"},
                                                     {"--table a=0:1,0,0", "--table: 'a' is not an axis"},
                                                     {"--table -1=0:1,0,0", "--table: axis is -1, expected 0 to 7"},
                                                     {"--table 8=0:1,0,0", "--table: axis is 8, expected 0 to 7"},
                                                     {"--table 1=0:1,0,0", "--table: axis is 1, expected below 1 (the"},
                                                     {"--table 0=0:x,0,0", "--table: 'x' is not a number"},
                                                     {"--table 0=0:1,,0", "--table: '' is not an index"},
                                                     {"--table 0=9:1,0,0", "tables: axis 0"},
                                                     {"--table 0=0:nan,0,0", "tables: axis 0"},
                                                     {"--table 0=0,0,0 --table x", "--table: expected AXIS=first:"}});
  // A row for each output, no fewer and no more.
  refuse_runs("run resample --x v.npy --y-shape 3", {{"--table 0=", "axis 0: has 0 outputs, expected 3"},
                                                     {"--table 0=0:1", "axis 0: has 1 output, expected 3"},
                                                     {"--table 0=0:1,1:1", "axis 0: has 2 outputs, expected 3"},
                                                     {"--table 0=0:1,1:1,2:1,3", "axis 0: has 4 outputs, expected 3"}});
  refuse_runs("run resample-grad --dy v.npy --x-shape 3",
              {{"--table 0=0:1,1:1,2:1", "axis 0: has 3 outputs, expected 6 (the size of y)"}});
}

// ---- Files ---------------------------------------------------------------------------------------------

TEST_F(CliErrorsTest, FilesThatCannotBeReadAreNamed) {
  std::filesystem::create_directory(path("folder"));
  refuse_runs("run relu", {{"--x nosuch.npy", "nosuch.npy: No such file"},
                           {"--x nosuch/x.npy", "nosuch/x.npy: No such file"},
                           {"--x x.npy/x.npy", "x.npy/x.npy: Not a directory"},
                           {"--x folder", "folder: Is a directory"}});
  refuse_runs("run relu-grad --x x.npy --dy nosuch.npy", {{"", "nosuch.npy: "}});
  refuse_runs("run max-pool-grad --winners-in nosuch.npy --dy dy.npy --x-shape 1,1,3,3" + kPooling,
              {{"", "nosuch.npy: "}});
}

TEST_F(CliErrorsTest, FilesThatAreNoArraysAreRefused) {
  const std::string good = npy_file("<f4", "(2,)", std::string(8, '\0'));
  const std::vector<Refusal> files{
      {"", "is empty"},
      {"hello\n", "is not a .npy file"},
      {std::string("PK\3\4") + std::string(60, 'x'), "archive"},
      {good.substr(0, 5), "truncated"},
      {good.substr(0, 9), "truncated"},
      {good.substr(0, 40), "truncated"},
      {good.substr(0, good.size() - 1), "truncated: has 7 bytes of data, its header promises 8"},
      {good + "x", "has 9 bytes of data, its header promises only 8"},
      {npy_file("<f4", "(1000000000000000000,)", "1234"), "promises 4000000000000000000"},
      {npy_file("<f4", "(1000000000000000000, 1000000000000000000)", "1234"), "too large"},
      {npy_file("<f4", "(-1,)", ""), "negative"},
      {npy_file("<f4", "(99999999999999999999,)", ""), "too large"},
      {npy_file("<f4", "(2,)", std::string(8, '\0'), 4), "version 4.0"},
      {npy_file("<c8", "(1,)", std::string(8, '\0')), "'<c8'"},
      {npy_file("|b1", "(8,)", std::string(8, '\0')), "'|b1'"},
      {npy_file("<M8[ns]", "(1,)", std::string(8, '\0')), "'<M8[ns]'"},
      {npy_file("|O", "(1,)", std::string(8, '\0')), "'|O'"},
      {npy_file("<f16", "(1,)", std::string(16, '\0')), "'<f16'"},
      {npy_file("|V2", "(4,)", std::string(8, '\0')), "--dtype bf16"},
      {npy_file("<f4", "()", std::string(4, '\0')), "rank 1 to 8"},
      {npy_file("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", std::string(4, '\0')), "has rank 9"},
      {npy_file("<f4\x1b[31m\n", "(2,)", std::string(8, '\0')), ""},
  };
  for (const auto& [text, fragment] : files) {
    put_text("bad.npy", text);
    refuse_runs("run relu --x bad.npy", {{"", fragment}});
    refuse("run relu --x /dev/stdin --out new.npy", "/dev/stdin: ", {}, text);
  }
}

TEST_F(CliErrorsTest, TypesThatDoNotFitAreNamed) {
  put<std::uint8_t>("u1.npy", {1, 1, 3, 3}, support::count_from<std::uint8_t>(1, 9));
  refuse_runs("run relu-grad", {{"--x x.npy --dy ints.npy", "dy: data type is i32, expected f32"}});
  refuse_runs("run relu", {{"--x x.npy --dtype f16", "holds f32, --dtype says f16"},
                           {"--x x.npy --dtype bf16", "holds f32, --dtype says bf16"},
                           {"--x u1.npy", "x: data type is u8, expected one of"}});
  refuse_runs("run max-pool-grad --x ints.npy --dy ints.npy --window 1", {{"", "data type is i32, expected one of"}});
  refuse_runs("run resample --x ints.npy --scales 1", {{"", "data type is i32, expected one of"}});
}

TEST_F(CliErrorsTest, ShapesThatDoNotFitAreNamed) {
  refuse_runs("run relu-grad --x x.npy --dy dy.npy", {{"", "dy: axis 2: size is 2, expected 3"}});
  refuse_runs("run relu-grad --x x.npy --dy v.npy", {{"", "relu_grad: dy: rank is 1, expected 4 (that of x)"}});
  refuse_runs("run max-pool-grad --x x.npy --dy dy.npy --x-shape 1,1,4,4" + kPooling,
              {{"", "--x-shape: is 1,1,4,4, but --x has sizes 1,1,3,3"}});
  refuse_runs("run max-pool-grad --x x.npy --dy x.npy" + kPooling, {{"", "dy: axis 2: size is 3, expected 1 to 2"}});
  refuse_runs("run max-pool --x v.npy --window 2", {{"", "max_pool: x: rank is 1, expected 3 to 5 (N, C and "}});
  refuse_runs("run max-pool --x x.npy --window 2",
              {{"--y-shape 1,1,3,3", "y: axis 2: size is 3, expected 1 to 2"},
               {"--y-shape 1,2,1,1", "y: axis 1: size is 2, expected 1"},
               {"--y-shape 1,1,1", "max_pool: y: rank is 3, expected 4 (that of x)"},
               {"--y-shape 1,1,0,1", "y: axis 2"}});
  refuse_runs("run slice --x v.npy",
              {{"--y-shape 7", "y: axis 0: size is 7, expected 1 to 6"}, {"--y-shape -1", "size is -1"}});
  refuse_runs("run slice-grad --dy v.npy --x-shape 5", {{"", "dy: axis 0: size is 6"}});
  refuse_runs("run resample-grad --dy v.npy --x-shape 6,1",
              {{"", "resample_grad: dy: rank is 1, expected 2 (that of x)"}});
  refuse_runs("run slice-grad --dy v.npy --x-shape -6",
              {{"", "slice_grad: dx: axis 0: size is -6, expected 0 or more"}});
}

TEST_F(CliErrorsTest, ShapesBeyondAnyMemoryAreRefused) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's allocator ends the program";
#endif
  refuse_runs("run slice-grad --dy v.npy --x-shape 1000000000000000000", {{"--sizes 6", "memory"}});
  refuse_runs("run slice-grad --dy v.npy --x-shape 4000000000000000000", {{"--sizes 6", "2^63"}});
  refuse_runs("run slice-grad --dy dy.npy --x-shape 1000000000,1000000000,1000000000,1000000000",
              {{"--sizes 1,1,2,2", "2^63"}});
  refuse_runs("run resample --x v.npy", {{"--y-shape 1000000000000000000", "1000000000000000000"},
                                         {"--scales 1e17", "600000000000000000"},
                                         {"--scales 1e30", "--scales"},
                                         {"--scales 1e308", "--scales"}});
  refuse_runs("run resample-grad --dy v.npy --x-shape 1000000000000000000", {{"", "1000000000000000000"}});
  refuse_runs(
      "run max-pool-grad --winners-in flat.npy --dy dy.npy --x-shape 1,1,1000000000000,1000000000000" + kPooling,
      {{"", "2^63"}});
  refuse("check relu --x-shape 1000000000000000000 --dtype f32", "memory");
  refuse("check relu --x-shape 1000000000000000000 --dtype f32 --implementation reference",
         "more than the oracle takes");
  refuse("explain relu --x-shape 9223372036854775807", "2^63");
}

TEST_F(CliErrorsTest, OutputsThatCannotBeWrittenAreNamed) {
  std::filesystem::create_directory(path("folder"));
  refuse_all(
      {{"run relu --x x.npy --out nosuch/o.npy", "nosuch/o.npy: No such file"},
       {"run relu --x x.npy --out x.npy/o.npy", "x.npy/o.npy: Not a directory"},
       {"run relu --x x.npy --out folder", "folder: Is a directory"},
       {"run relu --x x.npy --out /dev/full", "/dev/full: No space left"},
       {"run max-pool --x x.npy --window 2 --out new.npy --winners-out nosuch/w.npy", "nosuch/w.npy: No such file"},
       {"run max-pool --x x.npy --window 2 --out old.npy --winners-out folder", "folder: Is a directory"},
       {"run max-pool --x x.npy --window 2 --out nosuch/o.npy --winners-out new.npy", "nosuch/o.npy: No such file"}});
}

TEST_F(CliErrorsTest, WriteProtectionIsRespected) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  std::filesystem::create_directory(path("folder"));
  std::filesystem::permissions(path("folder"), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  std::filesystem::permissions(path("old.npy"), std::filesystem::perms::owner_read);
  refuse("run relu --x x.npy --out folder/o.npy", "folder/o.npy: Permission denied");
  refuse("run relu --x x.npy --out old.npy", "old.npy: Permission denied");
  std::filesystem::permissions(path("folder"), std::filesystem::perms::owner_all);
}

// ---- Stored winners ------------------------------------------------------------------------------------

TEST_F(CliErrorsTest, WrongStoredWinnersLeaveNoFile) {
  put<std::int64_t>("outside.npy", {1, 1, 2, 2}, {4, 4, 7, 9});
  put<std::int64_t>("negative.npy", {1, 1, 2, 2}, {-2, 4, 7, 8});
  put<std::int64_t>("elsewhere.npy", {1, 1, 2, 2}, {4, 4, 7, 0});  // an element of x, but not of that window
  put<std::uint8_t>("tap.npy", {1, 1, 2, 2}, {3, 2, 4, 3});
  for (const std::string file : {"outside", "negative", "elsewhere", "tap"}) {
    refuse_runs("run max-pool-grad --winners-in " + file + ".npy --dy dy.npy --x-shape 1,1,3,3" + kPooling,
                {{"", "which is no tap of its window, expected a tap or none"}});
    const std::string kind = file == "tap" ? "compact" : "flat";
    for (const std::string to : {"compact", "flat", "plane"}) {
      refuse_runs("run convert-winners --winners-in " + file + ".npy --x-shape 1,1,3,3 --winners-kind " + kind +
                      " --winners " + to + kPooling,
                  {{"", "which is no tap of its window, expected a tap or none"}});
    }
  }
}

TEST_F(CliErrorsTest, TheKindOfWinnersMustFitTheFile) {
  put<std::int8_t>("i1.npy", {1, 1, 2, 2}, {3, 2, 3, 3});
  put<std::uint16_t>("u2.npy", {1, 1, 2, 2}, {3, 2, 3, 3});
  put<std::int64_t>("small.npy", {1, 1, 2, 1}, {4, 7});
  const std::string line = "run max-pool-grad --dy dy.npy --x-shape 1,1,3,3" + kPooling;
  refuse_runs(line, {{"--winners-in flat.npy --winners-kind compact", "winners: data type is i64, expected u8"},
                     {"--winners-in compact.npy --winners-kind flat", "winners: data type is u8, expected one of"},
                     {"--winners-in u2.npy", "winners: data type is u16, expected u8"},
                     {"--winners-in i1.npy", "winners: data type is i8, expected one of"},
                     {"--winners-in dy.npy", "winners: data type is f32, expected one of"},
                     {"--winners-in small.npy", "winners: axis 3: size is 1, expected 2"},
                     {"--winners-in flat.npy --winners-kind plane", "compact|flat"}});
}

TEST_F(CliErrorsTest, U32WinnersOfAHugeWindowNeedTheirKind) {
  put<std::uint32_t>("w.npy", {1, 1, 1, 1}, {5});
  put<float>("one.npy", {1, 1, 1, 1}, {1});
  const std::string line = "run max-pool-grad --winners-in w.npy --dy one.npy";
  refuse_runs(line, {{"--x-shape 1,1,1,65536 --window 1,65536", "--winners-kind"},
                     {"--x-shape 1,1,257,256 --window 257,256", "--winners-kind"},
                     {"--x-shape 1,1,300,300 --window 300", "--winners-kind"}});  // one value for both axes
  succeed(line + " --x-shape 1,1,1,65535 --window 1,65535 --out flat_it_is.npy");
}

// ---- check ---------------------------------------------------------------------------------------------

TEST_F(CliErrorsTest, CheckRefusesNamesThatAreNone) {
  refuse_all({{"check nosuch", "'nosuch' is no named problem and no operator (backpass list problems, "},
              {"check tie_row nosuch", "'nosuch' is no named problem"},
              {"check max-pool nosuch", "'nosuch' is no named problem of max-pool (backpass list problems max-pool"},
              {"check tie_row max-pool", "'tie_row' stands before the operator"},
              {"check max-pool grad_tie_row", "'grad_tie_row' is no named problem of max-pool"},
              {"check max-pool-grad tie_row", "'tie_row' is no named problem of max-pool-grad"}});
}

// A problem that cannot be is bad input, not a difference.
TEST_F(CliErrorsTest, CheckRefusesProblemsThatTheOperatorForbids) {
  refuse_all({{"check relu --x-shape -3", "size is -3"},
              {"check relu --x-shape 3 --dtype u8", "data type is u8"},
              {"check relu --x-shape 3 --y-strides 0", "stride 0"},
              {"check max-pool-grad --x-shape 1,1,3 --window 9", "window"},
              {"check relu --x-shape 3 --implementation nosuch", "nosuch"},
              {"check --implementation nosuch", "nosuch"},
              {"check --implementation nosuch relu", "nosuch"},
              {"check relu --implementation nosuch", "nosuch"},
              {"check --random 3 relu --x-shape 3", "--random: makes its own problems"},
              {"check --first 3 relu", "--first: needs --random"},
              {"check resample --x-shape 6 --y-shape 3 --table 0=1:1", "table"}});
}

// ---- bench ---------------------------------------------------------------------------------------------

TEST_F(CliErrorsTest, BenchRefusesWhatItDoesNotHave) {
  refuse_all(
      {{"bench nosuch", "'nosuch' is no workload and no named problem (backpass list workloads, "},
       {"bench relu relu_grad", "'relu_grad' is no workload and no named problem of relu (backpass list "},
       {"bench --group nosuch", "--group: 'nosuch' has no workload, expected cpu, cuda, large, odd, network or all"},
       {"bench convert-winners", "--group: 'cpu' has no workload of convert-winners, expected cpu, cuda"},
       {"bench relu --dtype f99", "--dtype: 'f99' is no data type"},
       {"bench relu --dtype u8,u16", "--dtype: is u8,u16, which none of these workloads takes on cpu"},
       {"bench relu --layout nwhc", "--layout: is 'nwhc', expected nchw|nhwc|both"},
       {"bench relu --json nosuch/b.json", "nosuch/b.json: could not be written"},
       {"bench nosuch --json new.json --plot new.svg", "'nosuch' is no workload"}});
  for (const std::string seconds : {"-1", "3601", "nan", "inf"})
    refuse("bench relu --seconds " + seconds, "--seconds: is " + seconds + ", expected 0 to 3600");
  refuse("bench relu --seconds 1,2", "--seconds: '1,2' is not a number");
  refuse("bench relu --rounds 0", "--rounds: is 0, expected 1 to 100");
  refuse("bench relu --rounds 101", "--rounds: is 101, expected 1 to 100");
  refuse("bench --sizes --rounds 2", "--rounds: is for workloads, expected no table beside it");
  for (const std::string largest : {"0", "1023", "1099511627777"})
    refuse("bench --sizes --largest " + largest, "--largest: is " + largest + ", expected 1024 (1 KiB) to ");
  refuse("bench --sizes --largest -1", "--largest: '-1' is not a count below 2^64");
}

TEST_F(CliErrorsTest, BenchRefusesOptionsThatWouldBeIgnored) {
  for (const std::string options : {"--planes --strides", "--calls relu", "--sizes --group all", "--planes --dtype f16",
                                    "--limits --layout nchw"}) {
    refuse("bench " + options,
           "have their own problems, expected one of them and no name, --group, --dtype or --layout beside it");
  }
  refuse("bench pool_2x2_s2_compact --group cpu", "--group: chooses where no names do, expected one of the two");
  for (const std::string table : {"", "--calls ", "--limits "})
    refuse("bench " + table + "--largest 4096", "--largest: needs --sizes, --planes or --strides");
  for (const std::string option : {"--json", "--plot"})
    refuse("bench --limits " + option + " new", "--limits: has no rows to write");
  refuse("bench relu --json new --plot new", "new: is named for two outputs");
}

// ---- Environment ---------------------------------------------------------------------------------------

TEST_F(CliErrorsTest, AnImplementationThatIsNoneIsRefusedFromTheEnvironmentToo) {
  const Environment nonsense{{"BACKPASS_IMPL", "nonsense"}};
  refuse_all({{"run relu --x x.npy --out new.npy", "BACKPASS_IMPL"},
              {"explain relu --x-shape 3", "BACKPASS_IMPL"},
              {"run relu --x x.npy --out new.npy --implementation reference", "BACKPASS_IMPL"},
              {"check relu", "BACKPASS_IMPL"}},
             nonsense);
}

TEST_F(CliErrorsTest, AnInstructionSetThatIsNoneIsRefused) {
  refuse_all({{"list", "BACKPASS_MAX_ISA: is 'nonsense', expected one of "},
              {"run relu --x x.npy --out new.npy", "BACKPASS_MAX_ISA: is 'nonsense', expected one of "},
              {"explain relu --x-shape 3", "BACKPASS_MAX_ISA: is 'nonsense', expected one of "},
              {"check relu", "BACKPASS_MAX_ISA: is 'nonsense', expected one of "}},
             {{"BACKPASS_MAX_ISA", "nonsense"}});
}

// ---- Robustness ----------------------------------------------------------------------------------------

TEST_F(CliErrorsTest, WhatTheUserTypesNeverBreaksTheLine) {
  const std::string wild = "a\nb\r\x1b[31mc";
  refuse(Words{"run", "relu", "--x", wild, "--out", "new.npy"}, ": No such file");
  refuse(Words{"run", "relu", "--x", "x.npy", "--out", wild + "/o.npy"}, ": No such file");
  refuse(Words{"run", "relu", "--x", "x.npy", "--out", "new.npy", wild}, "");
  refuse(Words{"run", "relu", "--x", "x.npy", "--out", "new.npy", "--" + wild}, "");
  refuse(Words{"run", "relu", "--x", "x.npy", "--out", "new.npy", "--implementation", wild}, "");
  refuse(Words{"run", "slice", "--x", "x.npy", "--out", "new.npy", "--offsets", wild}, "--offsets");
  refuse(Words{"explain", "resample", "--x-shape", "3", "--y-shape", "3", "--mode", wild}, "--mode");
  refuse(Words{"check", wild}, "is no named problem");
  refuse(Words{wild}, "");
}

TEST_F(CliErrorsTest, AVeryLongArgumentIsNoProblem) {
  const std::string longest(100000, '1');
  refuse(Words{"explain", "relu", "--x-shape", longest}, "--x-shape");
  refuse(Words{"run", "relu", "--x", longest, "--out", "new.npy"}, "File name too long");
  std::string list = "1";
  for (int i = 0; i < 10000; ++i) list += ",1";
  refuse(Words{"explain", "relu", "--x-shape", list}, "rank is 10001");
}

// What the shell makes of a command with redirections.
int shell(const std::string& arguments) {
  const int status = std::system(("'" BACKPASS_CLI "' " + arguments).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(CliErrorsTest, AReportThatCannotBeWrittenIsAnError) {
  EXPECT_EQ(shell("list >/dev/full 2>/dev/null"), 2);
  EXPECT_EQ(shell("explain relu --x-shape 3 >/dev/full 2>/dev/null"), 2);
  EXPECT_EQ(shell("check one_element >/dev/full 2>/dev/null"), 2);
  EXPECT_EQ(shell("list >&- 2>/dev/null"), 2);
}

TEST_F(CliErrorsTest, AComplaintThatCannotBeWrittenIsNoCrash) {
  EXPECT_EQ(shell("run nosuch 2>/dev/full"), 2);
  EXPECT_EQ(shell("run nosuch 2>&-"), 2);
  EXPECT_EQ(shell("run relu --x nosuch.npy --out o.npy 2>/dev/full"), 2);
}

TEST_F(CliErrorsTest, VerboseLinesThatCannotBeWrittenChangeNothing) {
  EXPECT_EQ(std::system("BACKPASS_VERBOSE=1 '" BACKPASS_CLI "' check one_element >/dev/null 2>/dev/full"), 0);
}

}  // namespace
}  // namespace cli
