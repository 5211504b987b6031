// SPDX-License-Identifier: Apache-2.0
// `backpass run` when all goes well: exact results from files to files.
#include "cli_support.h"

#include <limits>

namespace cli {
namespace {

using Floats = Array<float>;
using Bits16 = Array<std::uint16_t>;
using Longs = Array<std::int64_t>;
using Bytes = Array<std::uint8_t>;

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// ---- The worked vectors ---------------------------------------------------------------------------

class RunTest : public CliTest {
 protected:
  // The input and parameters of the documented max pooling example.
  void put_documented_pooling() const {
    put<float>("x.npy", {1, 1, 3, 3}, {1, 2, 3, 2, 4, 2, 5, 6, 7});
    put<float>("dy.npy", {1, 1, 2, 2}, {1, 2, 4, 5});
  }
  void put_1_to_16() const { put("x.npy", {1, 1, 4, 4}, support::count_from<float>(1, 16)); }
  // One axis of values, and what a command makes of them.
  Floats run_on(const std::vector<float>& x, const std::string& command) const {
    put("x.npy", {static_cast<std::int64_t>(x.size())}, x);
    succeed("run " + command + " --x x.npy --out y.npy");
    return get<float>("y.npy");
  }
  // The same with N = C = 1 before it, for pooling.
  Floats pool_on(const std::vector<float>& x, const std::string& command) const {
    put("x.npy", {1, 1, static_cast<std::int64_t>(x.size())}, x);
    succeed("run max-pool --x x.npy --out y.npy " + command);
    return get<float>("y.npy");
  }
};

const std::string kDocumentedPooling = " --window 2,2 --strides 1,1";
const Floats kDocumentedGradient{{1, 1, 3, 3}, {0, 0, 0, 0, 3, 0, 0, 4, 5}};

TEST_F(RunTest, MaxPoolGivesTheDocumentedValues) {
  put_documented_pooling();
  EXPECT_EQ(succeed("run max-pool --x x.npy --out y.npy" + kDocumentedPooling), "");
  EXPECT_EQ(get<float>("y.npy"), (Floats{{1, 1, 2, 2}, {4, 4, 6, 7}}));
  EXPECT_EQ(snapshot().size(), 3U);  // x, dy and y: no temporary file stays
}

TEST_F(RunTest, MaxPoolStoresFlatAndCompactWinners) {
  put_documented_pooling();
  const std::string line = "run max-pool --x x.npy --out y.npy --winners-out w.npy" + kDocumentedPooling;
  succeed(line + " --winners flat");
  EXPECT_EQ(get<std::int64_t>("w.npy"), (Longs{{1, 1, 2, 2}, {4, 4, 7, 8}}));
  succeed(line + " --winners flat --winners-dtype u32");
  EXPECT_EQ(get<std::uint32_t>("w.npy"), (Array<std::uint32_t>{{1, 1, 2, 2}, {4, 4, 7, 8}}));
  succeed(line + " --winners flat --winners-dtype u64");
  EXPECT_EQ(get<std::uint64_t>("w.npy"), (Array<std::uint64_t>{{1, 1, 2, 2}, {4, 4, 7, 8}}));
  succeed(line + " --winners flat --winners-dtype i32");
  EXPECT_EQ(get<std::int32_t>("w.npy"), (Array<std::int32_t>{{1, 1, 2, 2}, {4, 4, 7, 8}}));
  succeed(line + " --winners compact");
  EXPECT_EQ(get<std::uint8_t>("w.npy"), (Bytes{{1, 1, 2, 2}, {3, 2, 3, 3}}));
  put<float>("w.npy", {1}, {0});
  succeed(line);  // compact unless said otherwise
  EXPECT_EQ(get<std::uint8_t>("w.npy"), (Bytes{{1, 1, 2, 2}, {3, 2, 3, 3}}));
}

TEST_F(RunTest, MaxPoolGradGivesTheDocumentedGradientFromXAndFromStoredWinners) {
  put_documented_pooling();
  succeed("run max-pool-grad --x x.npy --dy dy.npy --out dx.npy" + kDocumentedPooling);
  EXPECT_EQ(get<float>("dx.npy"), kDocumentedGradient);

  const std::string stored =
      "run max-pool-grad --winners-in w.npy --dy dy.npy --x-shape 1,1,3,3 --out dw.npy" + kDocumentedPooling;
  for (const std::string& winners : Words{"--winners compact", "--winners flat", "--winners flat --winners-dtype u32",
                                          "--winners flat --winners-dtype u64", "--winners flat --winners-dtype i32"}) {
    put<float>("dw.npy", {1}, {0});
    succeed("run max-pool --x x.npy --out y.npy --winners-out w.npy " + winners + kDocumentedPooling);
    succeed(stored);  // the file's type tells which kind it is
    EXPECT_EQ(get<float>("dw.npy"), kDocumentedGradient) << winners;
  }
}

TEST_F(RunTest, XShapeMayRepeatWhatXSays) {
  put_documented_pooling();
  succeed("run max-pool-grad --x x.npy --x-shape 1,1,3,3 --dy dy.npy --out dx.npy" + kDocumentedPooling);
  EXPECT_EQ(get<float>("dx.npy"), kDocumentedGradient);
}

TEST_F(RunTest, MaxPoolGradOfAPaddedCheckerboardGivesTheKnownGradient) {
  put<float>("x.npy", {1, 1, 4, 4}, {1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1});
  put("dy.npy", {1, 1, 4, 4}, support::count_from<float>(11, 16));
  succeed(
      "run max-pool-grad --x x.npy --dy dy.npy --out dx.npy --window 3 --strides 1 --start-padding 1 --end-padding 1");
  EXPECT_EQ(get<float>("dx.npy"), (Floats{{1, 1, 4, 4}, {54, 0, 62, 0, 0, 60, 0, 22, 47, 0, 51, 0, 0, 0, 0, 0}}));
}

TEST_F(RunTest, ConvertWinnersGivesEveryFormFromEveryOther) {
  // Two planes, so that flat and plane indices differ; the last window of each has no winner.
  put<std::uint8_t>("compact.npy", {1, 2, 2}, {1, 255, 0, 255});
  put<std::int64_t>("flat.npy", {1, 2, 2}, {1, -1, 3, -1});
  put<std::int64_t>("plane.npy", {1, 2, 2}, {1, -1, 0, -1});
  const std::string parameters = " --x-shape 1,2,3 --window 2 --strides 3 --end-padding 2 --out o.npy";
  for (const std::string from : {"compact", "flat", "plane"}) {
    const std::string line = "run convert-winners --winners-in " + from + ".npy --winners-kind " + from + parameters;
    succeed(line + " --winners compact");
    EXPECT_EQ(get<std::uint8_t>("o.npy"), (Bytes{{1, 2, 2}, {1, 255, 0, 255}})) << from;
    succeed(line + " --winners flat");
    EXPECT_EQ(get<std::int64_t>("o.npy"), (Longs{{1, 2, 2}, {1, -1, 3, -1}})) << from;
    succeed(line + " --winners plane --winners-dtype u32");
    EXPECT_EQ(get<std::uint32_t>("o.npy"), (Array<std::uint32_t>{{1, 2, 2}, {1, 0xffffffff, 0, 0xffffffff}})) << from;
  }
}

TEST_F(RunTest, SliceGivesTheDocumentedWindows) {
  put_1_to_16();
  succeed("run slice --x x.npy --out y.npy --offsets 0,0,1,2 --sizes 1,1,3,2 --strides 1,1,1,1");
  EXPECT_EQ(get<float>("y.npy"), (Floats{{1, 1, 3, 2}, {7, 8, 11, 12, 15, 16}}));
  succeed("run slice --x x.npy --out y.npy --offsets 0,0,0,1 --sizes 1,1,4,3 --strides 1,1,2,2 --y-shape 1,1,2,2");
  EXPECT_EQ(get<float>("y.npy"), (Floats{{1, 1, 2, 2}, {2, 4, 10, 12}}));
  succeed("run slice --x x.npy --out y.npy --offsets 0,0,0,1 --sizes 1,1,4,3 --strides 1,1,-2,2");
  EXPECT_EQ(get<float>("y.npy"), (Floats{{1, 1, 2, 2}, {14, 16, 6, 8}}));
}

TEST_F(RunTest, SliceGradPutsTheGradientWhereTheSliceCameFrom) {
  put<float>("dy.npy", {1, 1, 2, 2}, {1, 2, 3, 4});
  const std::string line = "run slice-grad --dy dy.npy --x-shape 1,1,4,4 --out dx.npy";
  for (const std::string size : {"3", "4"}) {
    succeed(line + " --sizes 1,1," + size + "," + size + " --strides 1,1,2,2");
    EXPECT_EQ(get<float>("dx.npy"), (Floats{{1, 1, 4, 4}, {1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0}})) << size;
  }
  succeed(line + " --offsets 0,0,0,1 --sizes 1,1,4,3 --strides 1,1,2,2");
  EXPECT_EQ(get<float>("dx.npy"), (Floats{{1, 1, 4, 4}, {0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0}}));
  succeed(line + " --offsets 0,0,0,1 --sizes 1,1,4,3 --strides 1,1,-2,2");
  EXPECT_EQ(get<float>("dx.npy"), (Floats{{1, 1, 4, 4}, {0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 1, 0, 2}}));
}

const Words kDocumentedNearest{
    "--mode nearest --rounding decreasing --scales 1,1,0.5,1.5",
    "--mode nearest --rounding decreasing --scales 1,1,0.5,1.5 --input-offsets 0.5 --output-offsets -0.5",
    "--mode nearest --rounding decreasing --scales 1,1,0.5,1.5 --convention asymmetric",
    "--mode nearest --rounding half-up --scales 1,1,0.5,1.5 --input-offsets 0.5 --output-offsets 0",
    "--mode nearest --scales 1,1,0.5,1.5 --output-offsets 0",
};

TEST_F(RunTest, NearestResampleGivesTheDocumentedValues) {
  put<float>("x.npy", {1, 1, 2, 2}, {1, 2, 3, 4});
  for (const std::string& parameters : kDocumentedNearest) {
    succeed("run resample --x x.npy --out y.npy " + parameters);
    EXPECT_EQ(get<float>("y.npy"), (Floats{{1, 1, 1, 3}, {1, 1, 2}})) << parameters;
  }
}

TEST_F(RunTest, NearestResampleGradGivesTheDocumentedGradient) {
  put<float>("dy.npy", {1, 1, 1, 3}, {4, 5, 6});
  for (const std::string& parameters : kDocumentedNearest) {
    succeed("run resample-grad --dy dy.npy --x-shape 1,1,2,2 --out dx.npy " + parameters);
    EXPECT_EQ(get<float>("dx.npy"), (Floats{{1, 1, 2, 2}, {9, 6, 0, 0}})) << parameters;
  }
}

TEST_F(RunTest, LinearResampleByTwoGivesTheKnownValues) {
  put<float>("x.npy", {1, 1, 2, 2}, {1, 2, 3, 4});
  for (const std::string size :
       {"--scales 1,1,2,2", "--y-shape 1,1,4,4", "--scales 1,1,2,2 --input-offsets 0.5 --output-offsets -0.5"}) {
    succeed("run resample --x x.npy --out y.npy " + size);
    EXPECT_EQ(get<float>("y.npy"),
              (Floats{{1, 1, 4, 4}, {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}}))
        << size;
  }
}

TEST_F(RunTest, LinearResampleGradReadsTheOffsetsAsTheForwardOperatorDoes) {
  put<float>("dy.npy", {4}, {1, 2, 3, 4});
  const std::string line = "run resample-grad --dy dy.npy --x-shape 2 --out dx.npy --scales 2";
  succeed(line + " --input-offsets 0.5 --output-offsets -0.5");
  EXPECT_EQ(get<float>("dx.npy"), (Floats{{2}, {3.25, 6.75}}));
  succeed(line + " --input-offsets -0.5 --output-offsets 0.5");
  EXPECT_EQ(get<float>("dx.npy"), (Floats{{2}, {1.25, 8.75}}));
}

TEST_F(RunTest, ResampleTakesTablesForItsAxes) {
  put<float>("x.npy", {2, 4}, {1, 2, 3, 4, 10, 20, 30, 40});
  succeed("run resample --x x.npy --out y.npy --y-shape 1,3 --table 1=2:0.25:0.75,0:1:-1:0.5,4 --table 0=0:1:1");
  EXPECT_EQ(get<float>("y.npy"), (Floats{{1, 3}, {41.25, 5.5, 0}}));
  put<float>("dy.npy", {1, 3}, {4, 2, 9});
  succeed(
      "run resample-grad --dy dy.npy --x-shape 2,4 --out dx.npy --table 1=2:0.25:0.75,0:1:-1:0.5,4 --table 0=0:1:1");
  EXPECT_EQ(get<float>("dx.npy"), (Floats{{2, 4}, {2, -2, 2, 3, 2, -2, 2, 3}}));
}

TEST_F(RunTest, ReluKeepsPositiveValuesAndNaN) {
  EXPECT_EQ(run_on({-1, -0.0F, 0, 2, kNaN}, "relu"), (Floats{{5}, {0, 0, 0, 2, kNaN}}));
}

TEST_F(RunTest, ReluGradTreatsNaNAsAsked) {
  put<float>("x.npy", {2, 2}, {kNaN, 1, -1, 0});
  put<float>("dy.npy", {2, 2}, {5, 6, 7, 8});
  const std::string line = "run relu-grad --x x.npy --dy dy.npy --out dx.npy";
  const Floats zero{{2, 2}, {0, 6, 0, 0}};
  succeed(line);
  EXPECT_EQ(get<float>("dx.npy"), zero);
  succeed(line + " --nan zero");
  EXPECT_EQ(get<float>("dx.npy"), zero);
  succeed(line + " --nan pass");
  EXPECT_EQ(get<float>("dx.npy"), (Floats{{2, 2}, {5, 6, 0, 0}}));
}

// ---- Defaults and spellings -----------------------------------------------------------------------

TEST_F(RunTest, PoolingStridesDefaultToTheWindow) {
  EXPECT_EQ(pool_on({1, 2, 3, 4, 5, 6, 7}, "--window 3"), (Floats{{1, 1, 2}, {3, 6}}));
  put_1_to_16();
  succeed("run max-pool --x x.npy --out y.npy --window 1,3");
  EXPECT_EQ(get<float>("y.npy"), (Floats{{1, 1, 4, 1}, {3, 7, 11, 15}}));
  put<float>("dy.npy", {1, 1, 2, 2}, {1, 2, 3, 4});
  succeed("run max-pool-grad --x x.npy --dy dy.npy --out dx.npy --window 2");
  EXPECT_EQ(get<float>("dx.npy"), (Floats{{1, 1, 4, 4}, {0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4}}));
}

TEST_F(RunTest, SliceDefaultsAreFromTheStartToTheEndByOne) {
  EXPECT_EQ(run_on({1, 2, 3, 4, 5}, "slice"), (Floats{{5}, {1, 2, 3, 4, 5}}));
  EXPECT_EQ(run_on({1, 2, 3, 4, 5}, "slice --offsets 3"), (Floats{{2}, {4, 5}}));
  EXPECT_EQ(run_on({1, 2, 3, 4, 5}, "slice --sizes 2"), (Floats{{2}, {1, 2}}));
  EXPECT_EQ(run_on({1, 2, 3, 4, 5}, "slice --strides 2"), (Floats{{3}, {1, 3, 5}}));
  EXPECT_EQ(run_on({1, 2, 3, 4, 5}, "slice --strides 2 --y-shape 2"), (Floats{{2}, {1, 3}}));
}

TEST_F(RunTest, OneValueStandsForEveryAxis) {
  put_1_to_16();
  for (const std::string line : {"--window 3 --strides 1", "--window 3,3 --strides 1,1", "--window=3 --strides=1"}) {
    succeed("run max-pool --x x.npy --out y.npy " + line);
    EXPECT_EQ(get<float>("y.npy"), (Floats{{1, 1, 2, 2}, {11, 12, 15, 16}})) << line;
  }
  succeed("run max-pool --x x.npy --out y.npy --window 2 --strides 3 --start-padding 1 --end-padding 1 --dilations 2");
  EXPECT_EQ(get<float>("y.npy"), (Floats{{1, 1, 2, 2}, {6, 7, 10, 11}}));
}

TEST_F(RunTest, NegativeListsAreValuesAndNotOptions) {
  put<float>("x.npy", {2, 3}, {1, 2, 3, 4, 5, 6});
  for (const std::string strides : {"--strides -1,2", "--strides=-1,2", "--strides -1,+2"}) {
    succeed("run slice --x x.npy --out y.npy " + strides);
    EXPECT_EQ(get<float>("y.npy"), (Floats{{2, 2}, {4, 6, 1, 3}})) << strides;
  }
  for (const std::string strides : {"--strides -1", "--strides=-1", "--strides -1,-1"}) {
    succeed("run slice --x x.npy --out y.npy " + strides);
    EXPECT_EQ(get<float>("y.npy"), (Floats{{2, 3}, {6, 5, 4, 3, 2, 1}})) << strides;
  }
  EXPECT_EQ(run_on({1, 2, 3}, "resample --mode nearest --scales 1 --input-offsets -1 --output-offsets 0"),
            (Floats{{3}, {2, 3, 3}}));
}

TEST_F(RunTest, CeilModeIsPyTorchs) {
  EXPECT_EQ(pool_on({1, 2, 3, 4, 5}, "--window 2"), (Floats{{1, 1, 2}, {2, 4}}));
  EXPECT_EQ(pool_on({1, 2, 3, 4, 5}, "--window 2 --ceil-mode"), (Floats{{1, 1, 3}, {2, 4, 5}}));
  // A third window would start at 6 - 1 = 5, in the end padding: dropped.
  const std::string padded = "--window 2 --strides 3 --start-padding 1 --end-padding 1";
  EXPECT_EQ(pool_on({1, 2, 3, 4, 5}, padded), (Floats{{1, 1, 2}, {1, 4}}));
  EXPECT_EQ(pool_on({1, 2, 3, 4, 5}, padded + " --ceil-mode"), (Floats{{1, 1, 2}, {1, 4}}));
  EXPECT_EQ(pool_on({1, 2, 3, 4, 5, 6, 7}, padded + " --ceil-mode"), (Floats{{1, 1, 3}, {1, 4, 7}}));
}

TEST_F(RunTest, YShapeDecidesTheOutputSize) {
  EXPECT_EQ(pool_on({1, 2, 3, 4, 5}, "--window 2 --y-shape 1,1,1"), (Floats{{1, 1, 1}, {2}}));
  EXPECT_EQ(pool_on({1, 2, 3, 4, 5}, "--window 2 --y-shape 1,1,3"), (Floats{{1, 1, 3}, {2, 4, 5}}));
  // The window that --ceil-mode drops may be asked for: it has no element, hence the lowest value.
  EXPECT_EQ(pool_on({1, 2, 3, 4, 5}, "--window 2 --strides 3 --start-padding 1 --end-padding 1 --y-shape 1,1,3"),
            (Floats{{1, 1, 3}, {1, 4, kLowest}}));
}

TEST_F(RunTest, ResampleSizesAreTheFloorOfSizeTimesScale) {
  EXPECT_EQ(run_on({1, 2, 3, 4, 5}, "resample --mode nearest --scales 1.5").sizes, (Ints{7}));
  EXPECT_EQ(run_on({1, 2, 3, 4, 5}, "resample --mode nearest --scales 0.5").sizes, (Ints{2}));
  EXPECT_EQ(run_on({1, 2, 3, 4, 5}, "resample --mode nearest --scales 0.2").sizes, (Ints{1}));
  EXPECT_EQ(run_on({1, 2, 3, 4, 5},
                   "resample --mode nearest --scales 2 --y-shape 3 --convention asymmetric --rounding decreasing"),
            (Floats{{3}, {1, 1, 2}}));
}

TEST_F(RunTest, EachConventionHasItsOwnCoordinates) {
  EXPECT_EQ(run_on({1, 2}, "resample --y-shape 4"), (Floats{{4}, {1, 1.25, 1.75, 2}}));
  EXPECT_EQ(run_on({1, 2}, "resample --y-shape 4 --convention half-pixel"), (Floats{{4}, {1, 1.25, 1.75, 2}}));
  EXPECT_EQ(run_on({0, 10, 20}, "resample --y-shape 5 --convention align-corners"), (Floats{{5}, {0, 5, 10, 15, 20}}));
  EXPECT_EQ(run_on({0, 10}, "resample --y-shape 4 --convention asymmetric"), (Floats{{4}, {0, 5, 10, 10}}));
  EXPECT_EQ(run_on({0, 10}, "resample --scales 2 --convention align-corners"), (Floats{{4}, {0, 5, 10, 10}}));
}

TEST_F(RunTest, NearestRoundsAsAsked) {
  // Coordinates 1/6, 3/2, 17/6.
  EXPECT_EQ(run_on({0, 1, 2, 3}, "resample --y-shape 3 --mode nearest"), (Floats{{3}, {0, 2, 3}}));
  EXPECT_EQ(run_on({0, 1, 2, 3}, "resample --y-shape 3 --mode nearest --rounding half-up"), (Floats{{3}, {0, 2, 3}}));
  EXPECT_EQ(run_on({0, 1, 2, 3}, "resample --y-shape 3 --mode nearest --rounding decreasing"),
            (Floats{{3}, {0, 1, 2}}));
  EXPECT_EQ(run_on({0, 1, 2, 3}, "resample --y-shape 3 --mode nearest --rounding increasing"),
            (Floats{{3}, {1, 2, 3}}));
}

TEST_F(RunTest, ThreadsAndImplementationChangeNoBit) {
  put_documented_pooling();
  for (const std::string choice :
       {"--threads 1", "--threads 2", "--threads 0", "--implementation reference", "--device cpu"}) {
    succeed("run max-pool-grad --x x.npy --dy dy.npy --out dx.npy " + choice + kDocumentedPooling);
    EXPECT_EQ(get<float>("dx.npy"), kDocumentedGradient) << choice;
  }
}

TEST_F(RunTest, EmptyTensorsAreTensors) {
  put<float>("x.npy", {3, 0}, {});
  succeed("run relu --x x.npy --out y.npy");
  EXPECT_EQ(get<float>("y.npy"), (Floats{{3, 0}, {}}));
  succeed("run resample-grad --dy x.npy --x-shape 3,2 --out dx.npy");
  EXPECT_EQ(get<float>("dx.npy"), (Floats{{3, 2}, {0, 0, 0, 0, 0, 0}}));
}

// ---- Types ----------------------------------------------------------------------------------------

TEST_F(RunTest, Bf16IsWrittenAsItWasRead) {
  const std::vector<std::uint16_t> x{0x3f80, 0xbf80, 0x7fc1, 0x0001};  // 1, -1, NaN, the smallest subnormal
  const Bits16 expected{{4}, {0x3f80, 0, 0x7fc1, 0x0001}};
  for (const std::string descr : {"<u2", "|V2", "<V2", "=V2", "V2"}) {
    put_text("x.npy", npy_file(descr, "(4,)", little_endian(x)));
    succeed("run relu --x x.npy --dtype bf16 --out y.npy");
    EXPECT_EQ(get<std::uint16_t>("y.npy", BP_BF16), expected) << descr;
    const std::string spelling = descr.ends_with("V2") ? "V2'" : "u2'";
    EXPECT_NE(content("y.npy").find(spelling), std::string::npos) << descr;
  }
  put_text("x.npy", npy_file(">u2", "(4,)", big_endian(x)));
  succeed("run relu --x x.npy --dtype bf16 --out y.npy");
  EXPECT_EQ(get<std::uint16_t>("y.npy", BP_BF16), expected);
}

TEST_F(RunTest, Bf16ReachesTheGradientsAndTheirWinners) {
  // 1 + 2^-7 is a bf16, its sum with 1 needs one bit more: to nearest even.
  put<std::uint16_t>("x.npy", BP_BF16, {1, 1, 3}, {0x3f80, 0x4000, 0x3f80}, true);
  put<std::uint16_t>("dy.npy", BP_BF16, {1, 1, 2}, {0x3f81, 0x3f80}, true);
  succeed("run max-pool --dtype bf16 --x x.npy --out y.npy --winners-out w.npy --window 2 --strides 1");
  EXPECT_EQ(get<std::uint16_t>("y.npy", BP_BF16), (Bits16{{1, 1, 2}, {0x4000, 0x4000}}));
  EXPECT_EQ(get<std::uint8_t>("w.npy"), (Bytes{{1, 1, 2}, {1, 0}}));
  succeed(
      "run max-pool-grad --dtype bf16 --winners-in w.npy --x-shape 1,1,3 --dy dy.npy --out dx.npy --window 2 --strides "
      "1");
  EXPECT_EQ(get<std::uint16_t>("dx.npy", BP_BF16), (Bits16{{1, 1, 3}, {0, 0x4000, 0}}));
  EXPECT_NE(content("dx.npy").find("V2'"), std::string::npos);
}

TEST_F(RunTest, WithoutDtypeU2IsAnInteger) {
  put<std::uint16_t>("x.npy", {1, 1, 2}, {0xbf80, 0x3f80});  // as bf16 the second would be greater
  succeed("run max-pool --x x.npy --out y.npy --window 2");
  EXPECT_EQ(get<std::uint16_t>("y.npy"), (Bits16{{1, 1, 1}, {0xbf80}}));
}

TEST_F(RunTest, F16IsRoundedOnceAtTheEnd) {
  // 1 + 2^-10 and 2^-11 twice: exact in the accumulator.
  put<std::uint16_t>("dy.npy", BP_F16, {1, 1, 3}, {0x3c01, 0x1000, 0x1000});
  put<std::uint16_t>("x.npy", BP_F16, {1, 1, 3}, {0, 0x3c00, 0});
  succeed(
      "run max-pool-grad --x x.npy --dy dy.npy --out dx.npy --window 3 --strides 1 --start-padding 1 --end-padding 1");
  EXPECT_EQ(get<std::uint16_t>("dx.npy", BP_F16), (Bits16{{1, 1, 3}, {0, 0x3c02, 0}}));
}

TEST_F(RunTest, IntegersKeepEveryBit) {
  put<std::int8_t>("i1.npy", {4}, {-128, -1, 0, 127});
  succeed("run relu --x i1.npy --out o.npy");
  EXPECT_EQ(get<std::int8_t>("o.npy"), (Array<std::int8_t>{{4}, {0, 0, 0, 127}}));
  put<std::int16_t>("i2.npy", {3}, {-32768, 32767, 5});
  succeed("run slice --x i2.npy --out o.npy --strides -1");
  EXPECT_EQ(get<std::int16_t>("o.npy"), (Array<std::int16_t>{{3}, {5, 32767, -32768}}));
  put<std::int64_t>("i8.npy", {1, 1, 2}, {-9007199254740993, -9007199254740992});
  succeed("run max-pool --x i8.npy --out o.npy --window 2");
  EXPECT_EQ(get<std::int64_t>("o.npy"), (Longs{{1, 1, 1}, {-9007199254740992}}));
  put<std::uint64_t>("u8.npy", {1, 1, 2}, {0x8000000000000000, 0x8000000000000001});
  succeed("run max-pool --x u8.npy --out o.npy --window 2");
  EXPECT_EQ(get<std::uint64_t>("o.npy"), (Array<std::uint64_t>{{1, 1, 1}, {0x8000000000000001}}));
  put<std::uint8_t>("u1.npy", {2}, {0, 255});
  succeed("run resample --x u1.npy --out o.npy --y-shape 4");
  EXPECT_EQ(get<std::uint8_t>("o.npy"), (Bytes{{4}, {0, 64, 191, 255}}));
}

TEST_F(RunTest, DtypeMayRepeatWhatTheFileSays) {
  put<double>("x.npy", {2}, {-1, 1});
  succeed("run relu --x x.npy --out y.npy --dtype f64");
  EXPECT_EQ(get<double>("y.npy"), (Array<double>{{2}, {0, 1}}));
}

// ---- Files of others ------------------------------------------------------------------------------

TEST_F(RunTest, EveryHeaderVersionIsRead) {
  for (const int version : {1, 2, 3}) {
    put_text("x.npy", npy_file("<f4", "(3,)", little_endian<float>({-1, 2, 3}), version));
    succeed("run relu --x x.npy --out y.npy");
    EXPECT_EQ(get<float>("y.npy"), (Floats{{3}, {0, 2, 3}})) << version;
  }
}

TEST_F(RunTest, BigEndianFilesAreRead) {
  put_text("x.npy", npy_file(">f4", "(1, 1, 3, 3)", big_endian<float>({1, 2, 3, 2, 4, 2, 5, 6, 7})));
  put_text("dy.npy", npy_file(">f4", "(1, 1, 2, 2)", big_endian<float>({1, 2, 4, 5})));
  put_text("w.npy", npy_file(">i8", "(1, 1, 2, 2)", big_endian<std::int64_t>({4, 4, 7, 8})));
  succeed("run max-pool-grad --x x.npy --dy dy.npy --out dx.npy" + kDocumentedPooling);
  EXPECT_EQ(get<float>("dx.npy"), kDocumentedGradient);
  succeed("run max-pool-grad --winners-in w.npy --x-shape 1,1,3,3 --dy dy.npy --out dw.npy" + kDocumentedPooling);
  EXPECT_EQ(get<float>("dw.npy"), kDocumentedGradient);
}

TEST_F(RunTest, FortranOrderIsTheSameTensor) {
  put_text("x.npy", npy_file("<f4", "(1, 1, 3, 3)", little_endian<float>({1, 2, 5, 2, 4, 6, 3, 2, 7}), 1, "True"));
  put_text("dy.npy", npy_file(">f4", "(1, 1, 2, 2)", big_endian<float>({1, 4, 2, 5}), 2, "True"));
  put_text("w.npy", npy_file("|u1", "(1, 1, 2, 2)", "\3\3\2\3", 3, "True"));
  succeed("run max-pool-grad --x x.npy --dy dy.npy --out dx.npy" + kDocumentedPooling);
  EXPECT_EQ(get<float>("dx.npy"), kDocumentedGradient);
  succeed("run max-pool-grad --winners-in w.npy --x-shape 1,1,3,3 --dy dy.npy --out dw.npy" + kDocumentedPooling);
  EXPECT_EQ(get<float>("dw.npy"), kDocumentedGradient);
}

TEST_F(RunTest, StandardInputAndOutputAreFiles) {
  put<float>("x.npy", {3}, {-1, 2, 3});
  succeed("run relu --x x.npy --out y.npy");
  const Outcome piped = outcome("run relu --x /dev/stdin --out /dev/stdout", {}, content("x.npy"));
  EXPECT_EQ(piped.exit_code, 0) << piped;
  EXPECT_EQ(piped.err, "");
  EXPECT_EQ(piped.out, content("y.npy"));
}

TEST_F(RunTest, AStreamMayBeLargerThanAPipeHolds) {
  const std::vector<float> x = support::count_from<float>(1, 1 << 20);
  put("x.npy", {1 << 20}, x);
  const Outcome piped = outcome("run relu --x /dev/stdin --out /dev/stdout", {}, content("x.npy"));
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_TRUE(piped.out == content("x.npy"));
}

TEST_F(RunTest, AnOutputMayReplaceAnInput) {
  put<float>("x.npy", {3}, {-1, 2, 3});
  succeed("run relu --x x.npy --out x.npy");
  EXPECT_EQ(get<float>("x.npy"), (Floats{{3}, {0, 2, 3}}));
  EXPECT_EQ(snapshot().size(), 1U);
}

// ---- Kinds of winners -----------------------------------------------------------------------------

TEST_F(RunTest, AWindowOfMoreThan255TapsHasU16Winners) {
  std::vector<float> x(256);
  x[200] = 1;
  put("x.npy", {1, 1, 16, 16}, x);
  put<float>("dy.npy", {1, 1, 1, 1}, {3});
  succeed("run max-pool --x x.npy --out y.npy --winners-out w.npy --window 16");
  EXPECT_EQ(get<std::uint16_t>("w.npy"), (Bits16{{1, 1, 1, 1}, {200}}));
  succeed("run max-pool-grad --winners-in w.npy --x-shape 1,1,16,16 --dy dy.npy --out dx.npy --window 16");
  std::vector<float> expected(256);
  expected[200] = 3;
  EXPECT_EQ(get<float>("dx.npy"), (Floats{{1, 1, 16, 16}, expected}));
}

TEST_F(RunTest, U32WinnersOfAHugeWindowAreWhatWinnersKindSays) {
  constexpr std::int64_t kTaps = 65536;  // one more than u16 can number
  put<float>("dy.npy", {1, 1, 2, 1}, {3, 4});
  put<std::uint32_t>("compact.npy", {1, 1, 2, 1}, {5, 7});
  put<std::uint32_t>("flat.npy", {1, 1, 2, 1}, {5, kTaps + 7});
  Floats expected{{1, 1, 2, kTaps}, std::vector<float>(2 * kTaps)};
  expected.values[5] = 3;
  expected.values[kTaps + 7] = 4;
  for (const std::string kind : {"compact", "flat"}) {
    succeed("run max-pool-grad --winners-in " + kind + ".npy --winners-kind " + kind +
            " --x-shape 1,1,2,65536 --dy dy.npy --out dx.npy --window 1,65536");
    EXPECT_TRUE(get<float>("dx.npy") == expected) << kind;
    std::filesystem::remove(path("dx.npy"));
  }
}

}  // namespace
}  // namespace cli
