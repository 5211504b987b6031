// SPDX-License-Identifier: Apache-2.0
// The bench: verify, then time, against the floor measured in the same run.
#pragma once

#include "problem.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace bench {

// A problem to time. Groups: "cpu" and "cuda" are the tables of each device's issue, "network" the shapes of real
// networks.
struct Workload {
  std::string group;
  tools::Problem problem;
};
const std::vector<Workload>& workloads();

struct Settings {
  std::vector<std::int32_t> dtypes{BP_F32};
  tools::CreateOptions create;
  int floor_threads = 1;  // as many as the implementation uses
  double seconds = 0.5;   // at least so long for each measurement
  int least_repetitions = 5;
};

// One sense of a measurement. Hot: one set of buffers, again and again. Cold: sets rotated past the last-level cache.
struct Timing {
  double median_ns = 0;
  double spread = 0;    // interquartile range over the median
  double floor_ns = 0;  // the better of ordinary and non-temporal stores
  int repetitions = 0;
};

struct Peer {
  std::string name;
  double median_ns = 0;
  bool agrees = false;
};

struct Result {
  std::string op, problem, dtype, layout, device, implementation;
  int threads = 1;
  std::uint64_t bytes = 0;
  bool verified = false;
  std::string difference{};  // what is wrong, where it is not verified
  std::optional<Timing> hot{};
  Timing cold{};
  bool judged_hot = false;  // a problem smaller than the last-level cache is judged hot
  std::vector<Peer> peers{};

  [[nodiscard]] const Timing& timing() const { return judged_hot ? *hot : cold; }
  [[nodiscard]] double gb_per_s() const { return static_cast<double>(bytes) / timing().median_ns; }
  [[nodiscard]] double fraction() const { return timing().floor_ns / timing().median_ns; }
};

Result measure(const tools::Problem& problem, std::int32_t dtype, const Settings& settings);

// What the machine is, and its limits: copy bandwidth with both kinds of stores.
struct Machine {
  std::string cpu, system, compiler;
  int cores = 0;
  std::size_t last_level_cache = 0;
};
Machine machine();
struct CopyLimits {
  double ordinary_gb_per_s = 0;
  double non_temporal_gb_per_s = 0;
};
CopyLimits copy_limits(int threads);

// ---- Reports ---------------------------------------------------------------------------------------------

std::string table_head();
std::string table_row(const Result& result);
std::string to_json(const Machine& machine, const CopyLimits& limits, const std::string& commit,
                    const std::vector<Result>& results);
std::string to_svg(const Machine& machine, const std::string& commit, const std::vector<Result>& results);

}  // namespace bench
