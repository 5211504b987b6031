// SPDX-License-Identifier: Apache-2.0
// `backpass list`: what there is.
#include "check.h"
#include "commands.h"
#include "device_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tools {

namespace {

int list() {
  const std::string_view sets = bp_cpu_instruction_sets();
  if (sets.empty()) throw UsageError(bp_last_error());
  fmt::print("{:<16} {:<6} {:<54} {}\n", "operator", "device", "types", "implementations, best first");
  for (const std::string_view name : operator_names()) {
    const std::int32_t kind = *operator_kind(name);
    for (const std::int32_t device : {BP_DEVICE_CPU, BP_DEVICE_CUDA}) {
      std::vector<std::string_view> types;
      for (const std::int32_t dtype : all_dtypes()) {
        if (bp_is_supported(kind, device, dtype) != 0) types.push_back(dtype_name(dtype));
      }
      if (types.empty()) continue;
      fmt::print("{:<16} {:<6} {:<54} {}\n", name, device_name(device), fmt::format("{}", fmt::join(types, " ")),
                 fmt::join(implementations_of(kind, device), " "));
    }
  }
  fmt::print("\ndevices: cpu {}, cuda {}\n", bp_device_count(BP_DEVICE_CPU), bp_device_count(BP_DEVICE_CUDA));
  fmt::print("instruction sets: {}\n", sets);
  return 0;
}

}  // namespace

void add_list(CLI::App& app, Command& chosen) {
  app.add_subcommand("list", "Operators, devices and types; this machine's devices and instruction sets")
      ->callback([&chosen] { chosen = list; });
}

}  // namespace tools
