// SPDX-License-Identifier: Apache-2.0
// Whatever a user or a file says, as one harmless line.
#pragma once

#include <string>
#include <string_view>

namespace tools {

// Control characters and broken UTF-8 escaped.
std::string printable(std::string_view text);

}  // namespace tools
