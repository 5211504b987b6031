// SPDX-License-Identifier: Apache-2.0
// Reading a versioned struct of the C ABI. A caller built against a newer header hands over more bytes than this
// library knows: they must be 0, since it cannot honour them. (When a struct grows, a shorter one becomes acceptable
// too, and what it lacks will read as 0, the default of every field.)
#pragma once

#include "core/status.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace bp {

// `Struct` has not grown since version 0.1: its whole size is the least that is accepted.
template <class Struct>
Struct read_struct(std::string_view op, std::string_view what, const void* data) {
  std::size_t given = 0;
  std::memcpy(&given, data, sizeof given);
  if (given < sizeof(Struct)) {
    invalid("{}: {}: struct_size is {}, expected {}", op, what, given, sizeof(Struct));
  }
  constexpr std::size_t kSane = 4096;
  if (given > kSane) invalid("{}: {}: struct_size is {}, expected {}", op, what, given, sizeof(Struct));
  const auto* bytes = static_cast<const unsigned char*>(data);
  if (std::any_of(bytes + sizeof(Struct), bytes + given, [](unsigned char b) { return b != 0; })) {
    unsupported("{}: {}: struct_size is {} and fields beyond byte {} are set, which this version does not know", op,
                what, given, sizeof(Struct));
  }
  Struct result;
  std::memcpy(&result, data, sizeof(Struct));
  return result;
}

inline void require_reserved(std::string_view op, std::string_view what, int value) {
  if (value != 0) invalid("{}: {}: reserved is {}, expected 0", op, what, value);
}

}  // namespace bp
