// SPDX-License-Identifier: Apache-2.0
// The floor: how long it takes to read some bytes and write some others and do nothing else. It is the limit that a
// CPU implementation is measured against, on the same buffers, with the same threads, in the same run.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace bench {

// Ordinary stores first read the line they write; non-temporal ones do not, but leave nothing in the cache.
enum class Stores { ordinary, non_temporal };

// Reads every input and writes every output once, in step, on `threads` threads.
void move_bytes(std::span<const std::span<const std::byte>> inputs, std::span<const std::span<std::byte>> outputs,
                int threads, Stores stores);

}  // namespace bench
