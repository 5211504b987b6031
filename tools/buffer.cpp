// SPDX-License-Identifier: Apache-2.0
#include "buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <random>

namespace tools {

std::int64_t element_count(const Ints& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

// ---- Guarded memory ------------------------------------------------------------------------------------

template <class F>
void Buffer::each_element(F&& f) const {
  if (spec_.absent || element_count(spec_.sizes) == 0) return;
  Ints index(spec_.sizes.size(), 0);
  std::ptrdiff_t offset = 0;  // in bytes, from the origin
  const auto step = static_cast<std::ptrdiff_t>(element_);
  for (std::size_t number = 0;; ++number) {
    f(number, origin_ + offset);
    std::size_t axis = index.size();
    for (;;) {
      if (axis == 0) return;
      --axis;
      offset += spec_.strides[axis] * step;
      if (++index[axis] < spec_.sizes[axis]) break;
      offset -= spec_.strides[axis] * step * spec_.sizes[axis];
      index[axis] = 0;
    }
  }
}

Buffer::Buffer(const TensorSpec& spec, Against side, std::byte gap) : spec_(spec), gap_(gap) {
  if (spec.absent) return;
  element_ = dtype_size(spec.dtype);
  std::int64_t low = 0;
  std::int64_t high = 1;
  const bool empty = element_count(spec.sizes) == 0;
  for (std::size_t i = 0; i < spec.sizes.size() && !empty; ++i) {
    const std::int64_t reach = spec.strides[i] * (spec.sizes[i] - 1);
    (reach < 0 ? low : high) += reach;
  }
  const std::size_t used = empty ? 0 : static_cast<std::size_t>(high - low) * element_;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t inner = (used + page - 1) / page * page;
  mapping_size_ = inner + 2 * page;
  void* mapping = ::mmap(nullptr, mapping_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(mapping);
  if (inner > 0 && ::mprotect(mapping_ + page, inner, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  std::byte* start = mapping_ + page + (side == Against::back ? inner - used : 0);
  bytes_ = {start, used};
  std::fill(bytes_.begin(), bytes_.end(), gap);
  origin_ = start + static_cast<std::ptrdiff_t>(element_) * -low;
}

Buffer::~Buffer() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapping_size_);
}

void Buffer::store(const Dense& values) {
  each_element([&](std::size_t i, std::byte* at) { std::memcpy(at, &values.bits[i], element_); });
}

Dense Buffer::load() const {
  if (spec_.absent) return {};
  Dense values{spec_.dtype, spec_.sizes,
               std::vector<std::uint64_t>(static_cast<std::size_t>(element_count(spec_.sizes)))};
  each_element([&](std::size_t i, const std::byte* at) { std::memcpy(&values.bits[i], at, element_); });
  return values;
}

bool Buffer::gaps_are_intact() const {
  std::vector<bool> belongs(bytes_.size(), false);
  each_element([&](std::size_t, const std::byte* at) {
    const auto offset = at - bytes_.data();
    std::fill_n(belongs.begin() + offset, element_, true);
  });
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    if (!belongs[i] && bytes_[i] != gap_) return false;
  }
  return true;
}

// ---- Contents ------------------------------------------------------------------------------------------

namespace {

// Where the parts of a floating-point format lie.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  [[nodiscard]] std::uint64_t bias() const { return (std::uint64_t{1} << (exponent_bits - 1)) - 1; }
  [[nodiscard]] std::uint64_t all_exponent_bits() const { return (std::uint64_t{1} << exponent_bits) - 1; }
  [[nodiscard]] std::uint64_t pack(bool negative, std::uint64_t exponent, std::uint64_t mantissa) const {
    return (std::uint64_t{negative ? 1u : 0u} << (exponent_bits + mantissa_bits)) | (exponent << mantissa_bits) |
           mantissa;
  }
  // Integers of a few bits, which every format holds exactly.
  [[nodiscard]] std::uint64_t integer(int value) const {
    if (value == 0) return 0;
    const auto magnitude = static_cast<std::uint64_t>(std::abs(value));
    const auto exponent = static_cast<std::uint64_t>(std::ilogb(static_cast<double>(magnitude)));
    const std::uint64_t fraction = magnitude - (std::uint64_t{1} << exponent);
    return pack(value < 0, bias() + exponent, fraction << (static_cast<std::uint64_t>(mantissa_bits) - exponent));
  }
};

const Format* format_of(std::int32_t dtype) {
  static constexpr Format kF64{11, 52}, kF32{8, 23}, kF16{5, 10}, kBf16{8, 7};
  switch (dtype) {
    case BP_F64:
      return &kF64;
    case BP_F32:
      return &kF32;
    case BP_F16:
      return &kF16;
    case BP_BF16:
      return &kBf16;
    default:
      return nullptr;
  }
}

class Values {
 public:
  Values(std::int32_t dtype, Fill fill, std::uint64_t seed) : dtype_(dtype), format_(format_of(dtype)), random_(seed) {
    // One problem is of one kind, so that a NaN in each sum does not hide everything else.
    if (fill == Fill::mixed) fill = std::array{Fill::integers, Fill::reals, Fill::specials}[random_() % 3];
    fill_ = fill;
  }

  std::uint64_t next() {
    const std::uint64_t bits = format_ != nullptr ? real() : integer();
    const std::size_t width = 8 * dtype_size(dtype_);
    return width == 64 ? bits : bits & ((std::uint64_t{1} << width) - 1);
  }

 private:
  [[nodiscard]] bool is_signed() const { return dtype_ >= BP_I64 && dtype_ <= BP_I8; }
  int small() { return static_cast<int>(random_() % 9) - 4; }

  std::uint64_t integer() {
    if (fill_ == Fill::ones) return 1;
    const int value = is_signed() ? small() : small() + 4;
    if (fill_ == Fill::integers || random_() % 8 < 5)
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
    return random_();  // any bits, extremes among them
  }

  std::uint64_t real() {
    if (fill_ == Fill::ones) return format_->integer(1);
    if (fill_ == Fill::integers) return format_->integer(small());
    const std::uint64_t r = random_();
    const bool negative = (r & 1) != 0;
    const std::uint64_t mantissa = (r >> 1) & ((std::uint64_t{1} << format_->mantissa_bits) - 1);
    if (fill_ == Fill::specials) {
      switch (random_() % 32) {
        case 0:
          return format_->pack(negative, format_->all_exponent_bits(), mantissa | 1);  // NaN, quiet or not
        case 1:
          return format_->pack(negative, format_->all_exponent_bits(), 0);
        case 2:
        case 3:
          return format_->pack(negative, 0, 0);
        case 4:
          return format_->pack(negative, 0, mantissa);  // subnormal
        case 5:
          return format_->pack(negative, format_->all_exponent_bits() - 1, mantissa);  // sums overflow
        case 6:
          return random_();
        default:
          if (random_() % 2 == 0) return format_->integer(small());
      }
    }
    const std::uint64_t spread = 12;
    return format_->pack(negative, format_->bias() - spread + random_() % (2 * spread), mantissa);
  }

  std::int32_t dtype_;
  const Format* format_;
  std::mt19937_64 random_;
  Fill fill_ = Fill::mixed;
};

}  // namespace

Dense random_values(const TensorSpec& spec, Fill fill, std::uint64_t seed, std::uint64_t salt) {
  if (spec.absent) return {};
  Values values(spec.dtype, fill, seed * 1'000'003 + salt);
  Dense dense{spec.dtype, spec.sizes, {}};
  dense.bits.resize(static_cast<std::size_t>(element_count(spec.sizes)));
  for (std::uint64_t& bits : dense.bits) bits = values.next();
  return dense;
}

}  // namespace tools
