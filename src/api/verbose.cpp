// SPDX-License-Identifier: Apache-2.0
#include "api/verbose.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace bp::verbose {

namespace {

double microseconds(Clock::duration took) { return std::chrono::duration<double, std::micro>(took).count(); }

void print(std::string_view what, const bp_operator& op, Clock::duration took) {
  std::string refusals;
  for (const Refusal& r : op.refusals) refusals += fmt::format(" refused={}({})", r.implementation, r.reason);
  const std::string line = fmt::format("backpass {} {} implementation={}{} us={:.1f}\n", what, op.description.problem,
                                       op.implementation, refusals, microseconds(took));
  std::fputs(line.c_str(), stderr);  // a closed stderr is no reason for an operator to fail
}

}  // namespace

bool enabled() noexcept {
  static const bool on = [] {
    const char* value = std::getenv("BACKPASS_VERBOSE");
    return value != nullptr && *value != '\0' && std::string_view(value) != "0";
  }();
  return on;
}

void created(const bp_operator& op, Clock::duration took) { print("create", op, took); }

void ran(const bp_operator& op, Clock::duration took) { print("run", op, took); }

void failed(const char* what, const char* sentence) {
  const std::string line = fmt::format("backpass {} failed: {}\n", what, sentence);
  std::fputs(line.c_str(), stderr);
}

}  // namespace bp::verbose
