// SPDX-License-Identifier: Apache-2.0
#include "buffers.h"

#include "buffer.h"

#include <fmt/format.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace bench {

Memory::Memory(std::size_t size) : size_(size) {
  if (size == 0) return;
  file_ = ::memfd_create("backpass bench", MFD_CLOEXEC);
  if (file_ < 0 || ::ftruncate(file_, static_cast<off_t>(size)) != 0) throw std::bad_alloc();
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(mapped);
  std::memset(data_, 1, size);
}

Memory::~Memory() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (file_ >= 0) ::close(file_);
}

Memory::Memory(Memory&& other) noexcept
    : file_(std::exchange(other.file_, -1)), data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

std::string Memory::path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), file_); }

namespace {

// The elements before the first one of a view, those that a reversed axis leads to, and those from there to its last.
struct Reach {
  std::int64_t before = 0, all = 0;
};

Reach reach(const tools::TensorSpec& spec) {
  if (spec.absent || tools::element_count(spec.sizes) == 0) return {};
  Reach r{.before = 0, .all = 1};
  for (std::size_t axis = 0; axis < spec.sizes.size(); ++axis) {
    const std::int64_t length = (spec.sizes[axis] - 1) * spec.strides[axis];
    r.before += std::max<std::int64_t>(-length, 0);
    r.all += std::abs(length);
  }
  return r;
}

// From the first to the last byte of a view.
std::size_t byte_size(const tools::TensorSpec& spec) {
  return static_cast<std::size_t>(reach(spec).all) * tools::dtype_size(spec.dtype);
}

}  // namespace

std::byte* origin(const Memory& memory, const tools::TensorSpec& spec) {
  return memory.data() + static_cast<std::size_t>(reach(spec).before) * tools::dtype_size(spec.dtype);
}

BufferSet::BufferSet(const tools::Tensors& specs) {
  for (const tools::TensorSpec& spec : specs.inputs) {
    inputs.emplace_back(byte_size(spec));
    in.push_back(origin(inputs.back(), spec));
  }
  for (const tools::TensorSpec& spec : specs.outputs) {
    outputs.emplace_back(byte_size(spec));
    out.push_back(origin(outputs.back(), spec));
  }
}

// Bits by a multiplicative generator, out of a table of values.
void fill(const tools::TensorSpec& spec, std::span<std::byte> bytes, std::uint64_t seed) {
  const tools::TensorSpec sample{spec.name, spec.dtype, {4096}, {1}, false};
  const tools::Dense values = tools::random_values(sample, tools::Fill::reals, seed, 1);
  const std::size_t element = tools::dtype_size(spec.dtype);
  std::uint64_t state = seed * 2 + 1;
  for (std::size_t at = 0; at + element <= bytes.size(); at += element) {
    state *= 6364136223846793005u;
    std::memcpy(bytes.data() + at, &values.bits[state >> 52], element);
  }
}

}  // namespace bench
