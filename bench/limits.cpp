// SPDX-License-Identifier: Apache-2.0
// What the arithmetic of a workload costs when nothing else does, beside what its bytes cost.
#include "buffers.h"
#include "core/cache_size.h"
#include "floor.h"
#include "harness.h"
#include "race.h"
#include "steps.h"

#include <algorithm>
#include <atomic>

namespace bench {

namespace {

// For each element of dx (of x where the operator is a forward one).
struct Work {
  std::string_view name;
  double elements;                             // of dx, in millions
  double gathers, offers, comparisons, terms;  // the steps of gather, offer, search and term
  double read, written;                        // elements of the type
  double widened, rounded;  // half types among these that are; the others are compared or moved as they are
  double winners_read, winners_written;  // bytes
  double beside = 0;                     // elements in the lines of those that are read: memory gives them, too
};

// Windows of 3 x 3 with stride 2 are a quarter as many as elements, and nine of them reach four elements. A search
// along W is shared by the rows of windows that are sought together, four with stride 1 and two with stride 2: for a
// window of k x k, (k - 1) comparisons along H and (k - 1) * (rows of x read) / (rows of windows) along W. A linear
// resampling makes two terms of each element on every axis, of those that the axes before it have left; one to half the
// size, one term of an element of dx.
constexpr Work kWork[] = {
    {"pool_3x3_s2_compact", 25.7, 2.25, 0, 0, 0, 0.25, 1, 0.25, 1, 0.25, 0},
    {"pool_3x3_s2_recompute", 25.7, 2.25, 0, 7 / 4.0, 0, 1.25, 1, 0.25, 1, 0, 0},
    {"pool_3x3_s2_forward", 25.7, 0, 0, 7 / 4.0, 0, 1, 0.25, 0, 0, 0, 0.25},
    {"pool_2x2_s2_compact", 51.4, 1, 0, 0, 0, 0.25, 1, 0.25, 1, 0.25, 0},
    {"pool_2x2_s2_recompute", 51.4, 1, 0, 3 / 4.0, 0, 1.25, 1, 0.25, 1, 0, 0},
    {"pool_2x2_s2_forward", 51.4, 0, 0, 3 / 4.0, 0, 1, 0.25, 0, 0, 0, 0.25},
    {"pool_3d_2_s2_compact", 16.8, 1, 0, 0, 0, 0.125, 1, 0.125, 1, 0.125, 0},
    {"pool_3d_2_s2_recompute", 16.8, 1, 0, 7 / 8.0, 0, 1.125, 1, 0.125, 1, 0, 0},
    {"pool_3x3_s1_compact", 8.4, 9, 0, 0, 0, 1, 1, 1, 1, 1, 0},
    {"pool_3x3_s1_recompute", 8.4, 9, 0, 5, 0, 2, 1, 1, 1, 0, 0},
    {"pool_3x3_d2_compact", 2.1, 9, 0, 0, 0, 1, 1, 1, 1, 1, 0},
    {"pool_3x3_d2_recompute", 2.1, 9, 0, 5, 0, 2, 1, 1, 1, 0, 0},
    {"pool_5x5_s1_compact", 1.64, 0, 1, 0, 0, 1, 1, 1, 1, 1, 0},
    {"pool_5x5_s1_recompute", 1.64, 0, 1, 12, 0, 2, 1, 1, 1, 0, 0},
    {"bilinear_x2", 2.1, 0, 0, 0, 8 + 4, 4, 1, 4, 1, 0, 0},
    {"bilinear_x2_deep", 2.1, 0, 0, 0, 8 + 4, 4, 1, 4, 1, 0, 0},
    {"bilinear_65_513", 0.355, 0, 0, 0, 2 * 62.3 + 2 * 7.9, 62.3, 1, 62.3, 1, 0, 0},
    {"bilinear_half", 8.4, 0, 0, 0, 0.5 + 1, 0.25, 1, 0.25, 1, 0, 0},
    {"trilinear_x2", 1.05, 0, 0, 0, 16 + 8 + 4, 8, 1, 8, 1, 0, 0},
    {"slice_forward_every_second", 25.7, 0, 0, 0, 0, 0.25, 0.25, 0, 0, 0, 0, 0.25},
};

// The nanoseconds of one step of one element: all threads do it, each on data of its own.
std::array<double, kSteps> time_steps(const Settings& settings) {
  Floor floor(settings.threads());
  std::array<std::atomic<std::size_t>, kSteps> done{};  // by one thread
  std::vector<Racer> racers;
  for (std::size_t i = 0; i < kSteps; ++i) {
    racers.emplace_back(floor.while_awake(calls_here(1, [&, i](std::size_t) {
      floor.run([&] {
        thread_local StepData data;
        // So often that it costs nothing to bring the threads together.
        std::size_t steps = 0;
        for (int call = 0; call < 100; ++call) steps += run_step(static_cast<Step>(i), data);
        done[i] = steps;
      });
    })));
  }
  race(racers, 1, settings.seconds, settings.least_repetitions);
  std::array<double, kSteps> times{};
  for (std::size_t i = 0; i < kSteps; ++i)
    times[i] = racers[i].median() / static_cast<double>(done[i] * static_cast<std::size_t>(floor.threads()));
  return times;
}

// The floor on so many bytes for an element, by the better stores.
class FloorOfElements {
 public:
  explicit FloorOfElements(const Settings& settings)
      : settings_(settings),
        from_(bp::last_cache().shown + kColdShares * bp::last_cache().share),
        to_(from_.bytes().size()),
        floor_(settings.threads()) {}

  // For each of so many elements; where they do not fit in the cache, of as many as fill it several times.
  double time(double elements, double read, double written) {
    if (!fits(elements, read, written)) elements = static_cast<double>(from_.bytes().size()) / (read + written);
    const auto part = [&](const Memory& memory, double each) {
      return memory.bytes().first(static_cast<std::size_t>(elements * each));
    };
    const std::span<const std::byte> in[] = {part(from_, read)};
    const std::span<std::byte> out[] = {part(to_, written)};
    std::vector<Racer> racers;
    for (const Stores stores : {Stores::ordinary, Stores::non_temporal}) {
      racers.emplace_back(
          floor_.while_awake(calls_here(1, [&, stores](std::size_t) { floor_.move(in, out, stores); })));
    }
    race(racers, 1, settings_.seconds, settings_.least_repetitions);
    return std::min(racers[0].median(), racers[1].median()) / elements;
  }
  static bool fits(double elements, double read, double written) {
    return elements * (read + written) < static_cast<double>(bp::last_level_cache());
  }

 private:
  static constexpr std::size_t kColdShares = 3;

  const Settings& settings_;
  Memory from_, to_;
  Floor floor_;
};

}  // namespace

Limits measure_limits(const Settings& settings) {
  const std::array<double, kSteps> steps = time_steps(settings);
  const auto step = [&](Step s) { return steps[static_cast<std::size_t>(s)]; };
  Limits limits{.steps = {{"a winner compared, dy added where it wins", step(Step::gather)},
                          {"dy of five windows offered to one of five sums", step(Step::offer)},
                          {"a value compared, it and its number selected", step(Step::search)},
                          {"the same with 16 bits", step(Step::search_keys)},
                          {"a product added", step(Step::term)},
                          {"f16 widened", step(Step::widen_f16)},
                          {"f16 rounded to", step(Step::round_f16)},
                          {"bf16 widened", step(Step::widen_bf16)},
                          {"bf16 rounded to", step(Step::round_bf16)}},
                .workloads = {}};
  struct Type {
    std::int32_t dtype;
    double compared, widened, rounded;
  };
  const Type types[] = {{BP_F32, step(Step::search), 0, 0},
                        {BP_F16, step(Step::search_keys), step(Step::widen_f16), step(Step::round_f16)},
                        {BP_BF16, step(Step::search_keys), step(Step::widen_bf16), step(Step::round_bf16)}};
  FloorOfElements floor(settings);
  for (const Work& w : kWork) {
    for (const auto& [dtype, compared, widened, rounded] : types) {
      const auto element = static_cast<double>(tools::dtype_size(dtype));
      const double read = w.read * element + w.winners_read, written = w.written * element + w.winners_written;
      const double elements = w.elements * 1e6, lines = read + w.beside * element;
      const double floor_ns = floor.time(elements, read, written);
      limits.workloads.push_back({.name = w.name,
                                  .dtype = tools::dtype_name(dtype),
                                  .hot = FloorOfElements::fits(elements, read, written),
                                  .arithmetic_ns = w.gathers * step(Step::gather) + w.offers * step(Step::offer) +
                                                   w.comparisons * compared + w.terms * step(Step::term) +
                                                   w.widened * widened + w.rounded * rounded,
                                  .lines_ns = w.beside > 0 ? floor.time(elements, lines, written) : floor_ns,
                                  .floor_ns = floor_ns});
    }
  }
  return limits;
}

}  // namespace bench
