#include "harness.h"
#ifdef EMULATE
#undef __shared__
#define __shared__ static
#undef __align__
#define __align__(n)
#undef __launch_bounds__
#define __launch_bounds__(...)
#endif
#include "ops/max_pool/cuda_tiles.cuh"
#ifdef EMULATE
namespace bp::cuda { alignas(16) std::uint8_t shared_winners[1 << 18]; }
#endif
using namespace bp::cuda;

struct Problem {
  std::string name;
  int n, c, d, h, w;
  int window, stride, dilation, padding;
  int wd = 1, sd = 1;
  int oh = 0, ow = 0;
  int out(int in) const { return (in + 2 * padding - ((window - 1) * dilation + 1)) / stride + 1; }
  int OH() const { return oh ? oh : out(h); }
  int OW() const { return ow ? ow : out(w); }
  int OD() const { return (d - wd) / sd + 1; }
  size_t X() const { return size_t(n) * c * d * h * w; }
  size_t Y() const { return size_t(n) * c * OD() * OH() * OW(); }
};

// strides {n,c,d,h,w}
template <class T> PoolView<T> view(T* p, bool nhwc, int64_t c, int64_t d, int64_t h, int64_t w) {
  if (nhwc) return {p, c * d * h * w, 1, c * h * w, c * w, c};
  return {p, c * d * h * w, d * h * w, h * w, w, 1};
}
template <class T> T& at(const PoolView<T>& v, int n, int c, int d, int h, int w) {
  return v.data[n * v.batch + c * v.channel + d * v.depth + h * v.row + w * v.column];
}

template <class T> void reference(const Problem& p, PoolView<const T> x, PoolView<const T> dy, PoolView<T> y, PoolView<uint8_t> win, PoolView<T> dx, bool given) {
  const int D = p.d, H = p.h, W = p.w;
  for (int n = 0; n < p.n; ++n) for (int c = 0; c < p.c; ++c) {
    std::vector<float> sums(size_t(D) * H * W, 0.0f);
    for (int od = 0; od < p.OD(); ++od) for (int oh = 0; oh < p.OH(); ++oh) for (int ow = 0; ow < p.OW(); ++ow) {
      int tap = 255;
      if (!given) {
        T best{};
        for (int kd = 0; kd < p.wd; ++kd) for (int ky = 0; ky < p.window; ++ky) for (int kx = 0; kx < p.window; ++kx) {
          const int z = od * p.sd + kd, yy = oh * p.stride - p.padding + ky * p.dilation, xx = ow * p.stride - p.padding + kx * p.dilation;
          if (z >= D || yy < 0 || yy >= H || xx < 0 || xx >= W) continue;
          const T v = at(x, n, c, z, yy, xx);
          const float f = host_f32(v), b = host_f32(best);
          if (tap == 255 || f > b || (f != f && b == b)) { best = v; tap = (kd * p.window + ky) * p.window + kx; }
        }
        at(y, n, c, od, oh, ow) = tap == 255 ? host_narrow<T>(-INFINITY) : best;
        at(win, n, c, od, oh, ow) = tap;
      } else tap = at(win, n, c, od, oh, ow);
      if (tap >= p.wd * p.window * p.window) continue;
      const int kd = tap / (p.window * p.window), ky = tap / p.window % p.window, kx = tap % p.window;
      const int z = od * p.sd + kd, yy = oh * p.stride - p.padding + ky * p.dilation, xx = ow * p.stride - p.padding + kx * p.dilation;
      if (z >= D || yy < 0 || yy >= H || xx < 0 || xx >= W) continue;
      sums[(size_t(z) * H + yy) * W + xx] += host_f32(at(dy, n, c, od, oh, ow));
    }
    for (int z = 0; z < D; ++z) for (int yy = 0; yy < H; ++yy) for (int xx = 0; xx < W; ++xx)
      at(dx, n, c, z, yy, xx) = host_narrow<T>(sums[(size_t(z) * H + yy) * W + xx]);
  }
}

inline PoolCut cut_of(const Problem& p) {
  PoolCut cut{};
  cut.batch = p.n; cut.channels = p.c; cut.depth = p.d; cut.height = p.h; cut.width = p.w;
  cut.out_depth = p.OD(); cut.out_height = p.OH(); cut.out_width = p.OW();
  cut.row_padding = p.padding; cut.depth_window = p.wd; cut.depth_stride = p.sd;
  return cut;
}

template <class T> struct Buffers {
  T *x, *y, *dy, *dx; uint8_t* win; int* wrong;
};
inline int g_strip = 16;
enum Op { kForward = 1, kCompact = 2, kRecompute = 4 };

template <class T, class Tile, bool kVolume> void launch(const Problem& p, bool nhwc, Op op, const Buffers<T>& b) {
  PoolCut cut = cut_of(p);
  const auto x = view<const T>(b.x, nhwc, p.c, p.d, p.h, p.w);
  const auto dy = view<const T>(b.dy, nhwc, p.c, p.OD(), p.OH(), p.OW());
  const auto y = view<T>(b.y, nhwc, p.c, p.OD(), p.OH(), p.OW());
  const auto win = view<uint8_t>(b.win, nhwc, p.c, p.OD(), p.OH(), p.OW());
  const auto cwin = view<const uint8_t>(b.win, nhwc, p.c, p.OD(), p.OH(), p.OW());
  const auto dx = view<T>(b.dx, nhwc, p.c, p.d, p.h, p.w);
  if (op == kCompact) {
    const PoolGrid g = cut_max_pool_grad_compact<Tile>(cut);
    LAUNCH((max_pool_grad_compact<T, Tile, kVolume>), g.blocks, g.threads, 0, cut, dy, cwin, dx, b.wrong);
  } else if constexpr (!kVolume) {
    if (op == kForward) {
      const PoolGrid g = cut_max_pool<Tile>(cut);
      LAUNCH((max_pool_compact<T, Tile>), g.blocks, g.threads, 0, cut, x, y, win);
    } else {
      const PoolGrid g = cut_max_pool_grad_recompute<Tile>(cut);
      LAUNCH((max_pool_grad_recompute<T, Tile>), g.blocks, g.threads, (recompute_shared_bytes<Tile>(cut)), cut, x, dy, dx);
    }
  }
}

template <class T, class Tile, bool kVolume> void check(const Problem& full, bool nhwc, const char* variant, int ops) {
  Problem p = full;
#ifdef EMULATE
  p.n = 1; p.c = nhwc && Tile::kChannels > 1 ? 12 : 3; if (kVolume) { p.d = 5; p.h = p.h > 20 ? 20 : p.h; p.w = p.w > 24 ? 24 : p.w; }
  const bool big = p.h > 40 && !std::getenv("BIG"); if (big) { p.h = 36; p.w = full.w % 4 == 0 ? 48 : 45; p.oh = p.ow = 0; }
#else
  p.n = 2; p.c = nhwc ? 72 : 7; if (kVolume) { p.d = 9; p.h = 32; p.w = 64; }
#endif
  if (kVolume) { p.d = 2 * p.OD(); }
  const size_t X = p.X(), Y = p.Y();
  std::vector<T> x(X), dy(Y), y(Y), dx(X), gy(Y), gdx(X);
  std::vector<uint8_t> win(Y), gwin(Y);
  std::mt19937 rng(7);
  for (auto& v : x) {
    const int r = rng() % 64;
    v = host_narrow<T>(r == 0 ? NAN : r == 1 ? -NAN : r == 2 ? -INFINITY : r < 12 ? -0.0f : r < 22 ? 0.0f : float(int(rng() % 17) - 8) * 0.37f);
  }
  for (int i = 0; i < 200; ++i) { size_t s = rng() % X; for (size_t k = s; k < std::min(X, s + 40); ++k) x[k] = host_narrow<T>(-INFINITY); }
  for (auto& v : dy) { const int r = rng() % 500; v = host_narrow<T>(r == 0 ? NAN : r == 1 ? INFINITY : r < 30 ? -0.0f : float(int(rng() % 20001) - 10000) * 0.00137f); }
  Buffers<T> b{(T*)device_alloc(X * sizeof(T)), (T*)device_alloc(Y * sizeof(T)), (T*)device_alloc(Y * sizeof(T)), (T*)device_alloc(X * sizeof(T)), (uint8_t*)device_alloc(Y), (int*)device_alloc(4)};
  auto poison = [&] { std::vector<char> bad(std::max(X, Y) * sizeof(T), 0x5a); to_device(b.dx, bad.data(), X * sizeof(T)); int z = 0; to_device(b.wrong, &z, 4); };
  auto complain = [&](const char* what, size_t i) { ++failures; std::printf("FAIL %s %s %s %s: %s at %zu\n", p.name.c_str(), type_name<T>(), nhwc ? "NHWC" : "NCHW", variant, what, i); };
  reference<T>(p, view<const T>(x.data(), nhwc, p.c, p.d, p.h, p.w), view<const T>(dy.data(), nhwc, p.c, p.OD(), p.OH(), p.OW()), view<T>(y.data(), nhwc, p.c, p.OD(), p.OH(), p.OW()), view<uint8_t>(win.data(), nhwc, p.c, p.OD(), p.OH(), p.OW()), view<T>(dx.data(), nhwc, p.c, p.d, p.h, p.w), false);
  to_device(b.x, x.data(), X * sizeof(T)); to_device(b.dy, dy.data(), Y * sizeof(T)); to_device(b.win, win.data(), Y);
  auto compare_dx = [&](const char* what) {
    CUDA(cudaDeviceSynchronize());
    to_host(gdx.data(), b.dx, X * sizeof(T));
    compared += X;
    for (size_t i = 0; i < X; ++i) if (!same_bits(dx[i], gdx[i], true)) { complain(what, i); std::printf("  want %g got %g\n", host_f32(dx[i]), host_f32(gdx[i])); return; }
  };
  auto wrong = [&] { int v; to_host(&v, b.wrong, 4); return v; };
  if (ops & kCompact) {
    poison(); launch<T, Tile, kVolume>(p, nhwc, kCompact, b); compare_dx("compact"); if (wrong()) complain("wrong flag", 0);
  }
  if (!kVolume && (ops & kRecompute)) { poison(); launch<T, Tile, kVolume>(p, nhwc, kRecompute, b); compare_dx("recompute"); }
  if (!kVolume && (ops & kForward)) {
    std::vector<char> bad(Y * sizeof(T), 0x5a); to_device(b.y, bad.data(), Y * sizeof(T)); to_device(b.win, bad.data(), Y);
    launch<T, Tile, kVolume>(p, nhwc, kForward, b); CUDA(cudaDeviceSynchronize());
    to_host(gy.data(), b.y, Y * sizeof(T)); to_host(gwin.data(), b.win, Y);
    for (size_t i = 0; i < Y; ++i) if (!same_bits(y[i], gy[i], false)) { complain("forward y", i); break; }
    for (size_t i = 0; i < Y; ++i) if (win[i] != gwin[i]) { complain("forward winners", i); break; }
  }
  if (ops & kCompact) {  // one wrong winner at a time is flagged; many give the reference's dx
    auto exists = [&](size_t i, int tap) {  // of window i
      size_t k = i; int ow, oh, od;
      if (nhwc) { k /= p.c; ow = k % p.OW(); k /= p.OW(); oh = k % p.OH(); k /= p.OH(); od = k % p.OD(); }
      else { ow = k % p.OW(); k /= p.OW(); oh = k % p.OH(); k /= p.OH(); od = k % p.OD(); }
      if (tap >= p.wd * p.window * p.window) return false;
      const int yy = oh * p.stride - p.padding + tap / p.window % p.window * p.dilation, xx = ow * p.stride - p.padding + tap % p.window * p.dilation, z = od * p.sd + tap / (p.window * p.window);
      return z < p.d && yy >= 0 && yy < p.h && xx >= 0 && xx < p.w;
    };
    for (int i = 0; i < 12; ++i) {
      size_t where = i == 0 ? 0 : i == 1 ? Y - 1 : rng() % Y; int tap = i % 2 ? 254 - i : rng() % 12;
      auto changed = win; changed[where] = tap;
      to_device(b.win, changed.data(), Y); poison(); launch<T, Tile, kVolume>(p, nhwc, kCompact, b); CUDA(cudaDeviceSynchronize());
      if (wrong() != (exists(where, tap) ? 0 : 1)) { complain("wrong flag after a change", where); std::printf("  tap %d\n", tap); }
#ifdef EMULATE
      if (i == 3) break;
#endif
    }
    auto changed = win;
    for (auto& v : changed) if (rng() % 4 == 0) v = rng() % 3 ? rng() % 30 : 255;
    to_device(b.win, changed.data(), Y); poison(); launch<T, Tile, kVolume>(p, nhwc, kCompact, b);
    reference<T>(p, view<const T>(x.data(), nhwc, p.c, p.d, p.h, p.w), view<const T>(dy.data(), nhwc, p.c, p.OD(), p.OH(), p.OW()), view<T>(y.data(), nhwc, p.c, p.OD(), p.OH(), p.OW()), view<uint8_t>(changed.data(), nhwc, p.c, p.OD(), p.OH(), p.OW()), view<T>(dx.data(), nhwc, p.c, p.d, p.h, p.w), true);
    compare_dx("compact with wrong winners");
  }
  device_free(b.x); device_free(b.y); device_free(b.dy); device_free(b.dx); device_free(b.win); device_free(b.wrong);
}

#ifndef EMULATE
template <class T, class Tile, bool kVolume> void bench(const Problem& p, bool nhwc, const char* variant, int ops) {
  const size_t X = p.X(), Y = p.Y();
  const size_t bytes = (2 * X + 2 * Y) * sizeof(T) + Y;
  const int sets = std::max<int>(2, (size_t(400) << 20) / bytes + 1);
  std::vector<Buffers<T>> b(sets);
  for (int i = 0; i < sets; ++i) {
    b[i] = {random_device<T>(X, 1 + i), (T*)device_alloc(Y * sizeof(T)), random_device<T>(Y, 100 + i), (T*)device_alloc(X * sizeof(T)), (uint8_t*)device_alloc(Y), (int*)device_alloc(4)};
    if (kVolume) {
      std::vector<uint8_t> w(Y); std::mt19937 rng(i); for (size_t k = 0; k + 4 <= Y; k += 4) { uint32_t r = rng() & 0x07070707u; std::memcpy(&w[k], &r, 4); }
      to_device(b[i].win, w.data(), Y);
    } else launch<T, Tile, kVolume>(p, nhwc, kForward, b[i]);
  }
  const double e = sizeof(T);
  auto go = [&](Op op, const char* what, double min_bytes) {
    if (!(ops & op)) return;
    for (int strip : {0}) {
      g_strip = strip;
      const double us = time_us([&](int i) { launch<T, Tile, kVolume>(p, nhwc, op, b[i % sets]); });
      report(p.name + " " + what, type_name<T>(), nhwc ? "NHWC" : "NCHW", variant, us, min_bytes);
    }
    g_strip = 16;
  };
  go(kCompact, "compact", X * e + Y * e + Y);
  if (!kVolume) { go(kRecompute, "recompute", 2 * X * e + Y * e); go(kForward, "forward", X * e + Y * e + Y); }
  for (auto& s : b) { device_free(s.x); device_free(s.y); device_free(s.dy); device_free(s.dx); device_free(s.win); device_free(s.wrong); }
}
#endif

template <class T, class Tile, bool kVolume = false> void both(const Problem& p, bool nhwc, const char* variant, int check_ops, int bench_ops) {
#ifndef EMULATE
  if (!profiling())
#endif
  check<T, Tile, kVolume>(p, nhwc, variant, check_ops);
#ifndef EMULATE
  if (std::getenv("CHECK_ONLY")) return;
  if (failures < 3) bench<T, Tile, kVolume>(p, nhwc, variant, bench_ops | (kVolume ? 0 : 0));
#endif
}

#ifndef T_
#define T_ float
#endif
#include "pool_cases.h"

int main() {
#ifndef EMULATE
  measure_copy();
#endif
  cases<T_>();
  std::printf("%d failures, %zu compared\n", failures, compared);
  return failures != 0;
}
