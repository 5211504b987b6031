// SPDX-License-Identifier: Apache-2.0
// --device, --threads, --implementation: where and how to run.
#pragma once

#include "problem.h"

#include <CLI/CLI.hpp>

#include <string>

namespace tools {

struct DeviceOptions {
  std::int32_t device = BP_DEVICE_CPU;
  std::string implementation;
  std::uint64_t threads = 0;

  [[nodiscard]] CreateOptions create_options() const {
    return {.device = {device, 0}, .implementation = implementation, .threads = static_cast<int>(threads)};
  }
};

std::string_view device_name(std::int32_t kind);
void add_device_options(CLI::App& command, DeviceOptions& options);

}  // namespace tools
