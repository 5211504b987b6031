// SPDX-License-Identifier: Apache-2.0
// The text of a .npy file's header.
#pragma once

#include "problem.h"

#include <string>
#include <string_view>

namespace tools {

struct NpyHeader {
  std::string descr;  // a string's content; of anything else its source text
  bool descr_is_string = false;
  bool fortran_order = false;
  Ints shape;
};

// Strict: what NumPy would not write is refused, by a UsageError that says what is wrong (and no path).
NpyHeader parse_npy_header(std::string_view text);

}  // namespace tools
