// SPDX-License-Identifier: Apache-2.0
#include "core/cpu_features.h"

#include "core/status.h"

#include <hwy/targets.h>

#include <cstdlib>
#include <string_view>

namespace bp {

namespace {

// Highway numbers its sets so that a better one has a lower bit.
std::int64_t best(std::int64_t bits) { return bits & -bits; }
std::int64_t without_best(std::int64_t bits) { return bits & (bits - 1); }

std::string names(std::int64_t bits) {
  std::string text;
  for (; bits != 0; bits = without_best(bits)) {
    if (!text.empty()) text += ',';
    text += hwy::TargetName(best(bits));
  }
  return text;
}

std::int64_t allowed() {
  const std::int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  const char* limit = std::getenv("BACKPASS_MAX_ISA");
  if (limit == nullptr || *limit == '\0') return all;
  for (std::int64_t bits = all; bits != 0; bits = without_best(bits)) {
    if (hwy::TargetName(best(bits)) == std::string_view(limit)) return bits;
  }
  invalid("BACKPASS_MAX_ISA: is '{}', expected one of {}", limit, names(all));
}

}  // namespace

std::int64_t instruction_set_bits() {
  static const std::int64_t bits = allowed();
  return bits;
}

const std::string& instruction_sets() {
  static const std::string sets = names(instruction_set_bits());
  return sets;
}

}  // namespace bp
