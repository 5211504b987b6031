// SPDX-License-Identifier: Apache-2.0
// The commands that print: list, explain, check, help; and the environment that they heed.
#include "check.h"
#include "cli_support.h"

#include <algorithm>
#include <set>

namespace cli {
namespace {

// The line that begins with these words, each parted by spaces; empty if there is none.
Words row_of(const std::string& table, const Words& first) {
  for (const std::string& line : lines(table)) {
    Words row = words(line);
    if (row.size() >= first.size() && std::equal(first.begin(), first.end(), row.begin())) return row;
  }
  return {};
}

// "bytes: 96" -> "96".
std::string value_of(const std::string& text, const std::string& key) {
  for (const std::string& line : lines(text)) {
    if (line.starts_with(key + ": ")) return line.substr(key.size() + 2);
  }
  ADD_FAILURE() << "no line '" << key << ": ...' in\n" << text;
  return "";
}

// ---- list, --version, --help ---------------------------------------------------------------------------

TEST_F(CliTest, ListNamesEveryOperatorWithItsTypesAndImplementations) {
  const std::string out = succeed("list");
  const std::map<std::string, std::string> types{
      {"relu", "f64 f32 f16 bf16 i64 i32 i16 i8"},
      {"relu-grad", "f64 f32 f16 bf16 i64 i32 i16 i8"},
      {"max-pool", "f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8"},
      {"max-pool-grad", "f64 f32 f16 bf16"},
      {"resample", "f64 f32 f16 bf16 i8 u8"},
      {"resample-grad", "f64 f32 f16 bf16"},
      {"slice", "f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8"},
      {"slice-grad", "f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8"},
      {"convert-winners", "i64 i32 u64 u32 u16 u8"},
  };
  ASSERT_EQ(types.size(), kOperators.size());
  for (const auto& [op, expected] : types) {
    Words start{op, "cpu"};
    for (const std::string& type : words(expected)) start.push_back(type);
    const Words row = row_of(out, start);
    ASSERT_GT(row.size(), start.size()) << op << "\n" << out;
    EXPECT_EQ(row.back(), "reference") << op;  // the last resort of every operator
    for (const std::string& name : words("f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8")) {
      const std::ptrdiff_t listed = std::ranges::count(row, name);
      EXPECT_EQ(listed, std::ranges::count(words(expected), name)) << op << " " << name;
    }
  }
}

TEST_F(CliTest, ListNamesTheDevicesAndInstructionSets) {
  const std::string out = succeed("list");
  EXPECT_TRUE(value_of(out, "devices").starts_with("cpu 1, cuda ")) << out;
  EXPECT_EQ(value_of(out, "instruction sets"), bp_cpu_instruction_sets());
}

TEST_F(CliTest, VersionIsTheLibrarys) {
  EXPECT_EQ(succeed("--version"), "backpass " + std::to_string(BP_VERSION_MAJOR) + "." +
                                      std::to_string(BP_VERSION_MINOR) + "." + std::to_string(BP_VERSION_PATCH) + "\n");
}

TEST_F(CliTest, HelpNamesTheCommands) {
  for (const std::string option : {"--help", "-h"}) {
    const std::string out = succeed(option);
    for (const std::string command : {"list", "run", "check", "explain", "bench"}) {
      EXPECT_FALSE(row_of(out, {command}).empty()) << command << "\n" << out;
    }
  }
}

TEST_F(CliTest, HelpTellsTheEnvironmentAndTheExitCodesOnce) {
  const std::string out = succeed("--help");
  for (const std::string word : {"BACKPASS_IMPL", "BACKPASS_MAX_ISA", "BACKPASS_PART_BYTES", "BACKPASS_CACHE_BYTES",
                                 "BACKPASS_VERBOSE", "Exit codes: 0"}) {
    EXPECT_NE(out.find(word), std::string::npos) << word << "\n" << out;
  }
  EXPECT_EQ(succeed("check --help").find("BACKPASS_IMPL"), std::string::npos);
}

TEST_F(CliTest, ListGivesTheNamedProblemsAsCheckTakesThem) {
  const Words all = lines(succeed("list problems"));
  ASSERT_EQ(all.size(), tools::named_problems().size());
  const Words slices = lines(succeed("list problems slice relu"));
  const auto is_listed = [](const tools::Problem& p) { return p.kind == BP_SLICE || p.kind == BP_RELU; };
  ASSERT_EQ(static_cast<std::int64_t>(slices.size()), std::ranges::count_if(tools::named_problems(), is_listed));
  const std::string& first = slices.front();  // "name: op --options"
  const std::string name = first.substr(0, first.find(':'));
  const std::string problem = first.substr(first.find(':') + 2);
  EXPECT_EQ(succeed("check " + words(problem).at(0) + " " + name), succeed("check " + problem));
}

TEST_F(CliTest, ListGivesTheWorkloadsByGroup) {
  const Words all = lines(succeed("list workloads"));
  for (const std::string group : {"[cpu]", "[cuda]", "[network]"})
    EXPECT_EQ(std::ranges::count(all, group), 1) << group;
  int of_the_operator = 0;
  for (const std::string& line : lines(succeed("list workloads resample-grad"))) {
    if (line.starts_with("[")) continue;
    EXPECT_NE(line.find(": resample-grad --"), std::string::npos) << line;
    ++of_the_operator;
  }
  EXPECT_GT(of_the_operator, 0);
}

TEST_F(CliTest, HelpOffersWhatHasAnEffect) {
  const auto offers = [&](const std::string& command, const std::string& option) {
    const std::string out = succeed(command + " --help");
    return out.find(" " + option + " ") != std::string::npos || out.find(" " + option + "\n") != std::string::npos;
  };
  EXPECT_FALSE(offers("run relu-grad", "--x-shape"));
  EXPECT_TRUE(offers("run max-pool-grad", "--x-shape"));
  for (const std::string op : {"max-pool-grad", "convert-winners"}) {
    EXPECT_FALSE(offers("run " + op, "--ceil-mode")) << op;
    EXPECT_TRUE(offers("check " + op, "--ceil-mode")) << op;
  }
  EXPECT_TRUE(offers("run max-pool", "--ceil-mode"));
  for (const std::string option : {"--fill", "--seed", "--corrupt-winners"}) {
    EXPECT_FALSE(offers("explain max-pool-grad", option)) << option;
    EXPECT_TRUE(offers("check max-pool-grad", option)) << option;
  }
  EXPECT_NE(succeed("explain relu --help").find("data type (default f32)"), std::string::npos);
  EXPECT_NE(succeed("run resample --help").find("one value: all axes"), std::string::npos);
}

TEST_F(CliTest, HelpOfACommandNamesTheOperators) {
  for (const std::string command : {"run", "check", "explain"}) {
    const std::string out = succeed(command + " --help");
    EXPECT_NE(out.find("Usage: backpass " + command), std::string::npos) << out;
    for (const std::string_view op : kOperators)
      EXPECT_FALSE(row_of(out, {std::string(op)}).empty()) << op << "\n" << out;
  }
  EXPECT_NE(succeed("list --help").find("Usage: backpass list"), std::string::npos);
}

TEST_F(CliTest, HelpOfEveryOperatorNamesItsOptions) {
  const std::string pooling = " --window --strides --start-padding --end-padding --dilations --winners --winners-kind";
  const std::string resampling = " --mode --rounding --scales --input-offsets --output-offsets --convention --table";
  const std::map<std::string, std::string> parameters{
      {"relu", ""},
      {"relu-grad", "--nan"},
      {"max-pool", "--window --strides --start-padding --end-padding --dilations --ceil-mode --winners --y-shape"},
      {"max-pool-grad", "--x-shape" + pooling},
      {"resample", "--y-shape" + resampling},
      {"resample-grad", "--x-shape" + resampling},
      {"slice", "--offsets --sizes --strides --y-shape"},
      {"slice-grad", "--offsets --sizes --strides --x-shape"},
      {"convert-winners", "--x-shape" + pooling},
  };
  const std::map<std::string, std::string> files{
      {"relu", "--x"},
      {"relu-grad", "--x --dy"},
      {"max-pool", "--x --winners-out"},
      {"max-pool-grad", "--x --dy --winners-in"},
      {"resample", "--x"},
      {"resample-grad", "--dy"},
      {"slice", "--x"},
      {"slice-grad", "--dy"},
      {"convert-winners", "--winners-in"},
  };
  for (const std::string_view name : kOperators) {
    const std::string op(name);
    const std::string common = " --device --threads --implementation ";
    const std::string dtype = op == "convert-winners" ? "" : " --dtype";  // its file says all
    const std::map<std::string, std::string> wanted{
        {"run", files.at(op) + " --out" + dtype + common + parameters.at(op)},
        {"explain", "--x-shape --dtype" + common + parameters.at(op)},
        {"check", "--x-shape --dtype --random" + common + parameters.at(op)}};
    for (const auto& [command, options] : wanted) {
      const std::string out = succeed(command + " " + op + " --help");
      EXPECT_NE(out.find("Usage: backpass " + command + " " + op + " "), std::string::npos) << out;
      std::string parted = out;
      std::ranges::replace(parted, ',', ' ');  // "--winners,--winners-kind"
      const Words offered = words(parted);
      for (const std::string& option : words(options)) {
        EXPECT_GT(std::ranges::count(offered, option), 0) << command << " " << op << " " << option << "\n" << out;
      }
    }
  }
}

// ---- explain -------------------------------------------------------------------------------------------

TEST_F(CliTest, ExplainGivesThePlanOfEveryOperator) {
  struct Plan {
    std::string problem, bytes, workspace;
  };
  // Bytes: every tensor once.
  const std::vector<Plan> plans{
      {"relu --x-shape 3,4", "96", "0"},
      {"relu-grad --x-shape 3,4 --dtype f64", "288", "0"},
      {"max-pool --x-shape 1,1,4,4 --window 2 --dtype f16 --winners compact", "44", ""},
      {"max-pool-grad --x-shape 1,1,4,4 --window 2 --winners flat", "112", ""},
      {"resample --x-shape 3 --y-shape 6 --dtype u8", "9", ""},
      {"resample-grad --x-shape 3 --y-shape 6", "36", ""},
      {"slice --x-shape 10 --strides 2 --dtype i64", "80", "0"},
      {"slice-grad --x-shape 10 --strides 2", "60", "0"},
      {"convert-winners --x-shape 1,1,4,4 --window 2 --winners-kind compact --winners flat --winners-dtype u32", "20",
       "0"},
  };
  ASSERT_EQ(plans.size(), kOperators.size());
  for (const Plan& plan : plans) {
    SCOPED_TRACE(plan.problem);
    const std::string out = succeed("explain " + plan.problem);
    EXPECT_EQ(words(value_of(out, "problem")).at(0), words(plan.problem).at(0));
    EXPECT_NE(value_of(out, "implementation"), "");
    EXPECT_EQ(value_of(out, "bytes"), plan.bytes);
    const std::string workspace = value_of(out, "workspace");
    EXPECT_EQ(workspace, plan.workspace.empty() ? std::to_string(std::stoull(workspace)) : plan.workspace);
  }
}

TEST_F(CliTest, ExplainWritesOutWhatTheOptionsLeaveOut) {
  EXPECT_EQ(
      value_of(succeed("explain max-pool-grad --x-shape 2,3,9,11 --window 3 --winners flat"), "problem"),
      "max-pool-grad --dtype f32 --x-shape 2,3,9,11 --y-shape 2,3,3,3 --window 3,3 --strides 3,3 --start-padding 0,0 "
      "--end-padding 0,0 --dilations 1,1 --winners flat --winners-dtype i64");
  EXPECT_EQ(value_of(succeed("explain slice --x-shape 5,6 --offsets 1 --strides=-1,2"), "problem"),
            "slice --dtype f32 --x-shape 5,6 --y-shape 4,3 --offsets 1,1 --sizes 4,5 --strides -1,2");
}

TEST_F(CliTest, ExplainForcesTheImplementationAsked) {
  EXPECT_EQ(value_of(succeed("explain relu --x-shape 3 --implementation reference"), "implementation"), "reference");
}

class RoundTripTest : public CliTest {
 protected:
  // The problem that explain prints is the same problem to explain.
  std::string expect_same_again(const std::string& problem) const {
    const std::string out = succeed("explain " + problem);
    const std::string printed = value_of(out, "problem");
    EXPECT_EQ(succeed("explain " + printed), out) << problem;
    return printed;
  }
};

TEST_F(RoundTripTest, WhatExplainPrintsCanBeExplainedAndChecked) {
  const Words problems{
      "relu --x-shape 5,7 --x-strides 9,1 --y-strides 8,1 --dtype bf16",
      "relu-grad --x-shape 4,5,6 --x-strides 1,4,20 --dy-strides -30,6,-1 --dx-strides 30,1,5 --nan pass",
      "max-pool --x-shape 2,5,7,7 --window 3 --strides 2 --winners compact --nhwc",
      "max-pool --x-shape 1,2,8,8 --window 3 --strides 2 --ceil-mode --dtype u8",
      "max-pool-grad --x-shape 2,3,7,7 --window 3 --strides 2 --x-strides 0,-49,1,-7 --dy-strides 0,0,3,1 --dx-strides "
      "-1,2,6,42",
      "max-pool-grad --x-shape 2,3,9,11 --window 3 --strides 2 --winners flat --winners-dtype u32 --dtype f16",
      "max-pool-grad --x-shape 1,1,20,20 --window 16 --strides 2 --winners compact --winners-strides 9,9,1,3",
      "resample --x-shape 2,4 --y-shape 2,3 --table 1=2:0.25:0.75,0:1:-1:0.5,4",
      "resample --x-shape 3 --y-shape 20 --scales 0.1 --input-offsets 0.3 --output-offsets -0.3333333333333333 --mode "
      "nearest "
      "--rounding increasing",
      "resample --x-shape 5 --y-shape 9 --scales 1e300 --convention align-corners",
      "resample-grad --x-shape 3,4 --y-shape 5,6 --dy-strides 0,-1 --dx-strides 1,3 --table 0=0:1e-60:2.5,1,2,1:1:1,0",
      "resample-grad --x-shape 1,2,6,10 --y-shape 1,2,9,15 --mode nearest --convention asymmetric",
      "resample --x-shape 2,4 --y-shape 1,3 --table 0=0:1:1 --table 1=2:0.25:0.75,0:1:-1:0.5,4",
      "slice --x-shape 5,6 --y-strides -8,1 --offsets 1,1 --strides -1,2",
      "slice-grad --x-shape 4,16 --y-shape 2,3 --strides 1,2 --dtype i16",
      "convert-winners --x-shape 2,3,9,11 --window 3 --strides 2 --winners-kind flat --winners compact --dtype u32",
      "convert-winners --x-shape 1,2,6,7,8 --window 2 --winners-kind compact --winners plane --winners-dtype i32",
      "convert-winners --x-shape 1,2,9 --window 3 --winners-kind plane --winners flat --from-strides 0,-9,1 "
      "--winners-strides 1,9,2",
      "resample-grad --x-shape 3,4 --y-shape 0,4",
  };
  for (const std::string& problem : problems) {
    const std::string printed = expect_same_again(problem);
    EXPECT_EQ(std::ranges::count(words(printed), "--table"), std::ranges::count(words(problem), "--table")) << printed;
    const Words report = lines(succeed("check " + printed));
    ASSERT_FALSE(report.empty());
    EXPECT_TRUE(report.back().starts_with("1 problem, ")) << printed;
    EXPECT_TRUE(report.back().ends_with(" passed, 0 failed")) << printed;
  }
}

TEST_F(RoundTripTest, RandomProblemsCanBeExplainedAgain) {
  for (std::uint64_t number = 1; number <= 150; ++number) expect_same_again(tools::random_problem(number, 0));
}

// ---- check ---------------------------------------------------------------------------------------------

// The number before `word`, or before the one thing of many that it names, in the summary, the report's last line.
std::int64_t summary(const std::string& report, const std::string& word) {
  const Words last = lines(report).empty() ? Words{} : words(lines(report).back());
  for (std::size_t i = 1; i < last.size(); ++i) {
    const std::string found = last[i].substr(0, last[i].find(','));
    if (found == word || (last[i - 1] == "1" && found + "s" == word)) return std::stoll(last[i - 1]);
  }
  ADD_FAILURE() << "no '" << word << "' in the summary of\n" << report;
  return -1;
}

std::set<std::string> operators_in(const std::string& report) {
  std::set<std::string> found;
  for (const std::string& line : lines(report)) {
    if (line.find(" checked, 0 refused, 0 differ") != std::string::npos) found.insert(words(line).at(0));
  }
  return found;
}

using Names = std::set<std::string>;

TEST_F(CliTest, CheckWithoutArgumentsTriesEveryNamedProblem) {
  const std::string report = succeed("check");
  EXPECT_EQ(summary(report, "problems"), static_cast<std::int64_t>(tools::named_problems().size()));
  EXPECT_EQ(summary(report, "failed"), 0);
  EXPECT_GT(summary(report, "passed"), summary(report, "problems"));  // in several types
  EXPECT_EQ(operators_in(report), Names(kOperators.begin(), kOperators.end()));
}

TEST_F(CliTest, CheckOfAnOperatorTriesItsNamedProblems) {
  const auto is_grad = [](const tools::Problem& p) { return p.kind == BP_MAX_POOL_GRAD; };
  const std::string report = succeed("check max-pool-grad");
  EXPECT_EQ(summary(report, "problems"), std::ranges::count_if(tools::named_problems(), is_grad));
  EXPECT_EQ(operators_in(report), Names{"max-pool-grad"});
}

TEST_F(CliTest, CheckTakesNamesOfProblems) {
  const std::string one = succeed("check tie_row");
  EXPECT_EQ(summary(one, "problems"), 1);
  EXPECT_EQ(operators_in(one), Names{"max-pool"});
  EXPECT_EQ(succeed("check max-pool tie_row"), one);
  const std::string two = succeed("check tie_row grad_tie_row");
  EXPECT_EQ(summary(two, "problems"), 2);
  EXPECT_EQ(operators_in(two), (Names{"max-pool", "max-pool-grad"}));
  EXPECT_EQ(summary(succeed("check max-pool-grad grad_tie_row grad_2_s2"), "problems"), 2);
  EXPECT_EQ(operators_in(succeed("check nhwc")), (Names{"max-pool", "relu", "resample", "slice"}));  // a name of four
}

TEST_F(CliTest, CheckTriesRandomProblemsFromAGivenNumber) {
  const std::string report = succeed("check --random 200 --first 7");
  EXPECT_EQ(summary(report, "problems"), 200);
  EXPECT_EQ(operators_in(report), Names(kOperators.begin(), kOperators.end()));
  EXPECT_NE(report.find("random problems 7 to 206\n"), std::string::npos) << report;
  const std::string slices = succeed("check slice-grad --random 5");
  EXPECT_EQ(operators_in(slices), Names{"slice-grad"});
  EXPECT_NE(slices.find("random problems 1 to 5\n"), std::string::npos) << slices;
}

TEST_F(CliTest, CheckTakesItsOptionsOnEitherSideOfTheOperator) {
  EXPECT_EQ(succeed("check --random 5 --first 7 slice-grad"), succeed("check slice-grad --random 5 --first 7"));
  EXPECT_EQ(succeed("check --random 5 slice-grad --first 7"), succeed("check slice-grad --random 5 --first 7"));
  EXPECT_EQ(succeed("check --implementation reference --threads 1 max-pool tie_row"),
            succeed("check max-pool tie_row --implementation reference --threads 1"));
}

TEST_F(CliTest, CheckTakesAProblemByItsParameters) {
  EXPECT_EQ(summary(succeed("check max-pool-grad --x-shape 1,2,7,7 --window 3 --strides 2"), "problems"), 1);
  const std::string report = succeed("check resample --x-shape 3,5 --y-shape 3,9 --dtype f16,u8 --fill reals --seed 9");
  EXPECT_EQ(summary(report, "problems"), 1);
  EXPECT_GE(summary(report, "passed"), 2);  // every implementation in two types
  EXPECT_EQ(summary(succeed("check max-pool-grad --x-shape 1,2,7,7 --window 3 --winners compact --corrupt-winners"),
                    "failed"),
            0);
}

// ---- Environment ---------------------------------------------------------------------------------------

TEST_F(CliTest, VerboseSpeaksOfEveryCreateAndRunOnStderr) {
  put<float>("x.npy", {2, 3}, {1, 2, 3, 4, 5, 6});
  const Outcome result = outcome("run slice --x x.npy --out /dev/stdout --strides -1", {{"BACKPASS_VERBOSE", "1"}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("\x93NUMPY"));  // stdout stays the user's
  const Words said = lines(result.err);
  ASSERT_EQ(said.size(), 2U) << result.err;
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(said[i].starts_with(i == 0 ? "backpass create " : "backpass run ")) << said[i];
    EXPECT_NE(said[i].find("slice --dtype f32 --x-shape 2,3 --y-shape 2,3 --offsets 0,0 --sizes 2,3 --strides -1,-1"),
              std::string::npos)
        << said[i];
    EXPECT_NE(said[i].find(" implementation="), std::string::npos) << said[i];
    EXPECT_NE(said[i].find(" us="), std::string::npos) << said[i];
  }
}

TEST_F(CliTest, VerboseIsOffWhenEmptyOrZero) {
  for (const std::string value : {"", "0"}) succeed("explain relu --x-shape 3", {{"BACKPASS_VERBOSE", value}});
  EXPECT_EQ(lines(outcome("explain relu --x-shape 3", {{"BACKPASS_VERBOSE", "1"}}).err).size(), 1U);
}

TEST_F(CliTest, ImplRestrictsTheChoice) {
  const std::string out = succeed("explain max-pool-grad --x-shape 1,1,4 --window 2", {{"BACKPASS_IMPL", "reference"}});
  EXPECT_EQ(value_of(out, "implementation"), "reference");
  succeed("explain relu --x-shape 3", {{"BACKPASS_IMPL", ""}});
}

TEST_F(CliTest, MaxIsaRestrictsTheInstructionSets) {
  const std::string all = value_of(succeed("list"), "instruction sets");
  // Every name in the list may be the limit, and leaves itself and what follows.
  for (std::size_t at = 0; at != std::string::npos;) {
    const std::size_t end = all.find(',', at);
    const std::string limit = all.substr(at, end - at);
    const std::string out = succeed("list", {{"BACKPASS_MAX_ISA", limit}});
    EXPECT_EQ(value_of(out, "instruction sets"), all.substr(at)) << limit;
    at = end == std::string::npos ? end : end + 1;
  }
}

}  // namespace
}  // namespace cli
