// Harness: device or emulated launches, checks, timings.
#pragma once
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>
#include <random>

#ifdef EMULATE
#include <ucontext.h>
#include <cuda_runtime.h>
struct Idx { unsigned x = 0, y = 0, z = 0; };
inline Idx threadIdx, blockIdx, blockDim, gridDim;
using std::max;
using std::min;
template <class T> T __ldg(const T* p) { return *p; }
inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline int __float_as_int(float f) { int i; std::memcpy(&i, &f, 4); return i; }
inline float __int_as_float(int i) { float f; std::memcpy(&f, &i, 4); return f; }
inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned s) {
  s = s > 32 ? 32 : s;
  return static_cast<unsigned>(((static_cast<unsigned long long>(hi) << 32) | lo) >> s);
}
namespace emu {
inline std::vector<ucontext_t> fibers;
inline std::vector<std::vector<char>> stacks;
inline ucontext_t main_context;
inline int current = -1;
inline std::vector<char> done;
inline std::function<void()>* body;
inline void entry() { (*body)(); done[current] = 1; swapcontext(&fibers[current], &main_context); }
}
inline void __syncthreads() { swapcontext(&emu::fibers[emu::current], &emu::main_context); }
template <class F>
void emulate(unsigned blocks, unsigned threads, F f) {
  std::function<void()> body = f;
  emu::body = &body;
  emu::fibers.resize(threads); emu::stacks.resize(threads); emu::done.assign(threads, 0);
  blockDim.x = threads; gridDim.x = blocks;
  for (unsigned b = 0; b < blocks; ++b) {
    blockIdx.x = b;
    for (unsigned t = 0; t < threads; ++t) {
      emu::stacks[t].resize(1 << 18);
      getcontext(&emu::fibers[t]);
      emu::fibers[t].uc_stack.ss_sp = emu::stacks[t].data();
      emu::fibers[t].uc_stack.ss_size = 1 << 18;
      emu::fibers[t].uc_link = &emu::main_context;
      makecontext(&emu::fibers[t], emu::entry, 0);
      emu::done[t] = 0;
    }
    bool any = true;
    while (any) {
      any = false;
      for (unsigned t = 0; t < threads; ++t) {
        if (emu::done[t]) continue;
        any = true;
        emu::current = t;
        threadIdx.x = t;
        swapcontext(&emu::main_context, &emu::fibers[t]);
      }
    }
  }
}
#define LAUNCH(kernel, blocks, threads, shared, ...) emulate(blocks, threads, [&] { kernel(__VA_ARGS__); })
#define CUDA(x) (void)0
inline void* device_alloc(size_t n) { return std::malloc(n); }
inline void device_free(void* p) { std::free(p); }
inline void to_device(void* d, const void* h, size_t n) { std::memcpy(d, h, n); }
inline void to_host(void* h, const void* d, size_t n) { std::memcpy(h, d, n); }
#else
#define CUDA(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { std::printf("CUDA error %s at %s:%d\n", cudaGetErrorString(e_), __FILE__, __LINE__); std::exit(1); } } while (0)
template <class K> void set_shared(K kernel, size_t bytes) {
  if (bytes > 48 * 1024) CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}
#define LAUNCH(kernel, blocks, threads, shared, ...) (set_shared(kernel, shared), kernel<<<blocks, threads, shared>>>(__VA_ARGS__))
inline void* device_alloc(size_t n) { void* p; CUDA(cudaMalloc(&p, n)); return p; }
inline void device_free(void* p) { CUDA(cudaFree(p)); }
inline void to_device(void* d, const void* h, size_t n) { CUDA(cudaMemcpy(d, h, n, cudaMemcpyHostToDevice)); }
inline void to_host(void* h, const void* d, size_t n) { CUDA(cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost)); }
#endif

#include <cuda_fp16.h>
#include <cuda_bf16.h>

inline float host_f32(float v) { return v; }
inline float host_f32(__half v) { return __half2float(v); }
inline float host_f32(__nv_bfloat16 v) { return __bfloat162float(v); }
template <class T> T host_narrow(float v) {
  if constexpr (std::is_same_v<T, __half>) return __float2half_rn(v);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(v);
  else return v;
}
template <class T> const char* type_name() {
  if constexpr (std::is_same_v<T, __half>) return "f16";
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return "bf16";
  else return "f32";
}

template <class T> bool same_bits(T a, T b, bool nan_any) {
  if (nan_any && host_f32(a) != host_f32(a) && host_f32(b) != host_f32(b)) return true;
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

inline int failures = 0;
inline size_t compared = 0;
inline std::vector<std::string> table;
inline double copy_gbs = 1;

#ifndef EMULATE
inline void measure_copy() {
  const size_t n = size_t{1} << 30;
  char* a = (char*)device_alloc(n); char* b = (char*)device_alloc(n);
  CUDA(cudaMemset(a, 1, n)); CUDA(cudaMemset(b, 2, n));
  cudaEvent_t e0, e1; CUDA(cudaEventCreate(&e0)); CUDA(cudaEventCreate(&e1));
  std::vector<float> t;
  for (int i = 0; i < 24; ++i) {
    CUDA(cudaEventRecord(e0)); CUDA(cudaMemcpyAsync(b, a, n, cudaMemcpyDeviceToDevice)); CUDA(cudaEventRecord(e1));
    CUDA(cudaEventSynchronize(e1)); float ms; CUDA(cudaEventElapsedTime(&ms, e0, e1)); if (i >= 4) t.push_back(ms);
  }
  std::sort(t.begin(), t.end());
  copy_gbs = 2.0 * n / (t[t.size() / 2] * 1e-3) * 1e-9;
  std::printf("copy %.0f GB/s\n", copy_gbs);
  device_free(a); device_free(b);
}
// run(i): launch on buffer set i % sets. Returns the median in us; launches back to back between events.
inline bool profiling() { return std::getenv("PROFILE") != nullptr; }
template <class F> double time_us(F run, int count = 30) {
  if (profiling()) { run(0); CUDA(cudaDeviceSynchronize()); return 1; }
  std::vector<cudaEvent_t> e(count + 1);
  for (auto& x : e) CUDA(cudaEventCreate(&x));
  for (int i = 0; i < 4; ++i) run(i);
  CUDA(cudaEventRecord(e[0]));
  for (int i = 0; i < count; ++i) { run(i); CUDA(cudaEventRecord(e[i + 1])); }
  CUDA(cudaDeviceSynchronize()); CUDA(cudaGetLastError());
  std::vector<float> t;
  for (int i = 0; i < count; ++i) { float ms; CUDA(cudaEventElapsedTime(&ms, e[i], e[i + 1])); t.push_back(ms * 1e3f); }
  for (auto& x : e) CUDA(cudaEventDestroy(x));
  std::sort(t.begin(), t.end());
  return t[t.size() / 2];
}
__global__ inline void fill_kernel(uint32_t* to, size_t n, uint32_t seed, int kind) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x) {
    uint32_t h = static_cast<uint32_t>(i) * 2654435761u + seed; h ^= h >> 15; h *= 2246822519u; h ^= h >> 13; h *= 3266489917u; h ^= h >> 16;
    const float a = (h >> 8) * (2.0f / 16777216) - 1, b = ((h * 747796405u + 2891336453u) >> 8) * (2.0f / 16777216) - 1;
    if (kind == 0) to[i] = __float_as_uint(a);
    else if (kind == 1) { __half2 v = __floats2half2_rn(a, b); to[i] = *reinterpret_cast<uint32_t*>(&v); }
    else { __nv_bfloat162 v = __floats2bfloat162_rn(a, b); to[i] = *reinterpret_cast<uint32_t*>(&v); }
  }
}
template <class T> T* random_device(size_t count, uint32_t seed) {
  T* p = (T*)device_alloc((count * sizeof(T) + 3) / 4 * 4);
  fill_kernel<<<2048, 256>>>((uint32_t*)p, count * sizeof(T) / 4, seed, sizeof(T) == 4 ? 0 : std::is_same_v<T, __half> ? 1 : 2);
  CUDA(cudaGetLastError());
  return p;
}
#endif
inline void report(const std::string& name, const char* type, const char* layout, const char* variant, double us, double bytes) {
  char line[200];
  std::snprintf(line, sizeof line, "%-26s %-4s %-4s %-20s %8.1f us  %.3f", name.c_str(), type, layout, variant, us, bytes / (us * 1e-6) * 1e-9 / copy_gbs);
  std::puts(line);
  table.push_back(line);
}
