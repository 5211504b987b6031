// SPDX-License-Identifier: Apache-2.0
// The spelling of option values: comma lists and named choices.
#pragma once

#include "problem.h"

#include <string>
#include <string_view>

namespace tools {

// "2,-1,3"; throws UsageError that names the option.
Ints parse_ints(std::string_view option, std::string_view text);
Reals parse_reals(std::string_view option, std::string_view text);

double parse_real(std::string_view option, std::string_view text);
std::uint64_t parse_count(std::string_view option, std::string_view text);
std::int32_t parse_dtype(std::string_view option, std::string_view text);
std::int32_t parse_winners_kind(std::string_view option, std::string_view text, bool plane_allowed);

}  // namespace tools
