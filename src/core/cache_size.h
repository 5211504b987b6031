// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <istream>
#include <string>

namespace bp {

// How many processors a list as "0-3,8-11" names.
inline std::size_t processors_in(std::istream& list) {
  std::size_t count = 0, first = 0, last = 0;
  while (list >> first) {
    last = first;
    if (list.peek() == '-') list.ignore() >> last;
    count += last - first + 1;
    list.ignore();  // the comma
  }
  return count;
}

// The bytes of the last cache, as the kernel tells them of the first processor (what the C library tells is wrong on
// some virtual machines), or as BACKPASS_CACHE_BYTES tells them. A virtual machine may show the cache of a whole socket
// beside the few processors that it has; no processor is built with more than 16 MiB for each core, and that is about
// the share that such a machine finds.
inline std::size_t last_level_cache() {
  static const std::size_t bytes = [] {
    if (const char* given = std::getenv("BACKPASS_CACHE_BYTES")) return std::size_t{std::strtoull(given, nullptr, 10)};
    constexpr std::size_t kMostOfOne = std::size_t{16} << 20;
    std::size_t largest = 0;
    for (int index = 0; index < 8; ++index) {
      const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
      std::ifstream size(folder + "/size"), sharers(folder + "/shared_cpu_list");
      std::size_t kilobytes = 0;
      if (!(size >> kilobytes)) continue;
      const std::size_t shared_by = processors_in(sharers);
      const std::size_t most = shared_by > 0 ? shared_by * kMostOfOne : kilobytes << 10;
      largest = std::max(largest, std::min(kilobytes << 10, most));
    }
    constexpr std::size_t kUnknown = std::size_t{32} << 20;
    return largest > 0 ? largest : kUnknown;
  }();
  return bytes;
}

}  // namespace bp
