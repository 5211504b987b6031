// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>

namespace bp {

// The bytes of the last cache, as the kernel tells them of the first processor (what the C library tells is wrong on
// some virtual machines), or as BACKPASS_CACHE_BYTES tells them.
inline std::size_t last_level_cache() {
  static const std::size_t bytes = [] {
    if (const char* given = std::getenv("BACKPASS_CACHE_BYTES")) return std::size_t{std::strtoull(given, nullptr, 10)};
    std::size_t largest = 0;
    for (int index = 0; index < 8; ++index) {
      std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
      std::size_t kilobytes = 0;
      if (file >> kilobytes) largest = std::max(largest, kilobytes << 10);
    }
    constexpr std::size_t kUnknown = std::size_t{32} << 20;
    return largest > 0 ? largest : kUnknown;
  }();
  return bytes;
}

}  // namespace bp
