// SPDX-License-Identifier: Apache-2.0
// --device, --threads, --implementation: where and how to run.
#pragma once

#include "problem.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tools {

struct DeviceOptions {
  std::int32_t device = BP_DEVICE_CPU;
  std::string implementation;
  std::vector<int> threads{0};  // several only where a command takes a list of them

  [[nodiscard]] CreateOptions create_options() const {
    CreateOptions options;
    options.device = {device, 0};
    options.implementation = implementation;
    options.threads = threads.front();
    return options;
  }
};

std::string_view device_name(std::int32_t kind);
enum class Threads { one, list };
void add_device_options(CLI::App& command, DeviceOptions& options, Threads threads = Threads::one);

}  // namespace tools
