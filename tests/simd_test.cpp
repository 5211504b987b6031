// SPDX-License-Identifier: Apache-2.0
// Vectors of accumulators (backends/cpu/runs-inl.h) against the scalar conversions, for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd_test.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/runs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// n elements as accumulators, whole vectors first.
template <class T>
void widen_all(const T* from, std::int64_t n, float* to) {
  const Lanes<float> d;
  std::int64_t i = 0;
  for (; i + lanes(d) <= n; i += lanes(d)) hn::StoreU(load(d, from + i), d, to + i);
  if (i < n) store_first(d, load_first(d, from + i, n - i), to + i, n - i);
}

template <class T>
void narrow_all(const float* from, std::int64_t n, T* to) {
  const Lanes<float> d;
  std::int64_t i = 0;
  for (; i + lanes(d) <= n; i += lanes(d)) store(d, hn::LoadU(d, from + i), to + i);
  if (i < n) store_first(d, load_first(d, from + i, n - i), to + i, n - i);
}

void WidenF16(const f16* from, std::int64_t n, float* to) { widen_all(from, n, to); }
void WidenBf16(const bf16* from, std::int64_t n, float* to) { widen_all(from, n, to); }
void WidenI8(const std::int8_t* from, std::int64_t n, float* to) { widen_all(from, n, to); }
void WidenU8(const std::uint8_t* from, std::int64_t n, float* to) { widen_all(from, n, to); }
void NarrowF16(const float* from, std::int64_t n, f16* to) { narrow_all(from, n, to); }
void NarrowBf16(const float* from, std::int64_t n, bf16* to) { narrow_all(from, n, to); }
void NarrowI8(const float* from, std::int64_t n, std::int8_t* to) { narrow_all(from, n, to); }
void NarrowU8(const float* from, std::int64_t n, std::uint8_t* to) { narrow_all(from, n, to); }

void ImportF16(const f16* from, std::int64_t stride, std::int64_t n, std::int64_t readable, float* to) {
  import_run(from, stride, n, readable, to);
}
void ExportF16(const float* from, f16* to, std::int64_t stride, std::int64_t n, bool past_cache) {
  export_run(from, to, stride, n, past_cache);
}
void ExportF32(const float* from, float* to, std::int64_t stride, std::int64_t n, bool past_cache) {
  export_run(from, to, stride, n, past_cache);
}

// What is left of a * a where b, its rounded value, is taken away: by vectors, and by the loop beside them.
void Leftovers(const float* a, const float* b, float* of_vector, float* of_loop, std::int64_t n) {
  const Lanes<float> d;
  const auto v = load_first(d, a, 1);
  store_first(d, hn::Sub(hn::Mul(v, v), load_first(d, b, 1)), of_vector, 1);
  for (std::int64_t i = 0; i < n; ++i) of_loop[i] = a[i] * a[i] - b[i];
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cstdlib>
#include <string>
#include <vector>

namespace bp::cpu {

HWY_EXPORT(WidenF16);
HWY_EXPORT(WidenBf16);
HWY_EXPORT(WidenI8);
HWY_EXPORT(WidenU8);
HWY_EXPORT(NarrowF16);
HWY_EXPORT(NarrowBf16);
HWY_EXPORT(NarrowI8);
HWY_EXPORT(NarrowU8);
HWY_EXPORT(ImportF16);
HWY_EXPORT(ExportF16);
HWY_EXPORT(ExportF32);
HWY_EXPORT(Leftovers);

namespace {

// Every instruction set that this file is compiled for.
std::vector<std::int64_t> instruction_sets() {
  std::vector<std::int64_t> sets;
  for (std::int64_t bits = HWY_TARGETS; bits != 0; bits &= bits - 1) sets.push_back(bits & -bits);
  return sets;
}

class Simd : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if ((hwy::SupportedTargets() & GetParam()) == 0) {
      GTEST_SKIP() << "this processor has no " << hwy::TargetName(GetParam());
    }
    if (instruction_sets().size() == 1) return;
    hwy::ChosenTarget chosen;
    chosen.Update(GetParam());
    index_ = chosen.GetIndex();
  }
  std::size_t index_ = 0;
};
#define BP_FORCED(function) (*HWY_DISPATCH_TABLE(function)[index_])

std::uint32_t bits_of(float v) { return std::bit_cast<std::uint32_t>(v); }
std::uint32_t bits_of(f16 v) { return v.bits; }
std::uint32_t bits_of(bf16 v) { return v.bits; }
template <class T>
std::uint32_t bits_of(T v) {
  return static_cast<std::uint8_t>(v);
}

// The same bits; of NaN, whose payload arithmetic may change, only that it is one.
template <class T>
void expect_same(const std::vector<T>& found, const std::vector<T>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (is_nan(expected[i]) && is_nan(found[i])) continue;
    ASSERT_EQ(bits_of(found[i]), bits_of(expected[i])) << "element " << i << std::hex;
  }
}

// Every value of a type of 8 or 16 bits, up.
template <class T, class Widen>
void check_widening(Widen widen_run) {
  constexpr int kCount = 1 << (8 * sizeof(T));
  std::vector<T> from;
  std::vector<float> expected;
  for (int bits = 0; bits < kCount; ++bits) {
    using Bits = std::conditional_t<sizeof(T) == 1, std::uint8_t, std::uint16_t>;
    from.push_back(std::bit_cast<T>(static_cast<Bits>(bits)));
    expected.push_back(static_cast<float>(widen(from.back())));
  }
  std::vector<float> found(kCount);
  widen_run(from.data(), kCount, found.data());
  expect_same(found, expected);
}

TEST_P(Simd, WidensEveryValue) {
  check_widening<f16>(BP_FORCED(WidenF16));
  check_widening<bf16>(BP_FORCED(WidenBf16));
  check_widening<std::int8_t>(BP_FORCED(WidenI8));
  check_widening<std::uint8_t>(BP_FORCED(WidenU8));
}

template <class T, class Narrow>
void check_narrowing(const std::vector<float>& from, Narrow narrow_run) {
  std::vector<T> expected, found(from.size());
  expected.reserve(from.size());
  for (const float v : from) expected.push_back(narrow<T>(v));
  narrow_run(from.data(), static_cast<std::int64_t>(from.size()), found.data());
  expect_same(found, expected);
}

// A million f32 values over the whole range, and around every value and every tie of the half types and the bytes.
std::vector<float> sample() {
  std::vector<float> values;
  const auto around = [&](std::uint32_t bits) {
    for (const std::uint32_t step : {0u, 1u, 0xffffffffu}) values.push_back(std::bit_cast<float>(bits + step));
  };
  for (std::uint64_t bits = 0; bits < 0x100000000; bits += 4093) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const std::uint32_t wide = bits_of(to_f32(f16{static_cast<std::uint16_t>(half)}));
    for (const std::uint32_t center : {half << 16, (half << 16) | 0x8000u, wide, wide + 0x1000u}) around(center);
  }
  for (int twice = -600; twice <= 600; ++twice) around(bits_of(static_cast<float>(twice) / 2));
  return values;
}

TEST_P(Simd, NarrowingRoundsToNearestEven) {
  const std::vector<float> values = sample();
  check_narrowing<f16>(values, BP_FORCED(NarrowF16));
  check_narrowing<bf16>(values, BP_FORCED(NarrowBf16));
  check_narrowing<std::int8_t>(values, BP_FORCED(NarrowI8));
  check_narrowing<std::uint8_t>(values, BP_FORCED(NarrowU8));
}

TEST_P(Simd, AllF32ValuesNarrow) {
  if (std::getenv("BACKPASS_TEST_FULL") == nullptr) GTEST_SKIP() << "4 billion values: make test-full";
  std::vector<float> values(1 << 16);
  for (std::uint32_t high = 0; high < 0x10000 && !HasFailure(); ++high) {
    for (std::uint32_t low = 0; low < 0x10000; ++low) values[low] = std::bit_cast<float>(high << 16 | low);
    check_narrowing<f16>(values, BP_FORCED(NarrowF16));
    check_narrowing<bf16>(values, BP_FORCED(NarrowBf16));
  }
}

// Sets with a fused multiply-add must not use it where nobody asks for it: it would leave 2^-46.
TEST_P(Simd, ProductsAndSumsAreNotContracted) {
  const std::vector<float> a(20, 1 + 0x1p-23f), b(20, 1 + 0x1p-22f);  // a * a rounds to b
  std::vector<float> of_loop(20, -1.0f);
  float of_vector = -1.0f;
  BP_FORCED(Leftovers)(a.data(), b.data(), &of_vector, of_loop.data(), 20);
  EXPECT_EQ(of_vector, 0.0f);
  EXPECT_EQ(of_loop, std::vector<float>(20, 0.0f));
}

// ---- Runs ------------------------------------------------------------------------------------------------

constexpr std::int64_t kMost = 150;  // elements: more than two of the longest vectors, with every tail

TEST_P(Simd, ImportsRunsOfEveryLength) {
  std::vector<f16> from;
  for (std::int64_t i = 0; i < 3 * kMost; ++i) from.push_back(to_f16(static_cast<float>(i)));
  for (const std::int64_t stride : {1, 2, 3}) {
    for (std::int64_t n = 0; n <= kMost; ++n) {
      for (const std::int64_t readable : {n, kMost}) {
        std::vector<float> to(kMost + 64, -1.0f);
        BP_FORCED(ImportF16)(from.data(), stride, n, readable, to.data());
        for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(to[i], static_cast<float>(i * stride)) << n << " " << stride;
      }
    }
  }
}

// Runs of every length from every place of a cache line: each element is written and no neighbour is.
template <class T, class Export>
void check_exports(Export export_elements) {
  constexpr float kUntouched = -1.0f;
  std::vector<float> from;
  for (std::int64_t i = 0; i < kMost + 64; ++i) from.push_back(static_cast<float>(i));
  std::vector<T> memory(3 * kMost + 128);
  for (const bool past_cache : {false, true}) {
    for (const std::int64_t stride : {1, 2}) {
      for (std::int64_t start = 0; start < static_cast<std::int64_t>(64 / sizeof(T)); ++start) {
        for (std::int64_t n = 0; n <= kMost; ++n) {
          std::fill(memory.begin(), memory.end(), narrow<T>(kUntouched));
          export_elements(from.data(), memory.data() + start, stride, n, past_cache);
          for (std::int64_t i = 0; i < static_cast<std::int64_t>(memory.size()); ++i) {
            const std::int64_t k = i - start;
            const bool written = k >= 0 && k % stride == 0 && k / stride < n;
            ASSERT_EQ(widen(memory[i]), written ? static_cast<float>(k / stride) : kUntouched)
                << "element " << i << ", n " << n << ", start " << start << ", stride " << stride << ", past_cache "
                << past_cache;
          }
        }
      }
    }
  }
}

TEST_P(Simd, ExportsRunsOfEveryLengthFromEveryPlace) {
  check_exports<f16>(BP_FORCED(ExportF16));
  check_exports<float>(BP_FORCED(ExportF32));
}

INSTANTIATE_TEST_SUITE_P(Sets, Simd, testing::ValuesIn(instruction_sets()),
                         [](const auto& parameter) { return std::string(hwy::TargetName(parameter.param)); });

}  // namespace
}  // namespace bp::cpu
#endif
