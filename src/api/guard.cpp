// SPDX-License-Identifier: Apache-2.0
#include "api/guard.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace bp {

namespace {

// A fixed buffer, so that reporting "out of memory" needs no memory.
thread_local std::array<char, 1024> last_sentence{};

}  // namespace

const char* last_error() noexcept { return last_sentence.data(); }

bp_status failed(bp_status status, const char* text) noexcept {
  const std::size_t length = std::min(std::strlen(text), last_sentence.size() - 1);
  std::memcpy(last_sentence.data(), text, length);
  last_sentence[length] = '\0';
  return status;
}

}  // namespace bp
