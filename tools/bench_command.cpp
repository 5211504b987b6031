// SPDX-License-Identifier: Apache-2.0
// `backpass bench [OP] [problem...]`: verifies, then times, against the floor measured in the same run.
#include "check.h"
#include "commands.h"
#include "device_options.h"
#include "harness.h"
#include "options.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

namespace tools {

namespace {

struct BenchArguments {
  std::vector<std::string> words;  // an operator, then names of problems
  std::string group = "cpu";
  std::string dtypes = "f32";
  std::string layout = "both";
  std::string json, plot;
  double seconds = 0.5;
  DeviceOptions device;
};

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != ',') continue;
    parts.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  return parts;
}

// Workloads by group, or by name from any group and from the problems files.
std::vector<Problem> selected(const BenchArguments& a, std::optional<std::int32_t> kind,
                              const std::vector<std::string>& names) {
  std::vector<Problem> problems;
  if (names.empty()) {
    for (const bench::Workload& w : bench::workloads()) {
      if ((a.group == "all" || w.group == a.group) && (!kind || w.problem.kind == *kind)) problems.push_back(w.problem);
    }
    if (problems.empty())
      throw UsageError(fmt::format("--group: '{}' has no such workload, expected cpu, cuda, network or all", a.group));
    return problems;
  }
  for (const std::string& name : names) {
    const std::size_t before = problems.size();
    const auto add = [&](const Problem& p) {
      if (p.name == name && (!kind || p.kind == *kind)) problems.push_back(p);
    };
    for (const bench::Workload& w : bench::workloads()) add(w.problem);
    for (const Problem& p : named_problems()) add(p);
    if (problems.size() == before) throw UsageError(fmt::format("'{}' is no workload and no named problem", name));
  }
  return problems;
}

// Channels-last is a question where there are channels: poolings and resamplings of rank 4 and 5.
std::vector<Problem> in_layouts(const Problem& problem, const std::string& layout) {
  const bool has_layouts =
      problem.rank() >= 4 && problem.rank() <= 5 && (is_pooling(problem.kind) || is_resample(problem.kind));
  std::vector<Problem> result;
  if (layout != "nhwc" || !has_layouts) result.push_back(problem);
  if (layout != "nchw" && has_layouts && !problem.nhwc) {
    result.push_back(problem);
    result.back().nhwc = true;
  }
  return result;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw UsageError(fmt::format("{}: could not be written", path));
}

int run_bench(const BenchArguments& a) {
  std::vector<std::string> names = a.words;
  std::optional<std::int32_t> kind;
  if (!names.empty() && operator_kind(names.front())) {
    kind = operator_kind(names.front());
    names.erase(names.begin());
  }
  bench::Settings settings;
  settings.create = a.device.create_options();
  settings.seconds = a.seconds;
  settings.dtypes.clear();
  for (const std::string& name : split_list(a.dtypes)) settings.dtypes.push_back(parse_dtype("--dtype", name));
  std::vector<Problem> problems;
  for (const Problem& p : selected(a, kind, names)) {
    for (Problem& q : in_layouts(p, a.layout)) problems.push_back(std::move(q));
  }

  const bench::Machine machine = bench::machine();
  const bench::CopyLimits limits = bench::copy_limits(settings.floor_threads);
  const char* commit_given = std::getenv("BACKPASS_COMMIT");
  const std::string commit = commit_given == nullptr ? "unknown" : commit_given;
  fmt::print(
      "{}, {} cores, last-level cache {} MiB; copy {:.1f} GB/s with ordinary stores, {:.1f} with non-temporal ones, 1 "
      "thread\n\n{}",
      machine.cpu, machine.cores, machine.last_level_cache >> 20, limits.ordinary_gb_per_s,
      limits.non_temporal_gb_per_s, bench::table_head());

  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  std::vector<bench::Result> results;
  bool all_verified = true;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    for (const std::int32_t dtype : settings.dtypes) {
      if (bp_is_supported(problems[i].kind, a.device.device, dtype) == 0) continue;
      if (terminal) fmt::print(stderr, "{} of {}: {} ...\r", i + 1, problems.size(), problems[i].name);
      bench::Result result = bench::measure(problems[i], dtype, settings);
      if (terminal) fmt::print(stderr, "\x1b[K");
      fmt::print("{}", bench::table_row(result));
      std::fflush(stdout);
      all_verified = all_verified && result.verified;
      results.push_back(std::move(result));
    }
  }
  if (results.empty()) throw UsageError("no workload has one of these types on this device");
  if (!a.json.empty()) write_file(a.json, bench::to_json(machine, limits, commit, results));
  if (!a.plot.empty()) write_file(a.plot, bench::to_svg(machine, commit, results));
  return all_verified ? 0 : 1;
}

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "bench", "Verifies, then times; bytes moved, GB/s, fraction of the floor measured in the same run");
  const auto a = std::make_shared<BenchArguments>();
  command->add_option("what", a->words, "an operator, and names of workloads or problems (default: the group)")
      ->type_name("[OP] [NAME]");
  command->add_option("--group", a->group, "which workloads: cpu, cuda, network or all (default cpu)")
      ->type_name("NAME");
  command->add_option("--dtype", a->dtypes, "data types (default f32)")->type_name("T,T,...");
  command->add_option("--layout", a->layout, "memory order where there are channels (default both)")
      ->check(CLI::IsMember({"nchw", "nhwc", "both"}).description(""))
      ->type_name("nchw|nhwc|both");
  command->add_option("--seconds", a->seconds, "at least so long for each measurement (default 0.5)")
      ->check(CLI::Range(0.0, 3600.0).description(""))
      ->type_name("R");
  command->add_option("--json", a->json, "write the results as JSON")->type_name("F.json");
  command->add_option("--plot", a->plot, "write the fractions as a plot")->type_name("F.svg");
  add_device_options(*command, a->device);
  command->callback([a, &chosen] { chosen = [a] { return run_bench(*a); }; });
}

}  // namespace tools
