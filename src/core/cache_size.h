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

// The last cache: the bytes that the kernel shows of it (what the C library tells is wrong on some virtual machines),
// and the share that this machine's processors may count on. A virtual machine may show the cache of a whole socket
// beside the few processors that it has; hardly a processor is built with more than 16 MiB for each core.
struct LastCache {
  std::size_t shown = 0, share = 0;
};
inline const LastCache& last_cache() {
  static const LastCache cache = [] {
    if (const char* given = std::getenv("BACKPASS_CACHE_BYTES")) {
      const std::size_t bytes = std::strtoull(given, nullptr, 10);
      return LastCache{bytes, bytes};
    }
    constexpr std::size_t kMostOfOne = std::size_t{16} << 20, kUnknown = std::size_t{32} << 20;
    LastCache largest;
    for (int index = 0; index < 8; ++index) {
      const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
      std::ifstream size(folder + "/size"), sharers(folder + "/shared_cpu_list");
      std::size_t kilobytes = 0;
      if (!(size >> kilobytes) || kilobytes << 10 < largest.shown) continue;
      const std::size_t shown = kilobytes << 10, shared_by = processors_in(sharers);
      largest = {shown, shared_by > 0 ? std::min(shown, shared_by * kMostOfOne) : shown};
    }
    return largest.shown > 0 ? largest : LastCache{kUnknown, kUnknown};
  }();
  return cache;
}

// The bytes that stay in it, as far as BACKPASS_CACHE_BYTES does not say otherwise.
inline std::size_t last_level_cache() { return last_cache().share; }

}  // namespace bp
