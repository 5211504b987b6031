// SPDX-License-Identifier: Apache-2.0
// 2D max pooling backward, as Composable Kernel's example of that name promises it: verified, with chosen data, timed.
// The document's AMD target (hipcc, XDL) is not built here: this program runs on the CPU.
//
//     maxpool2d_bwd [VERIFY INIT TIME]      default: 1 1 0
//
//     VERIFY  0 no, 1 compare every bit with the plain loop below
//     INIT    0 none: x all 0 and dy all 1, so that every window is a tie; 1 small integers; 2 reals
//     TIME    0 no, 1 the median of several runs, and the bytes that must move over it
#include <backpass/backpass.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <random>
#include <string_view>
#include <vector>

namespace {

using backpass::bf16;
using backpass::f16;
using backpass::Winners;

struct Arguments {
  bool verify = true;
  int init = 1;
  bool time = false;
};

struct Problem {
  std::int64_t n, c, h, w, window, stride, pad;

  [[nodiscard]] std::int64_t pooled(std::int64_t size) const { return (size + 2 * pad - window) / stride + 1; }
  [[nodiscard]] backpass::Dims x_sizes() const { return {n, c, h, w}; }
  [[nodiscard]] backpass::Dims y_sizes() const { return {n, c, pooled(h), pooled(w)}; }
};

std::size_t element_count(const backpass::Dims& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return static_cast<std::size_t>(count);
}

// ---- The half types, in plain arithmetic ----------------------------------------------------------------

float widen(float v) { return v; }
float widen(bf16 v) { return std::bit_cast<float>(std::uint32_t{v.bits} << 16); }
float widen(f16 v) {
  const int exponent = (v.bits >> 10) & 31, mantissa = v.bits & 1023;
  const float magnitude = exponent == 0    ? std::ldexp(static_cast<float>(mantissa), -24)
                          : exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                                           : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return (v.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// To the nearest, ties to even.
void narrow(float v, float& result) { result = v; }
void narrow(float v, bf16& result) {
  const auto bits = std::bit_cast<std::uint32_t>(v);
  result.bits = std::isnan(v) ? 0x7fc0 : static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
void narrow(float v, f16& result) {
  const int sign = std::signbit(v) ? 0x8000 : 0;
  if (std::isnan(v)) {
    result.bits = 0x7e00;
  } else if (std::abs(v) >= 65520) {
    result.bits = static_cast<std::uint16_t>(sign | 0x7c00);
  } else {
    // In units of the last place, of which a subnormal has fewer; a carry runs into the exponent as it should.
    const int exponent = std::max(v == 0 ? -14 : std::ilogb(v), -14);
    const int units = static_cast<int>(std::nearbyint(std::ldexp(std::abs(v), 10 - exponent)));
    result.bits = static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + units));
  }
}

// ---- Data -------------------------------------------------------------------------------------------------

template <class T>
std::vector<T> filled(std::size_t count, int init, float untouched, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<T> values(count);
  for (T& v : values) {
    const auto random = static_cast<float>(engine() >> 8) * 0x1p-24f;  // [0, 1)
    narrow(init == 0 ? untouched : init == 1 ? std::floor(random * 11) - 5 : random - 0.5f, v);
  }
  return values;
}

// ---- The plain loop ----------------------------------------------------------------------------------------

// The first of the greatest elements under the window of output (oh, ow), as an index into the plane.
template <class T>
std::int64_t winner(const Problem& p, const T* plane, std::int64_t oh, std::int64_t ow) {
  std::int64_t best = -1;
  for (std::int64_t kh = 0; kh < p.window; ++kh) {
    for (std::int64_t kw = 0; kw < p.window; ++kw) {
      const std::int64_t h = oh * p.stride - p.pad + kh, w = ow * p.stride - p.pad + kw;
      if (h < 0 || h >= p.h || w < 0 || w >= p.w) continue;
      const std::int64_t at = h * p.w + w;
      if (best < 0 || widen(plane[at]) > widen(plane[best])) best = at;
    }
  }
  return best;
}

// Every gradient goes to its window's winner; sums in f32, rounded once.
template <class T>
std::vector<T> plain_loop(const Problem& p, const std::vector<T>& x, const std::vector<T>& dy) {
  const std::int64_t rows = p.pooled(p.h), columns = p.pooled(p.w);
  std::vector<float> sums(x.size(), 0.0f);
  for (std::int64_t plane = 0; plane < p.n * p.c; ++plane) {
    const T* gradients = dy.data() + plane * rows * columns;
    float* into = sums.data() + plane * p.h * p.w;
    for (std::int64_t oh = 0; oh < rows; ++oh) {
      for (std::int64_t ow = 0; ow < columns; ++ow) {
        const std::int64_t at = winner(p, x.data() + plane * p.h * p.w, oh, ow);
        if (at >= 0) into[at] += widen(gradients[oh * columns + ow]);
      }
    }
  }
  std::vector<T> dx(x.size());
  for (std::size_t i = 0; i < dx.size(); ++i) narrow(sums[i], dx[i]);
  return dx;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// ---- The library -------------------------------------------------------------------------------------------

template <class T>
struct Data {
  std::vector<T> x, dy, expected;  // nothing is expected where nothing is to be verified
};

// The winners that the forward operator stores.
template <class W, class T>
std::vector<W> stored_winners(const Problem& p, const std::vector<T>& x, const backpass::PoolOptions& options) {
  std::vector<T> y(element_count(p.y_sizes()));
  std::vector<W> winners(y.size());
  backpass::max_pool(backpass::Tensor(x, p.x_sizes()), backpass::Tensor(y, p.y_sizes()),
                     backpass::Tensor(winners, p.y_sizes()), options);
  return winners;
}

template <class Run>
double median_ns(const Run& run) {
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  return times[7];
}

// Runs an operator on the inputs, verifies, times, and prints a line. The timed runs write to memory of their own, so
// what was verified is what the first run left.
template <class T>
bool report(const Arguments& arguments, const Data<T>& data, const backpass::Operator& op,
            std::initializer_list<const void*> inputs) {
  std::vector<T> dx(data.x.size()), timed(data.x.size());
  std::memset(dx.data(), 0xff, dx.size() * sizeof(T));  // NaN: whatever is not written shows
  std::vector<std::byte> workspace(op.workspace_size());
  op.run(inputs, {dx.data()}, workspace.data());
  double ns = 0;
  if (arguments.time) ns = median_ns([&] { op.run(inputs, {timed.data()}, workspace.data()); });
  const bool right =
      !arguments.verify || (same_bits(dx, data.expected) && (!arguments.time || same_bits(timed, data.expected)));
  std::printf("%-15s %-8s", op.implementation(), !arguments.verify ? "-" : right ? "yes" : "NO");
  if (arguments.time) {
    std::printf(" %10.1f %8.2f", ns / 1000, static_cast<double>(op.bytes()) / ns);
  } else {
    std::printf(" %10s %8s", "-", "-");
  }
  std::printf("\n");
  return right;
}

void begin_line(const Problem& p, const char* type, const char* winners) {
  std::printf("%lldx%lldx%lldx%lld, %lldx%lld stride %lld pad %lld   %-5s %-11s ", static_cast<long long>(p.n),
              static_cast<long long>(p.c), static_cast<long long>(p.h), static_cast<long long>(p.w),
              static_cast<long long>(p.window), static_cast<long long>(p.window), static_cast<long long>(p.stride),
              static_cast<long long>(p.pad), type, winners);
}

template <class T>
bool recomputed(const Arguments& arguments, const Problem& p, const backpass::PoolOptions& options,
                const Data<T>& data) {
  const backpass::TensorDesc x = backpass::Tensor(data.x, p.x_sizes()), dy = backpass::Tensor(data.dy, p.y_sizes());
  const backpass::Operator op(backpass::MaxPoolGrad{.x = x, .dy = dy, .dx = x, .window = options.as_window()});
  return report(arguments, data, op, {data.x.data(), data.dy.data()});
}

template <class W, class T>
bool stored(const Arguments& arguments, const Problem& p, const backpass::PoolOptions& options, const Data<T>& data) {
  const std::vector<W> winners = stored_winners<W>(p, data.x, options);
  const backpass::TensorDesc x = backpass::Tensor(data.x, p.x_sizes()), dy = backpass::Tensor(data.dy, p.y_sizes());
  const backpass::Operator op(backpass::MaxPoolGrad{.dy = dy,
                                                    .winners = backpass::Tensor(winners, p.y_sizes()).desc(),
                                                    .dx = x,
                                                    .window = options.as_window(),
                                                    .winners_kind = options.winners});
  return report(arguments, data, op, {nullptr, data.dy.data(), winners.data()});
}

template <class T>
bool run_type(const Arguments& arguments, const Problem& p, const char* type) {
  Data<T> data{.x = filled<T>(element_count(p.x_sizes()), arguments.init, 0, 1),
               .dy = filled<T>(element_count(p.y_sizes()), arguments.init, 1, 2),
               .expected = {}};
  if (arguments.verify) data.expected = plain_loop(p, data.x, data.dy);
  backpass::PoolOptions options{.window = {p.window, p.window},
                                .strides = {p.stride, p.stride},
                                .start_padding = {p.pad, p.pad},
                                .end_padding = {p.pad, p.pad}};
  begin_line(p, type, "recomputed");
  bool right = recomputed(arguments, p, options, data);
  begin_line(p, type, "compact u8");
  options.winners = Winners::compact;
  right = stored<std::uint8_t>(arguments, p, options, data) && right;
  begin_line(p, type, "flat i64");
  options.winners = Winners::flat;
  return stored<std::int64_t>(arguments, p, options, data) && right;
}

bool run_all(const Arguments& arguments) {
  std::printf("%-32s %-5s %-11s %-15s %-8s %10s %8s\n", "problem", "type", "winners", "implementation", "verified",
              "median us", "GB/s");
  bool right = true;
  for (const std::int64_t stride : {2, 1}) {
    const Problem p{.n = 2, .c = 16, .h = 64, .w = 64, .window = 3, .stride = stride, .pad = 1};
    right = run_type<float>(arguments, p, "f32") && right;
    right = run_type<f16>(arguments, p, "f16") && right;
    right = run_type<bf16>(arguments, p, "bf16") && right;
  }
  return right;
}

// A number from 0 to `most`, and nothing else.
bool parse(std::string_view text, int most, int& value) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '0' + most) return false;
  value = text[0] - '0';
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  int verify = 1, init = 1, time = 0;
  const bool given = argc == 4 && parse(argv[1], 1, verify) && parse(argv[2], 2, init) && parse(argv[3], 1, time);
  if (argc != 1 && !given) {
    std::fprintf(stderr,
                 "usage: maxpool2d_bwd [VERIFY INIT TIME]   default: 1 1 0\n"
                 "  VERIFY  0 no, 1 yes\n"
                 "  INIT    0 none (x all 0, dy all 1), 1 integers, 2 reals\n"
                 "  TIME    0 no, 1 yes\n");
    return 2;
  }
  try {
    const bool right = run_all({.verify = verify != 0, .init = init, .time = time != 0});
    if (verify != 0)
      std::printf("%s\n", right ? "Every bit as the plain loop has it." : "NOT as the plain loop has it.");
    return right ? 0 : 1;
  } catch (const backpass::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
