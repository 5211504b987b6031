// SPDX-License-Identifier: Apache-2.0
// `backpass bench [OP] [problem...]`: verifies, then times, against the floor measured in the same run.
#include "check.h"
#include "commands.h"
#include "device_options.h"
#include "harness.h"
#include "options.h"
#include "peers/peers.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>

namespace tools {

namespace {

// What is printed instead of the workloads, on problems of its own.
enum class Table { workloads, sizes, calls, planes, strides, limits };

struct BenchArguments {
  std::vector<std::string> words;  // an operator, then names of problems
  std::optional<std::string> group, dtypes, layout;
  std::string json, plot;
  double seconds = 0.5;
  std::uint64_t rounds = 1;
  std::vector<Table> tables;
  bool no_peers = false;
  std::optional<std::uint64_t> largest;
  DeviceOptions device;

  [[nodiscard]] Table table() const { return tables.empty() ? Table::workloads : tables.front(); }
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
std::vector<Problem> selected(const BenchArguments& a) {
  std::vector<std::string> names = a.words;
  std::optional<std::int32_t> kind;
  if (!names.empty() && operator_kind(names.front())) {
    kind = operator_kind(names.front());
    names.erase(names.begin());
  }
  const std::string of_operator = kind ? fmt::format(" of {}", operator_name(*kind)) : "";
  std::vector<Problem> problems;
  if (names.empty()) {
    const std::string group = a.group.value_or(std::string(device_name(a.device.device)));
    for (const bench::Workload& w : bench::workloads()) {
      if ((group == "all" || w.group == group) && (!kind || w.problem.kind == *kind)) problems.push_back(w.problem);
    }
    if (problems.empty()) {
      throw UsageError(fmt::format("--group: '{}' has no workload{}, expected cpu, cuda, large, odd, network or all",
                                   group, of_operator));
    }
    return problems;
  }
  for (const std::string& name : names) {
    const std::size_t before = problems.size();
    const auto add = [&](const Problem& p) {
      if (p.name == name && (!kind || p.kind == *kind)) problems.push_back(p);
    };
    for (const bench::Workload& w : bench::workloads()) add(w.problem);
    for (const Problem& p : named_problems()) add(p);
    if (problems.size() == before) {
      throw UsageError(fmt::format(
          "'{}' is no workload and no named problem{} (backpass list workloads, backpass list problems: what there is)",
          name, of_operator));
    }
  }
  return problems;
}

// Channels-last is a question where there are channels: poolings and resamplings of rank 4 and 5.
std::vector<Problem> in_layouts(const std::vector<Problem>& problems, const std::string& layout) {
  std::vector<Problem> result;
  for (const Problem& p : problems) {
    const bool has_layouts = p.rank() >= 4 && p.rank() <= 5 && (is_pooling(p.kind) || is_resample(p.kind));
    if (layout != "nhwc" || !has_layouts) result.push_back(p);
    if (layout != "nchw" && has_layouts && !p.nhwc) {
      result.push_back(p);
      result.back().nhwc = true;
    }
  }
  return result;
}

// Before anything is timed, and without touching what is there or leaving what was not.
void require_writable(const std::string& path) {
  if (path.empty()) return;
  std::error_code ignored;
  const bool was_there = std::filesystem::exists(path, ignored);
  if (!std::ofstream(path, std::ios::binary | std::ios::app))
    throw UsageError(fmt::format("{}: could not be written", path));
  if (!was_there) std::filesystem::remove(path, ignored);
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw UsageError(fmt::format("{}: could not be written", path));
}

// ---- Kinds of run --------------------------------------------------------------------------------------

// Measures on a device that has the type, and tells how far it is.
class Bench {
 public:
  Bench(const BenchArguments& a, const bench::Peers& peers, const std::optional<bench::DeviceLimits>& device)
      : peers_(peers), device_(device) {
    settings_.create = a.device.create_options();
    settings_.seconds = a.seconds;
    settings_.graphs = device && a.table() == Table::calls;
    settings_.dtypes.clear();
    for (const std::string& name : split_list(a.dtypes.value_or("f32")))
      settings_.dtypes.push_back(parse_dtype("--dtype", name));
  }

  [[nodiscard]] const bench::Settings& settings() const { return settings_; }
  [[nodiscard]] const std::vector<bench::Result>& results() const { return results_; }
  [[nodiscard]] bool all_verified() const {
    return std::all_of(results_.begin(), results_.end(), [](const bench::Result& r) { return r.verified; });
  }

  [[nodiscard]] bool has(const Problem& problem, std::int32_t dtype) const {
    return bp_is_supported(problem.kind, settings_.create.device.kind, dtype) != 0;
  }

  const bench::Result& measure(const Problem& problem, std::int32_t dtype) { return keep(measured(problem, dtype)); }
  // In another round.
  const bench::Result& measure_again(std::size_t row, const Problem& problem, std::int32_t dtype) {
    results_[row].take_better(measured(problem, dtype));
    return results_[row];
  }
  bench::OneAndAll measure_threads(const Problem& problem, const Problem& small) {
    tell(problem, BP_F32);
    bench::OneAndAll results = bench::measure_threads(problem, small, BP_F32, settings_);
    keep(results.one);
    keep(results.all);
    return results;
  }
  const bench::Result& measure_strides(const bench::Strided& strided) {
    tell(strided.problem, BP_F32);
    return keep(bench::measure_strides(strided, BP_F32, settings_));
  }

 private:
  void tell(const Problem& problem, std::int32_t dtype) const {
    if (terminal_) fmt::print(stderr, "{} {} ...\r", problem.name, dtype_name(dtype));
  }
  [[nodiscard]] bench::Result measured(const Problem& problem, std::int32_t dtype) const {
    tell(problem, dtype);
    bench::Result result = device_ ? bench::measure_on_device(problem, dtype, settings_, *device_, peers_)
                                   : bench::measure(problem, dtype, settings_, peers_);
    if (terminal_) fmt::print(stderr, "\x1b[K");
    return result;
  }
  const bench::Result& keep(bench::Result result) {
    if (terminal_) fmt::print(stderr, "\x1b[K");
    results_.push_back(std::move(result));
    return results_.back();
  }

  const bench::Peers& peers_;
  const std::optional<bench::DeviceLimits>& device_;  // where the operators run, unless on the CPU
  bench::Settings settings_;
  std::vector<bench::Result> results_;
  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
};

void require_some(const std::vector<Problem>& problems, const Bench& bench) {
  for (const Problem& p : problems) {
    for (const std::int32_t dtype : bench.settings().dtypes) {
      if (bench.has(p, dtype)) return;
    }
  }
  std::vector<std::string_view> names;
  for (const std::int32_t dtype : bench.settings().dtypes) names.push_back(dtype_name(dtype));
  throw UsageError(fmt::format("--dtype: is {}, which none of these workloads takes on {}", fmt::join(names, ","),
                               device_name(bench.settings().create.device.kind)));
}

// A noisy machine is quiet now and then: each round goes over all rows, which are shown in the last one.
void run_workloads(const std::vector<Problem>& problems, std::uint64_t rounds, Bench& bench) {
  fmt::print("{}", bench::table_head());
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    std::size_t row = 0;
    for (const Problem& p : problems) {
      for (const std::int32_t dtype : bench.settings().dtypes) {
        if (!bench.has(p, dtype)) continue;
        const bench::Result& result = round == 1 ? bench.measure(p, dtype) : bench.measure_again(row, p, dtype);
        ++row;
        if (round < rounds) continue;
        fmt::print("{}", bench::table_row(result));
        std::fflush(stdout);
      }
    }
  }
}

std::vector<bench::SizedResults> run_sizes(const std::vector<std::uint64_t>& sizes, Bench& bench) {
  std::vector<bench::SizedResults> all;
  for (const std::uint64_t bytes : sizes) {
    all.push_back({bytes, {}});
    for (const Problem& p : bench::problems_of_size(bytes)) all.back().results.push_back(bench.measure(p, BP_F32));
  }
  return all;
}

// The oracle sees the same plane in small.
void run_planes(std::uint64_t bytes, Bench& bench) {
  constexpr std::uint64_t kSmall = 64 << 10;
  const std::vector<Problem> planes = bench::problems_in_all_ways(bench::Shape::plane, bytes);
  const std::vector<Problem> small = bench::problems_in_all_ways(bench::Shape::plane, std::min(bytes, kSmall));
  fmt::print("{}", bench::planes_head(bench.settings().threads()));
  for (std::size_t i = 0; i < planes.size(); ++i) {
    fmt::print("{}", bench::planes_row(bench.measure_threads(planes[i], small[i])));
    std::fflush(stdout);
  }
}

void run_strides(std::uint64_t bytes, Bench& bench) {
  fmt::print("{}", bench::strides_head());
  for (const Problem& p : bench::problems_in_all_ways(bench::Shape::images, bytes)) {
    for (const bench::Strided& strided : bench::in_other_strides(p)) {
      fmt::print("{}", bench::strides_row(bench.measure_strides(strided)));
      std::fflush(stdout);
    }
  }
}

// What contradicts itself, or would be ignored, is refused.
void require_sensible(const BenchArguments& a) {
  const Table table = a.table();
  if (a.tables.size() > 1 || (!a.tables.empty() && (!a.words.empty() || a.group || a.dtypes || a.layout))) {
    throw UsageError(
        "--sizes, --calls, --planes, --strides, --limits: have their own problems, expected one of them and no name, "
        "--group, --dtype or --layout beside it");
  }
  if (a.device.device == BP_DEVICE_CUDA && table != Table::workloads && table != Table::calls)
    throw UsageError("--sizes, --planes, --strides, --limits: are for the CPU, expected --device cpu");
  if (a.group && !a.words.empty() && !(a.words.size() == 1 && operator_kind(a.words.front())))
    throw UsageError("--group: chooses where no names do, expected one of the two");
  if (a.layout && *a.layout != "nchw" && *a.layout != "nhwc" && *a.layout != "both")
    throw UsageError(fmt::format("--layout: is '{}', expected nchw|nhwc|both", *a.layout));
  if (!(a.seconds >= 0 && a.seconds <= 3600))
    throw UsageError(fmt::format("--seconds: is {}, expected 0 to 3600", a.seconds));
  if (a.rounds < 1 || a.rounds > 100) throw UsageError(fmt::format("--rounds: is {}, expected 1 to 100", a.rounds));
  if (a.rounds > 1 && table != Table::workloads)
    throw UsageError("--rounds: is for workloads, expected no table beside it");
  if (a.largest && table != Table::sizes && table != Table::planes && table != Table::strides)
    throw UsageError("--largest: needs --sizes, --planes or --strides");
  if (a.largest && (*a.largest < 1 << 10 || *a.largest > std::uint64_t{1} << 40))
    throw UsageError(fmt::format("--largest: is {}, expected 1024 (1 KiB) to 1099511627776 (1 TiB)", *a.largest));
  if (table == Table::limits && !(a.json.empty() && a.plot.empty()))
    throw UsageError("--limits: has no rows to write, expected no --json and no --plot beside it");
  if (!a.json.empty() && a.json == a.plot) throw UsageError(fmt::format("{}: is named for two outputs", a.json));
}

// The library says best why a device cannot be used.
void require_device(CreateOptions options) {
  options.implementation.clear();
  const Problem least = parse_problem("relu --x-shape 1");
  const CreateResult created = try_create(least, tensors(least, BP_F32), options);
  if (!created.op) throw UsageError(created.error);
}

void print_machine(const bench::Run& run, const bench::Peers& peers) {
  if (run.device) {
    fmt::print("{}, {}, cache {} MiB; copies {:.0f} GB/s within its memory\n{}\n\n", run.device->facts.name,
               run.device->facts.driver, run.device->facts.cache >> 20, run.device->copy_gb_per_s, peers.summary());
  } else {
    fmt::print(
        "{}, {} cores, last-level cache {} MiB; {} threads copy {:.1f} GB/s with ordinary stores, {:.1f} with "
        "non-temporal ones\n{}\n\n",
        run.machine.cpu, run.machine.cores, run.machine.last_level_cache >> 20, run.limits.threads,
        run.limits.ordinary_gb_per_s, run.limits.non_temporal_gb_per_s, peers.summary());
  }
}

int run_bench(const BenchArguments& a) {
  const Table table = a.table();
  require_sensible(a);
  require_writable(a.json);
  require_writable(a.plot);
  std::vector<Problem> problems;
  if (table == Table::workloads) problems = in_layouts(selected(a), a.layout.value_or("both"));
  const bool on_device = a.device.device == BP_DEVICE_CUDA;
  if (on_device) require_device(a.device.create_options());
  const bool with_peers = !a.no_peers && (table == Table::workloads || table == Table::calls);
  const int threads = bench::Settings{.create = a.device.create_options()}.threads();
  bench::Peers peers;
  if (with_peers) {
    const auto start = table == Table::calls ? bench::Peers::in_graphs : bench::Peers::on_cuda;
    peers = on_device ? start() : bench::Peers::on_cpu(threads);
  }
  std::optional<bench::DeviceLimits> device;
  if (on_device) device = bench::device_limits();
  Bench bench(a, peers, device);
  if (table == Table::workloads) require_some(problems, bench);
  const char* commit = std::getenv("BACKPASS_COMMIT");
  const bench::Run run{bench::machine(), on_device ? bench::CopyLimits{} : bench::copy_limits(threads),
                       commit == nullptr ? "unknown" : commit, device};
  print_machine(run, peers);
  std::fflush(stdout);

  constexpr std::uint64_t kKiB = 1 << 10, kMiB = 1 << 20;
  switch (table) {
    case Table::workloads:
      run_workloads(problems, a.rounds, bench);
      break;
    case Table::sizes: {
      std::vector<std::uint64_t> sizes;
      for (std::uint64_t bytes = kKiB; bytes <= a.largest.value_or(kKiB * kMiB); bytes *= 4) sizes.push_back(bytes);
      fmt::print("{}", bench::sizes_table(run_sizes(sizes, bench)));
      break;
    }
    case Table::calls:
      fmt::print("{}", bench::calls_table(run_sizes(
                           on_device ? std::vector{kKiB, 64 * kKiB, kMiB} : std::vector{kKiB, 32 * kKiB}, bench)));
      break;
    case Table::planes:
      run_planes(a.largest.value_or(128 * kMiB), bench);
      break;
    case Table::strides:
      run_strides(a.largest.value_or(128 * kMiB), bench);
      break;
    case Table::limits:
      fmt::print("{}", bench::limits_table(bench::measure_limits(bench.settings())));
      break;
  }
  if (!a.json.empty()) write_file(a.json, bench::to_json(run, bench.results()));
  if (!a.plot.empty()) write_file(a.plot, bench::to_svg(run, bench.results()));
  return bench.all_verified() ? 0 : 1;
}

}  // namespace

void add_bench(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "bench", "Verifies, then times; bytes moved, GB/s, fraction of the floor measured in the same run");
  const auto a = std::make_shared<BenchArguments>();
  command->add_option("what", a->words, "an operator, and names of workloads or problems (default: the group)")
      ->type_name("[OP] [NAME]");
  command
      ->add_option("--group", a->group,
                   "which workloads: cpu, cuda, large, odd, network or all (default: the device's)")
      ->type_name("NAME");
  command->add_option("--dtype", a->dtypes, "data types (default f32)")->type_name("T,T,...");
  command->add_option("--layout", a->layout, "memory order where there are channels (default both)")
      ->type_name("nchw|nhwc|both");
  command
      ->add_option_function<std::string>(
          "--seconds", [a](const std::string& text) { a->seconds = parse_real("--seconds", text); },
          "at least so long for each measurement (default 0.5)")
      ->type_name("R");
  command
      ->add_option_function<std::string>(
          "--rounds", [a](const std::string& text) { a->rounds = parse_count("--rounds", text); },
          "go so many times over all workloads; of ours, the floor and each peer the best median counts (default 1)")
      ->type_name("N");
  const auto add_table = [&](const std::string& name, Table table, const std::string& help) {
    command->add_flag_callback(
        name, [a, table] { a->tables.push_back(table); }, "instead: " + help);
  };
  add_table("--sizes", Table::sizes, "the time for each KiB, from 1 KiB to 1 GiB, of every operator");
  add_table(
      "--calls", Table::calls,
      "the time of one call at 1 KiB and 32 KiB (on CUDA 1 KiB, 64 KiB and 1 MiB, in a graph, too), beside the peers'");
  add_table("--planes", Table::planes, "one large plane, with one thread and with all");
  add_table("--strides", Table::strides, "tensors in other strides, beside packed copies of them");
  add_table("--limits", Table::limits, "what arithmetic alone costs, beside the floor");
  command
      ->add_option_function<std::string>(
          "--largest", [a](const std::string& text) { a->largest = parse_count("--largest", text); },
          "where --sizes ends (default 1 GiB); what a problem of --planes and --strides moves (default 128 MiB)")
      ->type_name("BYTES");
  command->add_flag("--no-peers", a->no_peers, "do not look for other libraries to race");
  command->add_option("--json", a->json, "write the results as JSON")->type_name("F.json");
  command->add_option("--plot", a->plot, "write the fractions of the first type as a plot")->type_name("F.svg");
  add_device_options(*command, a->device);
  command->callback([a, &chosen] { chosen = [a] { return run_bench(*a); }; });
}

}  // namespace tools
