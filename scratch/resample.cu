#include "harness.h"
#ifdef EMULATE
#undef __shared__
#define __shared__ static
#undef __align__
#define __align__(n)
#undef __launch_bounds__
#define __launch_bounds__(...)
#endif
#include "ops/resample/cuda_separable.cuh"
#include "ops/resample/geometry.h"
#ifdef EMULATE
namespace bp::cuda { alignas(16) float shared_rows[1 << 18]; }
#endif
using namespace bp::cuda;

struct Csr { std::vector<int64_t> begin, index; std::vector<double> weight; };
Csr build(int in, int out, bool linear, bp::Convention convention) {
  std::vector<std::vector<std::pair<int64_t, double>>> rows(in);
  for (int o = 0; o < out; ++o) {
    const bp::ExactCoordinate c(convention, o, in, out);
    const bp::Taps taps = linear ? c.linear(in, bp::Accumulator::f32) : c.nearest(in, bp::Rounding::half_up);
    for (int k = 0; k < taps.count; ++k) rows[taps.tap[k].index].push_back({o, taps.tap[k].weight});
  }
  Csr t; t.begin.push_back(0);
  for (auto& r : rows) { for (auto& e : r) { t.index.push_back(e.first); t.weight.push_back(e.second); } t.begin.push_back(t.index.size()); }
  return t;
}

struct Problem {
  std::string name;
  int n, c, d, h, w, od, oh, ow;
  bool linear = true;
  bp::Convention convention = bp::Convention::half_pixel;
  size_t X() const { return size_t(n) * c * d * h * w; }
  size_t Y() const { return size_t(n) * c * od * oh * ow; }
};
template <class T> ResampleView<T> view(T* p, bool nhwc, int64_t c, int64_t d, int64_t h, int64_t w) {
  if (nhwc) return {p, c * d * h * w, 1, c * h * w, c * w, c};
  return {p, c * d * h * w, d * h * w, h * w, w, 1};
}

template <class T> void reference(const Problem& p, ResampleView<const T> dy, ResampleView<T> dx) {
  const Csr D = build(p.d, p.od, p.linear, p.convention), H = build(p.h, p.oh, p.linear, p.convention), W = build(p.w, p.ow, p.linear, p.convention);
  const bool volume = p.od != 1 || p.d != 1;
  for (int n = 0; n < p.n; ++n) for (int c = 0; c < p.c; ++c) {
    const T* base = dy.data + n * dy.batch + c * dy.channel;
    std::vector<float> t1(size_t(p.d) * p.oh * p.ow), t2(size_t(p.d) * p.h * p.ow);
    for (int i = 0; i < p.d; ++i) for (int a = 0; a < p.oh; ++a) for (int b = 0; b < p.ow; ++b) {
      volatile float s = 0;
      if (!volume) s = 0.0f + host_f32(base[a * dy.row + b * dy.column]);
      else for (int64_t k = D.begin[i]; k < D.begin[i + 1]; ++k) { volatile float m = (float)D.weight[k] * host_f32(base[D.index[k] * dy.depth + a * dy.row + b * dy.column]); s = s + m; }
      t1[(size_t(i) * p.oh + a) * p.ow + b] = s;
    }
    for (int i = 0; i < p.d; ++i) for (int a = 0; a < p.h; ++a) for (int b = 0; b < p.ow; ++b) {
      volatile float s = 0;
      for (int64_t k = H.begin[a]; k < H.begin[a + 1]; ++k) { volatile float m = (float)H.weight[k] * t1[(size_t(i) * p.oh + H.index[k]) * p.ow + b]; s = s + m; }
      t2[(size_t(i) * p.h + a) * p.ow + b] = s;
    }
    for (int i = 0; i < p.d; ++i) for (int a = 0; a < p.h; ++a) for (int b = 0; b < p.w; ++b) {
      volatile float s = 0;
      for (int64_t k = W.begin[b]; k < W.begin[b + 1]; ++k) { volatile float m = (float)W.weight[k] * t2[(size_t(i) * p.h + a) * p.ow + W.index[k]]; s = s + m; }
      dx.data[n * dx.batch + c * dx.channel + i * dx.depth + a * dx.row + b * dx.column] = host_narrow<T>(s);
    }
  }
}

template <class V> auto* upload(const std::vector<V>& v) { V* p = (V*)device_alloc(v.size() * sizeof(V) + 16); to_device(p, v.data(), v.size() * sizeof(V)); return p; }
struct Tables { ResampleAxis depth{}, rows{}, columns{}; std::vector<OutputRun> column_runs; bool unit = true, short_ = true; };
Tables tables_of(const Problem& p) {
  Tables t;
  auto one = [&](int in, int out) {
    const Csr c = build(in, out, p.linear, p.convention);
    auto made = make_tables(in, out, c.begin.data(), c.index.data(), c.weight.data());
    if (!made) { std::printf("refused\n"); std::exit(1); }
    t.column_runs = made->runs; t.unit &= made->unit_weights; t.short_ &= made->short_weights;
    return ResampleAxis{in, out, upload(made->fed), upload(made->runs), upload(made->weights)};
  };
  t.depth = one(p.d, p.od); t.rows = one(p.h, p.oh); t.columns = one(p.w, p.ow);
  return t;
}
inline int g_pixel = 32;
template <class T, class Shape> void launch(const Problem& p, bool nhwc, const Tables& t, const T* dy, T* dx) {
  ResampleCut cut{};
  cut.batch = p.n; cut.channels = p.c; cut.depth = t.depth; cut.rows = t.rows; cut.columns = t.columns;
  const ResampleGrid g = cut_resample<Shape>(cut, t.column_runs.data(), g_pixel);
  if (cut.units == 0) { std::printf("too wide\n"); std::exit(1); }
  LAUNCH((resample_grad_separable<T, Shape>), g.blocks, g.threads, g.shared_bytes, cut, view<const T>(dy, nhwc, p.c, p.od, p.oh, p.ow), view<T>(dx, nhwc, p.c, p.d, p.h, p.w));
}
template <class T, class Shape> void check(const Problem& full, const Tables& t) {
  constexpr bool nhwc = !Shape::kPlanar;
  Problem p = full;
#ifdef EMULATE
  p.n = 1; p.c = nhwc ? p.c % 4 == 0 ? 40 : p.c : 2;
  if (p.X() + p.Y() > 600000) p.c = nhwc ? p.c % 4 ? p.c : 8 : 1;
  if (p.X() + p.Y() > 2000000) return;
#else
  p.n = 1; p.c = nhwc ? p.c % 4 == 0 ? 40 : p.c : 3;
  if (p.Y() > 4000000) p.c = nhwc ? p.c % 4 ? p.c : 8 : 1;
#endif
  const size_t X = p.X(), Y = p.Y();
  std::vector<T> dy(Y), dx(X), got(X);
  std::mt19937 rng(5);
  for (auto& v : dy) { const uint32_t b = rng(); const int r = b % 3000; v = host_narrow<T>(r == 0 ? NAN : r == 1 ? INFINITY : r < 300 ? -0.0f : r < 400 ? 1e-7f * (b >> 16) : float(int((b >> 12) % 20001) - 10000) * 0.00137f); }
  reference<T>(p, view<const T>(dy.data(), nhwc, p.c, p.od, p.oh, p.ow), view<T>(dx.data(), nhwc, p.c, p.d, p.h, p.w));
  T* ddy = (T*)device_alloc(Y * sizeof(T)); T* ddx = (T*)device_alloc(X * sizeof(T));
  std::vector<char> bad(X * sizeof(T), 0x5a);
  to_device(ddy, dy.data(), Y * sizeof(T)); to_device(ddx, bad.data(), X * sizeof(T));
  launch<T, Shape>(p, nhwc, t, ddy, ddx);
  CUDA(cudaDeviceSynchronize());
  to_host(got.data(), ddx, X * sizeof(T));
  device_free(ddy); device_free(ddx);
  compared += X;
  for (size_t i = 0; i < X; ++i) if (!same_bits(dx[i], got[i], true)) { ++failures; std::printf("FAIL %s %s %s chunk %d at %zu: want %g got %g\n", p.name.c_str(), type_name<T>(), nhwc ? "NHWC" : "NCHW", Shape::kChunk, i, host_f32(dx[i]), host_f32(got[i])); break; }
}
template <class T, class Shape> void both(const Problem& full) {
  constexpr bool nhwc = !Shape::kPlanar;
  const Tables t = tables_of(full);
  if (Shape::kExact == Exact::all && !t.unit) { std::printf("not exact\n"); return; }
  if (Shape::kExact == Exact::first && (!t.short_ || sizeof(T) == 4)) { std::printf("not exact\n"); return; }
#ifdef EMULATE
  check<T, Shape>(full, t);
#else
  if (!profiling()) check<T, Shape>(full, t);
  if (failures > 3 || std::getenv("CHECK_ONLY")) return;
  const size_t X = full.X(), Y = full.Y(), bytes = (X + Y) * sizeof(T);
  const int sets = std::max<int>(2, (size_t(400) << 20) / bytes + 1);
  std::vector<T*> dy(sets), dx(sets);
  for (int i = 0; i < sets; ++i) { dy[i] = random_device<T>(Y, i + 1); dx[i] = (T*)device_alloc(X * sizeof(T)); }
  {
    const double us = time_us([&](int i) { launch<T, Shape>(full, nhwc, t, dy[i % sets], dx[i % sets]); });
    char variant[60]; std::snprintf(variant, sizeof variant, "%d %d c%dx%dp%do%dr%dd%da%d", g_pixel, Shape::kThreads, Shape::kChunk, Shape::kPieces, Shape::kPasses, Shape::kOut, Shape::kRows, Shape::kDepths, Shape::kAhead);
    report(full.name, type_name<T>(), nhwc ? "NHWC" : "NCHW", variant, us, bytes);
  }
  for (int i = 0; i < sets; ++i) { device_free(dy[i]); device_free(dx[i]); }
#endif
}

#ifndef T_
#define T_ float
#endif
#include "resample_cases.h"
int main() {
#ifndef EMULATE
  measure_copy();
#endif
  cases<T_>();
  std::printf("%d failures, %zu compared\n", failures, compared);
  return failures != 0;
}
