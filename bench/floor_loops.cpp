// SPDX-License-Identifier: Apache-2.0
// The floor's loops: four vectors at a time, which is what the memory needs to be busy.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "floor_loops.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "floor.h"

#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The bits of all vectors, so that no read can be left out.
std::uint8_t read_all(const std::uint8_t* data, std::size_t size) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t step = hn::Lanes(d);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  std::size_t i = 0;
  for (; i + 4 * step <= size; i += 4 * step) {
    a = hn::Or(a, hn::LoadU(d, data + i));
    b = hn::Or(b, hn::LoadU(d, data + i + step));
    c = hn::Or(c, hn::LoadU(d, data + i + 2 * step));
    e = hn::Or(e, hn::LoadU(d, data + i + 3 * step));
  }
  for (; i + step <= size; i += step) a = hn::Or(a, hn::LoadU(d, data + i));
  return hn::GetLane(hn::Or(hn::Or(a, b), hn::Or(c, e)));
}

void write_all(std::uint8_t* data, std::size_t size, Stores stores) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t step = hn::Lanes(d);
  const auto ones = hn::Set(d, 1);
  std::size_t i = 0;
  if (stores == Stores::non_temporal) {
    i = std::min(size, -reinterpret_cast<std::uintptr_t>(data) % step);
    std::memset(data, 1, i);
    for (; i + 4 * step <= size; i += 4 * step) {
      for (std::size_t k = 0; k < 4; ++k) hn::Stream(ones, d, data + i + k * step);
    }
    for (; i + step <= size; i += step) hn::Stream(ones, d, data + i);
  }
  for (; i + 4 * step <= size; i += 4 * step) {
    for (std::size_t k = 0; k < 4; ++k) hn::StoreU(ones, d, data + i + k * step);
  }
  for (; i + step <= size; i += step) hn::StoreU(ones, d, data + i);
  std::memset(data + i, 1, size - i);
}

}  // namespace bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bench {

HWY_EXPORT(read_all);
HWY_EXPORT(write_all);

void read_bytes(std::span<const std::byte> bytes) {
  static std::atomic<std::uint8_t> sink;  // so that what is read is not optimised away
  const std::uint8_t all =
      HWY_DYNAMIC_DISPATCH(read_all)(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (all == 0) sink.store(all, std::memory_order_relaxed);
}

void write_bytes(std::span<std::byte> bytes, Stores stores) {
  HWY_DYNAMIC_DISPATCH(write_all)(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size(), stores);
}

}  // namespace bench
#endif
