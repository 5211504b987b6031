// SPDX-License-Identifier: Apache-2.0
#include "floor.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bench {

namespace {

std::atomic<std::uint64_t> sink;  // so that what is read is not optimised away

// ---- One thread's loops ----------------------------------------------------------------------------------

#if defined(__x86_64__)

__attribute__((target("avx2"))) std::uint64_t read_wide(const std::byte* data, std::size_t size) {
  __m256i all = _mm256_setzero_si256();
  for (std::size_t i = 0; i + 32 <= size; i += 32) {
    all = _mm256_or_si256(all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i)));
  }
  return static_cast<std::uint64_t>(_mm256_extract_epi64(all, 0));
}

__attribute__((target("avx2"))) void write_past_cache(std::byte* data, std::size_t size) {
  const auto misaligned = reinterpret_cast<std::uintptr_t>(data) % 32;
  const std::size_t head = std::min(size, misaligned == 0 ? 0 : 32 - misaligned);
  std::memset(data, 1, head);
  std::size_t i = head;
  const __m256i ones = _mm256_set1_epi8(1);
  for (; i + 32 <= size; i += 32) _mm256_stream_si256(reinterpret_cast<__m256i*>(data + i), ones);
  std::memset(data + i, 1, size - i);
}

__attribute__((target("avx2"))) void write_wide(std::byte* data, std::size_t size) {
  const __m256i ones = _mm256_set1_epi8(1);
  std::size_t i = 0;
  for (; i + 32 <= size; i += 32) _mm256_storeu_si256(reinterpret_cast<__m256i*>(data + i), ones);
  std::memset(data + i, 1, size - i);
}

#endif

std::uint64_t read(const std::byte* data, std::size_t size) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return read_wide(data, size);
#endif
  std::uint64_t all = 0;
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + i, sizeof word);
    all |= word;
  }
  return all;
}

void write(std::byte* data, std::size_t size, Stores stores) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return stores == Stores::non_temporal ? write_past_cache(data, size) : write_wide(data, size);
#endif
  (void)stores;
  std::memset(data, 1, size);
}

// The part of a buffer that step `i` of `n` covers, on 64-byte borders.
template <class Byte>
std::span<Byte> part(std::span<Byte> whole, std::size_t i, std::size_t n) {
  const auto border = [&](std::size_t k) { return k == n ? whole.size() : whole.size() / n * k / 64 * 64; };
  return whole.subspan(border(i), border(i + 1) - border(i));
}

// ---- Threads ---------------------------------------------------------------------------------------------

// Workers that wait for the next piece of work at a barrier: starting threads would cost more than small problems do.
class Crew {
 public:
  explicit Crew(int size) : barrier_(size) {
    for (int i = 1; i < size; ++i) {
      threads_.emplace_back([this, i] {
        for (;;) {
          barrier_.arrive_and_wait();
          if (stopping_) return;
          (*work_)(i);
          barrier_.arrive_and_wait();
        }
      });
    }
  }
  ~Crew() {
    stopping_ = true;
    barrier_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void run(const std::function<void(int)>& work) {
    work_ = &work;
    barrier_.arrive_and_wait();
    work(0);
    barrier_.arrive_and_wait();
  }
  [[nodiscard]] int size() const { return static_cast<int>(threads_.size()) + 1; }

 private:
  std::barrier<> barrier_;
  std::vector<std::thread> threads_;
  const std::function<void(int)>* work_ = nullptr;
  bool stopping_ = false;
};

Crew& crew(int size) {
  static std::unique_ptr<Crew> current;
  if (!current || current->size() != size) {
    current.reset();
    current = std::make_unique<Crew>(size);
  }
  return *current;
}

}  // namespace

void move_bytes(std::span<const std::span<const std::byte>> inputs, std::span<const std::span<std::byte>> outputs,
                int threads, Stores stores) {
  const auto work = [&](int t) {
    std::size_t most = 1;
    for (const auto& buffer : inputs) most = std::max(most, buffer.size());
    for (const auto& buffer : outputs) most = std::max(most, buffer.size());
    // Steps small enough to stay in the first cache between reading and writing.
    constexpr std::size_t kStep = std::size_t{16} * 1024;
    const auto n = static_cast<std::size_t>(threads);
    const std::size_t steps = most / n / kStep + 1;
    std::uint64_t all = 0;
    for (std::size_t s = 0; s < steps; ++s) {
      for (const auto& buffer : inputs) {
        const auto piece = part(part(buffer, static_cast<std::size_t>(t), n), s, steps);
        all |= read(piece.data(), piece.size());
      }
      for (const auto& buffer : outputs) {
        const auto piece = part(part(buffer, static_cast<std::size_t>(t), n), s, steps);
        write(piece.data(), piece.size(), stores);
      }
    }
    sink.fetch_or(all, std::memory_order_relaxed);
  };
  if (threads == 1) return work(0);
  crew(threads).run(work);
}

}  // namespace bench
