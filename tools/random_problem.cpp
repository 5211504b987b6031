// SPDX-License-Identifier: Apache-2.0
// Random problems for the sweep, written as lines of the command line, so that each one can be typed again.
#include "check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>

namespace tools {

namespace {

class Generator {
 public:
  Generator(std::uint64_t number, std::int32_t kind) : random_(number * 0x9e3779b97f4a7c15u + 77) {
    kind_ = kind != 0 ? kind : static_cast<std::int32_t>(below(operator_names().size())) + BP_RELU;
    line_ = operator_name(kind_);
    seed_ = number;
  }

  std::string line() {
    if (is_elementwise(kind_)) relu();
    if (is_pooling(kind_)) pool();
    if (is_resample(kind_)) resample();
    if (is_slice(kind_)) slice();
    add("--seed", fmt::format("{}", seed_));
    return line_;
  }

 private:
  // ---- Draws ----
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + below(values.size()));
  }

  // ---- The line ----
  void add(std::string_view option, std::string_view value) { line_ += fmt::format(" {} {}", option, value); }
  void add(std::string_view option, const Ints& values) { add(option, fmt::format("{}", fmt::join(values, ","))); }
  void add(std::string_view option, const Reals& values) { add(option, fmt::format("{}", fmt::join(values, ","))); }

  // ---- Shapes and strides ----
  std::int64_t size() { return chance(40) ? 0 : (chance(12) ? between(17, 40) : between(1, 9)); }

  Ints shape(int rank, std::int64_t most) {
    Ints sizes;
    std::int64_t count = 1;
    for (int i = 0; i < rank; ++i) {
      const std::int64_t room = std::max<std::int64_t>(1, most / std::max<std::int64_t>(count, 1));
      sizes.push_back(std::min(size(), room));
      count *= std::max<std::int64_t>(sizes.back(), 1);
    }
    return sizes;
  }

  // Two axes of more than a vector, which strides in another order exchange.
  Ints planes() {
    Ints sizes{between(1, 3), between(4, 40), between(17, 70)};
    if (chance(3)) sizes.insert(sizes.begin() + 2, between(1, 3));
    return sizes;
  }

  // Axes in a random order, with gaps, some walked backwards: provably without shared elements.
  Ints apart_strides(const Ints& sizes) {
    std::vector<std::size_t> order(sizes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    Ints strides(sizes.size());
    std::int64_t reach = 1;
    for (const std::size_t i : order) {
      const std::int64_t stride = reach + (chance(3) ? between(0, 3) : 0);
      strides[i] = chance(4) ? -stride : stride;
      reach = stride * std::max<std::int64_t>(sizes[i], 1);
    }
    return strides;
  }

  Ints any_strides(const Ints& sizes) {
    Ints strides = apart_strides(sizes);
    if (chance(2)) {
      for (std::int64_t& s : strides) {
        if (chance(3)) s = chance(2) ? 0 : between(-3, 3);
      }
    }
    return strides;
  }

  void strides(std::string_view tensor, const Ints& sizes, bool output) {
    if (!chance(2)) return;
    add(fmt::format("--{}-strides", tensor), output ? apart_strides(sizes) : any_strides(sizes));
  }

  void dtype(std::initializer_list<std::string_view> types) { add("--dtype", one_of(types)); }

  // ---- Families ----
  void relu() {
    dtype({"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8"});
    const Ints x = chance(6) ? planes() : shape(static_cast<int>(between(1, 8)), 1500);
    add("--x-shape", x);
    strides("x", x, false);
    if (kind_ == BP_RELU) {
      strides("y", x, true);
    } else {
      strides("dy", x, false);
      strides("dx", x, true);
      if (chance(2)) add("--nan", "pass");
    }
  }

  struct Pool {
    std::int64_t size, window, stride, start, end, dilation, output;
  };

  Pool pool_axis(std::int64_t largest) {
    Pool a{};
    a.size = chance(25) ? 0 : between(1, largest);
    a.window = chance(5) ? between(5, 9) : between(1, 4);
    a.stride = chance(6) ? between(5, 12) : between(1, 3);
    a.dilation = chance(3) ? between(2, 4) : 1;
    a.start = chance(2) ? 0 : between(0, chance(4) ? 12 : a.window);
    a.end = chance(2) ? 0 : between(0, chance(4) ? 12 : a.window);
    if (chance(60)) {  // far beyond the tensor
      a.start = between(1'000'000, 2'000'000'000);
      a.window = a.start + between(1, 8);
      a.dilation = 1;
      a.stride = between(1, 1000);
    }
    return with_output(a);
  }

  // An axis of the windows that networks have, for which there are implementations of their own.
  Pool network_axis(std::int64_t window, std::int64_t stride, std::int64_t dilation, std::int64_t largest) {
    const std::int64_t size = between(1, largest);
    const std::int64_t start = between(0, window - 1), end = chance(6) ? between(0, 3) : between(0, window - 1);
    return with_output({size, window, stride, start, end, dilation, 0});
  }

  Pool with_output(Pool a) {
    const std::int64_t extent = (a.window - 1) * a.dilation + 1;
    if (extent > a.size + a.start + a.end) a.end = extent - a.size - a.start + between(0, 2);
    const std::int64_t room = a.size + a.start + a.end - extent;
    const std::int64_t ceil_size = room / a.stride + (room % a.stride != 0 ? 1 : 0) + 1;
    const std::int64_t floor_size = room / a.stride + 1;
    a.output = chance(3) ? ceil_size : (chance(4) ? between(1, ceil_size) : floor_size);
    a.output = std::min<std::int64_t>(a.output, 100);
    return a;
  }

  void pool() {
    const bool network = chance(3);
    const bool nhwc = network && chance(3);
    const int spatial = static_cast<int>(between(network ? 2 : 1, 3));
    const std::int64_t largest = spatial == 1 ? 60 : (spatial == 2 ? 13 : 6);
    Ints x{chance(30) ? 0 : between(1, 3), chance(30) ? 0 : between(1, 4)};
    if (nhwc || (network && chance(3))) x[1] = chance(3) ? between(1, 66) : 16;
    Ints y = x;
    Ints window, stride, start, end, dilation;
    double taps = 1;
    const auto window_size = one_of<std::int64_t>({2, 3, 3, 5});
    const std::int64_t window_stride = window_size == 2 || (window_size == 3 && chance(2)) ? 2 : 1;
    const std::int64_t gap = window_stride == 1 && chance(3) ? between(2, 3) : 1;
    for (int i = 0; i < spatial; ++i) {
      const std::int64_t depth = between(1, 3);
      Pool a = !network                 ? pool_axis(largest)
               : spatial == 3 && i == 0 ? network_axis(depth, depth, 1, 4)
                                        : network_axis(window_size, window_stride, gap,
                                                       i + 1 < spatial ? 12
                                                       : chance(4)     ? 70
                                                                       : 20);
      if (taps * static_cast<double>(a.window) > 4e9) a = Pool{3, 1, 1, 0, 0, 1, 3};
      taps *= static_cast<double>(a.window);
      x.push_back(a.size), y.push_back(a.output);
      window.push_back(a.window), stride.push_back(a.stride), dilation.push_back(a.dilation);
      start.push_back(a.start), end.push_back(a.end);
    }
    add("--x-shape", x);
    add("--y-shape", y);
    add("--window", window);
    add("--strides", stride);
    add("--start-padding", start);
    add("--end-padding", end);
    add("--dilations", dilation);
    if (kind_ == BP_CONVERT_WINNERS) return convert(y);
    const auto winners = one_of<std::string_view>({"", "compact", "flat"});
    if (nhwc) line_ += " --nhwc";
    if (network && chance(4)) add("--fill", "specials");
    if (!winners.empty()) {
      add("--winners", winners);
      if (winners == "flat") add("--winners-dtype", one_of<std::string_view>({"u32", "u64", "i32", "i64"}));
      if (!network) strides("winners", y, kind_ == BP_MAX_POOL);
    }
    if (network) {
      dtype({"f32", "f16", "bf16"});
      if (kind_ == BP_MAX_POOL_GRAD && !winners.empty() && chance(4)) line_ += " --corrupt-winners";
      if (!nhwc && chance(3)) {
        strides(kind_ == BP_MAX_POOL ? "y" : "dy", y, kind_ == BP_MAX_POOL);
        strides(kind_ == BP_MAX_POOL ? "x" : "dx", x, kind_ == BP_MAX_POOL_GRAD);
      }
    } else if (kind_ == BP_MAX_POOL) {
      dtype({"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"});
      strides("x", x, false);
      strides("y", y, true);
    } else {
      dtype({"f64", "f32", "f16", "bf16"});
      if (winners.empty()) strides("x", x, false);
      strides("dy", y, false);
      strides("dx", x, true);
      if (!winners.empty() && chance(3)) line_ += " --corrupt-winners";
    }
  }

  void convert(const Ints& y) {
    const auto from = one_of<std::string_view>({"compact", "flat", "plane"});
    add("--winners-kind", from);
    if (from != "compact") dtype({"u32", "u64", "i32", "i64"});
    const auto to = one_of<std::string_view>({"compact", "flat", "plane"});
    add("--winners", to);
    if (to != "compact") add("--winners-dtype", one_of<std::string_view>({"u32", "u64", "i32", "i64"}));
    strides("from", y, false);
    strides("winners", y, true);
    if (chance(3)) line_ += " --corrupt-winners";
  }

  std::string table(std::int64_t axis, std::int64_t in, std::int64_t out) {
    std::string text = fmt::format("{}=", axis);
    for (std::int64_t o = 0; o < out; ++o) {
      const std::int64_t first = between(0, in);
      const std::int64_t count = between(0, std::min<std::int64_t>(in - first, 4));
      text += fmt::format("{}{}", o == 0 ? "" : ",", first);
      for (std::int64_t k = 0; k < count; ++k) text += fmt::format(":{}", weight());
    }
    return text;
  }

  double weight() {
    switch (below(8)) {
      case 0:
        return 0;
      case 1:
        return 1;
      case 2:
        return 1 + 1e-12;  // 1 in f32, not in f64
      case 3:
        return -0.25;
      case 4:
        return 1e-60;  // 0 in f32
      default:
        return real(-2, 2);
    }
  }

  double real(double low, double high) { return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53; }

  double scale(std::int64_t in, std::int64_t out) {
    switch (below(8)) {
      case 0:
        return one_of({0.5, 1.0, 2.0, 1.5, 0.25, 3.0});
      case 1:
        return real(0.1, 5);
      case 2:
        return one_of({1e-300, 1e300, 1e-3, 1e6, 3.4028234663852886e38});
      case 3:
        return 1;
      default:
        return in == 0 || out == 0 ? 1.0 : static_cast<double>(out) / static_cast<double>(in);
    }
  }

  double offset() {
    switch (below(6)) {
      case 0:
        return 0.5;
      case 1:
        return -0.5;
      case 2:
        return 0;
      case 3:
        return real(-3, 3);
      case 4:
        return chance(8) ? one_of({1e308, -1e308, 1e-308}) : -1;
      default:
        return 1;
    }
  }

  Reals reals(std::size_t count, double (Generator::*draw)()) {
    Reals values;
    for (std::size_t i = 0; i < count; ++i) values.push_back((this->*draw)());
    return values;
  }

  void resample() {
    if (kind_ == BP_RESAMPLE) {
      dtype({"f64", "f32", "f16", "bf16", "i8", "u8"});
    } else {
      dtype({"f64", "f32", "f16", "bf16"});
    }
    const bool images = chance(4);
    const int rank = static_cast<int>(images ? between(4, 5) : chance(4) ? between(5, 8) : between(1, 4));
    Ints x = shape(rank, 400);
    Ints y = shape(rank, 900);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (chance(3)) y[i] = x[i];
    }
    if (images) {  // as networks have them: all spatial axes by one factor, often rows and channels in whole vectors
      x = {between(1, 2), chance(2) ? 4 * between(1, 3) : between(1, 5)};
      while (static_cast<int>(x.size()) < rank) x.push_back(between(1, rank == 4 ? 9 : 5));
      if (chance(2)) x.back() = 4 * between(1, rank == 4 && chance(4) ? 40 : 3);
      const std::int64_t factor = chance(2) ? 2 : between(1, 9);
      y = x;
      for (std::size_t i = 2; i < y.size(); ++i) y[i] = chance(4) ? std::max<std::int64_t>(x[i] / 2, 1) : x[i] * factor;
    } else if (chance(6)) {  // long sums
      const auto axis = below(x.size());
      y.assign(y.size(), 1);
      y[axis] = between(100, 700);
      x[axis] = between(1, 3);
    }
    const bool empty_x = std::count(x.begin(), x.end(), 0) > 0;
    if (empty_x && kind_ == BP_RESAMPLE) y[below(y.size())] = 0;
    add("--x-shape", x);
    add("--y-shape", y);
    if (images && chance(2)) {
      if (chance(2)) line_ += " --nhwc";
    } else if (kind_ == BP_RESAMPLE) {
      strides("x", x, false);
      strides("y", y, true);
    } else {
      strides("dy", y, false);
      strides("dx", x, true);
    }
    add("--mode", one_of<std::string_view>({"nearest", "linear", "linear"}));
    add("--rounding", one_of<std::string_view>({"increasing", "decreasing", "half-up"}));
    add("--convention", one_of<std::string_view>({"half-pixel", "align-corners", "asymmetric"}));
    if (chance(2)) {
      Reals scales;
      for (std::size_t i = 0; i < x.size(); ++i) scales.push_back(scale(x[i], y[i]));
      add("--scales", scales);
      if (chance(2)) add("--input-offsets", reals(x.size(), &Generator::offset));
      if (chance(2)) add("--output-offsets", reals(x.size(), &Generator::offset));
    }
    if (chance(4)) {
      const auto axis = static_cast<std::int64_t>(below(x.size()));
      if (y[static_cast<std::size_t>(axis)] > 0) {
        add("--table", table(axis, x[static_cast<std::size_t>(axis)], y[static_cast<std::size_t>(axis)]));
      }
    }
  }

  void slice() {
    dtype({"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"});
    const Ints x = chance(6) ? planes() : shape(static_cast<int>(between(1, 8)), 1500);
    Ints offsets, sizes, steps, y;
    for (const std::int64_t whole : x) {
      const std::int64_t offset = whole == 0 ? 0 : (chance(2) ? 0 : between(0, whole - 1));
      const std::int64_t window = whole == 0 ? 0 : (chance(2) ? whole - offset : between(1, whole - offset));
      const std::int64_t magnitude = chance(2) ? 1 : between(1, 4);
      offsets.push_back(offset), sizes.push_back(window);
      steps.push_back(chance(3) ? -magnitude : magnitude);
      const std::int64_t most = window == 0 ? 0 : 1 + (window - 1) / magnitude;
      y.push_back(most > 0 && chance(4) ? between(1, most) : most);
    }
    add("--x-shape", x);
    add("--y-shape", y);
    add("--offsets", offsets);
    add("--sizes", sizes);
    add("--strides", steps);
    const bool forward = kind_ == BP_SLICE;
    strides(forward ? "x" : "dx", x, !forward);
    strides(forward ? "y" : "dy", y, forward);
  }

  std::mt19937_64 random_;
  std::int32_t kind_ = 0;
  std::string line_;
  std::uint64_t seed_ = 0;
};

}  // namespace

std::string random_problem(std::uint64_t number, std::int32_t kind) { return Generator(number, kind).line(); }

}  // namespace tools
