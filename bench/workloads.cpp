// SPDX-License-Identifier: Apache-2.0
// The problems that are timed: those of workloads.txt, and one of each operator in any size.
#include "embedded_workloads.h"
#include "harness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <span>

namespace bench {

namespace {

// A power of two of elements as N, C, H, W. Images: first the height and width grow, to 64 each, then the channels, to
// 64, then the batch. A plane is as large as it must be.
tools::Ints shape_of(Shape shape, std::uint64_t elements) {
  const int bits = static_cast<int>(std::bit_width(elements)) - 1;
  const int most = shape == Shape::plane ? bits : 6;
  const int width = std::min(most, (bits + 1) / 2);
  const int height = std::min(most, bits / 2);
  const int channels = std::min(6, bits - width - height);
  const int batch = bits - width - height - channels;
  return {std::int64_t{1} << batch, std::int64_t{1} << channels, std::int64_t{1} << height, std::int64_t{1} << width};
}

std::string none(const tools::Ints&) { return ""; }
std::string pooling(const tools::Ints&) { return "--window 3 --strides 2 --start-padding 1 --end-padding 1"; }
std::string compact(const tools::Ints& x) { return pooling(x) + " --winners compact"; }
std::string twice(const tools::Ints& x) { return fmt::format("--y-shape {},{},{},{}", x[0], x[1], 2 * x[2], 2 * x[3]); }
std::string nearest(const tools::Ints& x) { return twice(x) + " --mode nearest"; }
std::string half(const tools::Ints& x) {
  return fmt::format("--offsets 0,0,0,{} --sizes {},{},{},{}", x[3] / 4, x[0], x[1], x[2], x[3] / 2);
}

struct Ordinary {
  std::string_view name, op;
  double each;  // the bytes that move for each element of x, in f32
  std::string (*parameters)(const tools::Ints& x);
};
constexpr Ordinary kOrdinary[] = {
    {"relu", "relu", 8, none},
    {"relu-grad", "relu-grad", 12, none},
    {"max-pool", "max-pool", 5.25, compact},
    {"max-pool-grad", "max-pool-grad", 5.25, compact},
    {"resample", "resample", 20, twice},
    {"resample-grad", "resample-grad", 20, twice},
    {"slice", "slice", 4, half},
    {"slice-grad", "slice-grad", 6, half},
};
// The other ways of two gradients.
constexpr Ordinary kOtherWays[] = {
    {"max-pool-grad recompute", "max-pool-grad", 9, pooling},
    {"resample-grad nearest", "resample-grad", 20, nearest},
};

tools::Problem problem_of(const Ordinary& o, Shape shape, std::uint64_t bytes) {
  const tools::Ints x = shape_of(shape, static_cast<std::uint64_t>(static_cast<double>(bytes) / o.each));
  return tools::parse_problem(fmt::format("{} --x-shape {} {}", o.op, fmt::join(x, ","), o.parameters(x)));
}

// ---- Strides -----------------------------------------------------------------------------------------------

tools::Ints packed(const tools::Ints& s) { return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1}; }
tools::Ints with_rows_apart(const tools::Ints& s) { return packed({s[0], s[1], s[2], s[3] + 3}); }
tools::Ints with_columns_apart(const tools::Ints& s) {
  tools::Ints strides = packed(s);
  for (std::int64_t& stride : strides) stride *= 2;
  return strides;
}
tools::Ints with_w_reversed(const tools::Ints& s) { return {s[1] * s[2] * s[3], s[2] * s[3], s[3], -1}; }
tools::Ints with_h_and_w_exchanged(const tools::Ints& s) { return {s[1] * s[2] * s[3], s[2] * s[3], 1, s[2]}; }
tools::Ints channels_last(const tools::Ints& s) { return {s[1] * s[2] * s[3], 1, s[3] * s[1], s[1]}; }

struct Strides {
  std::string_view name;
  tools::Ints (*x)(const tools::Ints& sizes);  // of x and dx
  tools::Ints (*y)(const tools::Ints& sizes);  // of y, dy and the winners
};
constexpr Strides kStrides[] = {
    {"rows apart", with_rows_apart, with_rows_apart},
    {"columns apart", with_columns_apart, with_columns_apart},
    {"W reversed", with_w_reversed, with_w_reversed},
    {"H, W exchanged", with_h_and_w_exchanged, with_h_and_w_exchanged},
    {"only y NHWC", packed, channels_last},
};

}  // namespace

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = [] {
    std::vector<Workload> parsed;
    for (const auto& [section, problem] : tools::parse_problems(kEmbeddedWorkloads))
      parsed.push_back({section, problem});
    return parsed;
  }();
  return all;
}

std::vector<tools::Problem> problems_of_size(std::uint64_t bytes) {
  std::vector<tools::Problem> problems;
  for (const Ordinary& o : kOrdinary) {
    problems.push_back(problem_of(o, Shape::images, bytes));
    problems.back().name = fmt::format("{}_{}", o.name, bytes);
  }
  return problems;
}

std::vector<tools::Problem> problems_in_all_ways(Shape shape, std::uint64_t bytes) {
  std::vector<tools::Problem> problems;
  for (const std::span<const Ordinary> list : {std::span<const Ordinary>(kOrdinary), {kOtherWays}}) {
    for (const Ordinary& o : list) {
      problems.push_back(problem_of(o, shape, bytes));
      problems.back().name = o.name;
    }
  }
  return problems;
}

std::vector<Strided> in_other_strides(const tools::Problem& problem) {
  std::vector<Strided> all;
  for (const Strides& strides : kStrides) {
    all.push_back({std::string(strides.name), problem});
    tools::Problem& p = all.back().problem;
    p.x_strides = p.dx_strides = strides.x(p.x_shape);
    p.y_strides = p.dy_strides = p.winners_strides = strides.y(p.y_shape);
  }
  return all;
}

}  // namespace bench
