// SPDX-License-Identifier: Apache-2.0
#include "core/cpu_features.h"

#include "core/status.h"

#include <hwy/targets.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace bp {

namespace {

// Highway numbers its sets so that a better one has a lower bit.
std::vector<std::string_view> best_first() {
  std::vector<std::string_view> names;
  for (std::int64_t bits = hwy::SupportedTargets(); bits != 0; bits &= bits - 1) {
    names.emplace_back(hwy::TargetName(bits & -bits));
  }
  return names;
}

std::string join(const std::vector<std::string_view>& names, std::size_t from) {
  std::string text;
  for (std::size_t i = from; i < names.size(); ++i) {
    if (i > from) text += ',';
    text += names[i];
  }
  return text;
}

std::string allowed() {
  const std::vector<std::string_view> names = best_first();
  const char* limit = std::getenv("BACKPASS_MAX_ISA");
  if (limit == nullptr || *limit == '\0') return join(names, 0);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == limit) return join(names, i);
  }
  invalid("BACKPASS_MAX_ISA: is '{}', expected one of {}", limit, join(names, 0));
}

}  // namespace

const std::string& instruction_sets() {
  static const std::string sets = allowed();
  return sets;
}

}  // namespace bp
