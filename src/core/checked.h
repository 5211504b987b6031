// SPDX-License-Identifier: Apache-2.0
// 64-bit arithmetic that notices when it leaves its range.
#pragma once

#include <cstdint>
#include <optional>

namespace bp {

// The contract's parameters are below this, so that their products with sizes stay within reach of a check.
inline constexpr std::int64_t kParameterLimit = std::int64_t{1} << 31;

using Checked = std::optional<std::int64_t>;

constexpr Checked add(Checked a, Checked b) {
  std::int64_t r = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &r)) return std::nullopt;
  return r;
}

constexpr Checked subtract(Checked a, Checked b) {
  std::int64_t r = 0;
  if (!a || !b || __builtin_sub_overflow(*a, *b, &r)) return std::nullopt;
  return r;
}

constexpr Checked multiply(Checked a, Checked b) {
  std::int64_t r = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &r)) return std::nullopt;
  return r;
}

constexpr Checked magnitude(std::int64_t v) { return v < 0 ? subtract(0, v) : Checked(v); }

}  // namespace bp
