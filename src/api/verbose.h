// SPDX-License-Identifier: Apache-2.0
// BACKPASS_VERBOSE=1: a line on stderr for each create and run. The only thing this library ever prints.
#pragma once

#include "core/operator.h"

#include <chrono>

namespace bp::verbose {

bool enabled() noexcept;

using Clock = std::chrono::steady_clock;
void created(const bp_operator& op, Clock::duration took);
void ran(const bp_operator& op, Clock::duration took);
void failed(const char* what, const char* sentence);

}  // namespace bp::verbose
