// SPDX-License-Identifier: Apache-2.0
// The problems that are timed: those of workloads.txt, and one of each operator in any size.
#include "embedded_workloads.h"
#include "harness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

namespace bench {

namespace {

// A power of two of elements: first the height and width grow, to 64 each, then the channels, to 64, then the batch.
tools::Ints shape_of(std::uint64_t elements) {
  const int bits = static_cast<int>(std::bit_width(elements)) - 1;
  const int width = std::min(6, (bits + 1) / 2);
  const int height = std::min(6, bits / 2);
  const int channels = std::min(6, bits - width - height);
  const int batch = bits - width - height - channels;
  return {std::int64_t{1} << batch, std::int64_t{1} << channels, std::int64_t{1} << height, std::int64_t{1} << width};
}

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
  // `each`: the bytes that move for each element of x, in f32.
  const auto add = [&](std::string_view op, double each, auto&& parameters) {
    const tools::Ints x = shape_of(static_cast<std::uint64_t>(static_cast<double>(bytes) / each));
    problems.push_back(tools::parse_problem(fmt::format("{} --x-shape {} {}", op, fmt::join(x, ","), parameters(x))));
    problems.back().name = fmt::format("{}_{}", op, bytes);
  };
  const auto none = [](const tools::Ints&) { return ""; };
  const auto pooling = [](const tools::Ints&) {
    return "--window 3 --strides 2 --start-padding 1 --end-padding 1 --winners compact";
  };
  const auto twice = [](const tools::Ints& x) {
    return fmt::format("--y-shape {},{},{},{}", x[0], x[1], 2 * x[2], 2 * x[3]);
  };
  const auto half = [](const tools::Ints& x) {
    return fmt::format("--offsets 0,0,0,{} --sizes {},{},{},{}", x[3] / 4, x[0], x[1], x[2], x[3] / 2);
  };
  add("relu", 8, none);
  add("relu-grad", 12, none);
  add("max-pool", 5.25, pooling);
  add("max-pool-grad", 5.25, pooling);
  add("resample", 20, twice);
  add("resample-grad", 20, twice);
  add("slice", 4, half);
  add("slice-grad", 6, half);
  return problems;
}

}  // namespace bench
