// SPDX-License-Identifier: Apache-2.0
// Whatever a user or a file says, as one harmless line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tools {

// Control characters and broken UTF-8 escaped.
std::string printable(std::string_view text);

// The same, cut to what fits into a sentence.
std::string shortened(std::string_view text);

// "1 value", "2 values".
std::string counted(std::uint64_t count, std::string_view one, std::string_view many);

}  // namespace tools
