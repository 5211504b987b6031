// SPDX-License-Identifier: Apache-2.0
// Scratch memory: the caller's workspace, one piece for each slot of a team.
#pragma once

#include "backends/cpu/parallel.h"

#include <cstddef>
#include <cstdint>

namespace bp::cpu {

inline constexpr std::size_t kScratchAlign = 128;

// The arrays of one slot, each aligned for any vector.
class ScratchLayout {
 public:
  // Reserves `count` elements of `size` bytes and returns where they begin.
  std::size_t reserve(std::int64_t count, std::size_t size) {
    const std::size_t at = bytes_;
    bytes_ += (static_cast<std::size_t>(count) * size + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
    return at;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

// What to ask of the caller: a workspace is aligned as malloc's memory is, and no more.
inline std::size_t team_workspace(const Team& team, std::size_t slot_bytes) {
  return slot_bytes == 0 ? 0 : slot_bytes * static_cast<std::size_t>(team.width()) + kScratchAlign;
}

class TeamScratch {
 public:
  TeamScratch(void* workspace, std::size_t slot_bytes)
      : base_(static_cast<std::byte*>(workspace)), slot_bytes_(slot_bytes) {
    base_ += (kScratchAlign - reinterpret_cast<std::uintptr_t>(workspace) % kScratchAlign) % kScratchAlign;
  }
  [[nodiscard]] std::byte* slot(int slot) const { return base_ + static_cast<std::size_t>(slot) * slot_bytes_; }

 private:
  std::byte* base_;
  std::size_t slot_bytes_;
};

}  // namespace bp::cpu
