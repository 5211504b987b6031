// SPDX-License-Identifier: Apache-2.0
// The bench: verify, then time, against the floor and the peers, all in the same run.
#pragma once

#include "device.h"
#include "problem.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bench {

class Peers;

// ---- What is timed ---------------------------------------------------------------------------------------

// A problem to time. Groups: "cpu" and "cuda" are the tables of each device's issue, "large" those that 32 bits cannot
// count, "odd" rows of odd lengths, "network" the shapes of real networks.
struct Workload {
  std::string group;
  tools::Problem problem;
};
const std::vector<Workload>& workloads();

// One ordinary problem of each operator that moves about so many bytes in f32.
std::vector<tools::Problem> problems_of_size(std::uint64_t bytes);

// The same, and beside them pooling's gradient from x alone and nearest resampling's: on images of 64 x 64, or on one
// sample of one channel.
enum class Shape { images, plane };
std::vector<tools::Problem> problems_in_all_ways(Shape shape, std::uint64_t bytes);

// A problem of rank 4 in strides that are not packed, which have a name.
struct Strided {
  std::string strides;
  tools::Problem problem;
};
std::vector<Strided> in_other_strides(const tools::Problem& problem);

// ---- Measuring -------------------------------------------------------------------------------------------

struct Settings {
  std::vector<std::int32_t> dtypes{BP_F32};
  tools::CreateOptions create;
  double seconds = 0.5;  // at least so long for each measurement
  int least_repetitions = 5;
  bool graphs = false;  // on a CUDA device: the calls out of a graph, too, as if they were a peer

  [[nodiscard]] int threads() const;  // that an implementation may use
};

// One sense of a measurement. Hot: one set of buffers, again and again. Cold: sets rotated past the last-level cache.
struct Timing {
  double median_ns = 0;
  double spread = 0;    // interquartile range over the median
  double floor_ns = 0;  // the better of ordinary and non-temporal stores
  int repetitions = 0;
};

struct PeerResult {
  std::string name;  // with its version
  double median_ns = 0;
  bool agrees = false;

  [[nodiscard]] std::string short_name() const { return name.substr(0, name.find(' ')); }
};

struct Result {
  std::string op, problem, dtype, layout, device, implementation;
  int threads = 1;
  std::uint64_t bytes = 0;
  bool verified = false;
  std::string difference{};  // what is wrong, where it is not verified
  std::optional<Timing> hot{};
  std::optional<Timing> cold{};
  bool judged_hot = false;  // a problem smaller than the last-level cache is judged hot
  std::vector<PeerResult> peers{};

  // What counts; all 0 where it was not timed, because it is not verified.
  [[nodiscard]] Timing timing() const { return (judged_hot ? hot : cold).value_or(Timing{}); }
  [[nodiscard]] double gb_per_s() const { return verified ? static_cast<double>(bytes) / timing().median_ns : 0; }
  [[nodiscard]] double fraction() const { return verified ? timing().floor_ns / timing().median_ns : 0; }
  [[nodiscard]] const PeerResult* best_peer() const;  // of those that agree; null: there is none
  [[nodiscard]] double times_best_peer() const { return best_peer()->median_ns / timing().median_ns; }
  // Of another round of the same: of every side, the better median counts.
  void take_better(const Result& other);
};

// Peers are timed in the sense that is judged.
Result measure(const tools::Problem& problem, std::int32_t dtype, const Settings& settings, const Peers& peers);

// A CUDA device and what it can be measured against: a copy within its memory, bytes read and written.
struct DeviceLimits {
  tools::DeviceFacts facts;
  double copy_gb_per_s = 0;
};
DeviceLimits device_limits();
// Cold, in buffers rotated past the device's cache.
Result measure_on_device(const tools::Problem& problem, std::int32_t dtype, const Settings& settings,
                         const DeviceLimits& limits, const Peers& peers);

// The same problem on one thread and on those of the settings, in one race: a result of each. `small` is the same
// question in a size for the oracle.
struct OneAndAll {
  Result one, all;
};
OneAndAll measure_threads(const tools::Problem& problem, const tools::Problem& small, std::int32_t dtype,
                          const Settings& settings);

// A problem in its own strides. Its only peer is what a user could do instead: copies of all that is not packed, the
// operator on them, and a copy of its result back.
Result measure_strides(const Strided& strided, std::int32_t dtype, const Settings& settings);

// ---- The machine -----------------------------------------------------------------------------------------

// What the machine is, and its limits: copy bandwidth with both kinds of stores.
struct Machine {
  std::string cpu, system, compiler;
  int cores = 0;
  std::size_t last_level_cache = 0;
};
Machine machine();
struct CopyLimits {
  int threads = 1;
  double ordinary_gb_per_s = 0;
  double non_temporal_gb_per_s = 0;
};
CopyLimits copy_limits(int threads);

// What arithmetic alone costs, all threads at it, everything in their first caches: the nanoseconds of a step of one
// element, and of all steps that a workload needs for an element, beside the floor's for its bytes, and for the lines
// that these are in, in the last-level cache and past it.
struct StepLimit {
  std::string_view name;
  double ns = 0;
};
struct WorkloadLimit {
  std::string_view name, dtype;
  bool hot = false;  // its tensors fit in the last-level cache, so that the floor is that of the cache
  double arithmetic_ns = 0, lines_ns = 0, floor_ns = 0;
  // The fractions of the floor if arithmetic and lines hide behind each other, and if they do not.
  [[nodiscard]] double at_most() const { return floor_ns / std::max(lines_ns, arithmetic_ns); }
  [[nodiscard]] double in_turn() const { return floor_ns / (lines_ns + arithmetic_ns); }
};
struct Limits {
  std::vector<StepLimit> steps;
  std::vector<WorkloadLimit> workloads;
};
Limits measure_limits(const Settings& settings);

// ---- Reports ---------------------------------------------------------------------------------------------

std::string table_head();
std::string table_row(const Result& result);

// The results of problems_of_size.
struct SizedResults {
  std::uint64_t bytes = 0;
  std::vector<Result> results;
};
// The time for each KiB: a line for each operator, a column for each size.
std::string sizes_table(const std::vector<SizedResults>& sizes);
// The time of a call beside the peers': a line for each size and operator.
std::string calls_table(const std::vector<SizedResults>& sizes);
// One plane: the times of one thread and of all, and the gain, beside the floor's.
std::string planes_head(int threads);
std::string planes_row(const OneAndAll& results);
// Other strides beside packed copies.
std::string strides_head();
std::string strides_row(const Result& result);
// Arithmetic beside the floor, and the greatest fraction of the floor that it leaves.
std::string limits_table(const Limits& limits);

// What a run was like.
struct Run {
  Machine machine;
  CopyLimits limits;
  std::string commit;
  std::optional<DeviceLimits> device{};  // where a CUDA device was measured
};
std::string to_json(const Run& run, const std::vector<Result>& results);
// The rows of the first type.
std::string to_svg(const Run& run, const std::vector<Result>& results);

}  // namespace bench
