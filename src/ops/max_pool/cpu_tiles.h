// SPDX-License-Identifier: Apache-2.0
// Max pooling on the CPU for the windows that networks have: square, of a size and stride known to the compiler, over
// rows that are contiguous in memory. Tensors are read where they lie; only winners (a byte each) and, where they are
// sought, rows of x wait in scratch memory, padded.
#pragma once

#include "ops/max_pool/cpu.h"
#include "ops/max_pool/cpu_kernel.h"

#include <string>

namespace bp::cpu {

// A window of the same size and stride along H and W.
struct PoolTileShape {
  std::int64_t window, stride;
  bool operator==(const PoolTileShape&) const = default;
};

// Planes of windows along D and the planes of x that they reach: [first, first + count) of x, all from window `window`
// (-1: from none), of which they are the taps `tap`, `tap` + dilation...: no plane of x is reached twice.
struct PoolPlanes {
  std::int64_t window = -1;
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::int64_t tap = 0;
};

// Rows of a tile: with stride 1, as far apart as the taps.
constexpr int tile_height(std::int64_t stride) { return stride == 1 ? 4 : 2; }

// What both directions share. An item is `rows_in_block` rows of one group of planes of (n, c); the first begins with
// row `first_row`, which may be a row before 0.
struct PoolTiles {
  PoolGeometry g{};
  PoolTileShape shape{};
  PoolTaps taps{};
  PoolStored stored{};
  std::int64_t unit = 1;    // lanes from one column to the next: 1, or C where channels are innermost
  std::int64_t pixel = 1;   // lanes of a column that an item has: unit, or a part of it
  std::int64_t planes = 1;  // of an image: C, or the parts of unit
  std::vector<PoolPlanes> groups{};
  std::int64_t rows = 1;  // of the side that is written
  std::int64_t first_row = 0;
  std::int64_t rows_in_block = 1;
  std::int64_t row_blocks = 1;
  bool past_cache = false;
  std::uint64_t bytes = 0;

  [[nodiscard]] std::int64_t items() const {
    return g.batch * planes * static_cast<std::int64_t>(groups.size()) * row_blocks;
  }
};

struct PoolTileItem {
  std::int64_t n, c, group, row_block;
};
inline PoolTileItem tile_item(const PoolTiles& tiles, std::int64_t i) {
  const std::int64_t row_block = i % tiles.row_blocks;
  i /= tiles.row_blocks;
  const auto groups = static_cast<std::int64_t>(tiles.groups.size());
  const std::int64_t group = i % groups;
  i /= groups;
  return {i / tiles.planes, i % tiles.planes, group, row_block};
}

// A tap of a 5x5 window in a byte: a bit for its row, and above those the number of its column, from 1 on; 0 for none.
struct OfferCode {
  static constexpr int kTaps = 32;  // room for those of a window
  static constexpr std::uint8_t kRows = 0x1f;
  static constexpr std::uint8_t row(std::int64_t r) { return static_cast<std::uint8_t>(1 << r); }
  static constexpr std::uint8_t column(std::int64_t k) { return static_cast<std::uint8_t>((k + 1) << 5); }
};

struct PoolGradTiles : PoolTiles {
  PoolTensor x{}, dy{}, dx{};
  bool offers = false;                // windows offer their dy, instead of elements asking for it
  std::vector<std::uint8_t> codes{};  // then: those of the taps that exist, for each window of a row that lacks no rows
  [[nodiscard]] static bool has_unread_winners() { return false; }
};

struct PoolForwardTiles : PoolTiles {
  PoolTensor x{}, y{};
};

PoolGradTiles make_tiles(const MaxPoolGradPlan& plan, bool past_cache);
PoolForwardTiles make_tiles(const MaxPoolPlan& plan, bool past_cache);

// Runs tiles, or tells the bytes of scratch memory that they need.
std::size_t run_tiles(const PoolPart<PoolGradTiles>& part);
// Channels of an item of tiles that offer, at most: as many as a line has bytes; else half of them, or a quarter.
inline constexpr std::int64_t kMostOffered = 64;

// The same of tiles that offer, where this processor selects lanes by masks of bytes: cpu_tile_offers.cpp.
bool has_room_for_offers();
std::size_t run_offers(const PoolPart<PoolGradTiles>& part);

// Planes too narrow for vectors, turned: 16 of them, or 32, stand side by side in scratch memory, as if their channels
// were innermost, and are cut into tiles there. An item is so many planes of a sample.
inline constexpr std::int64_t kTurnedBlock = 16;
struct PoolTurned {
  PoolGeometry g{};
  PoolTaps taps{};
  PoolStored stored{};
  PoolTensor x{}, dy{}, dx{};
  std::int64_t planes = kTurnedBlock;
  bool turns_bytes = false;  // stored winners are bytes in contiguous planes
  PoolGradTiles tiles{};     // of the planes in scratch memory
  std::int64_t room = 0;     // elements that may be read before and behind them
  bool past_cache = false;
  std::uint64_t bytes = 0;

  [[nodiscard]] std::int64_t items() const { return g.batch * (g.channels / planes); }
  [[nodiscard]] static bool has_unread_winners() { return false; }
};

PoolTurned make_turned(const MaxPoolGradPlan& plan, bool past_cache);

// Kernels of a plan that may be a part of something larger, past the cache or not.
std::unique_ptr<Kernel> make_max_pool_tiles(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings,
                                            bool past_cache);
std::unique_ptr<Kernel> make_max_pool_grad_tiles(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings,
                                                 bool past_cache);
std::unique_ptr<Kernel> make_max_pool_grad_turned(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings,
                                                  bool past_cache);

}  // namespace bp::cpu
