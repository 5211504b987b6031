// SPDX-License-Identifier: Apache-2.0
// --device, --threads, --implementation: where and how to run.
#pragma once

#include "problem.h"

#include <CLI/CLI.hpp>

#include <string>

namespace tools {

struct DeviceOptions {
  std::string device = "cpu";
  std::string implementation;
  int threads = 0;

  [[nodiscard]] CreateOptions create_options() const {
    return {.device = {device == "cuda" ? BP_DEVICE_CUDA : BP_DEVICE_CPU, 0},
            .implementation = implementation,
            .threads = threads};
  }
};

inline void add_device_options(CLI::App& command, DeviceOptions& options) {
  command.add_option("--device", options.device, "where to run (default cpu)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->type_name("cpu|cuda");
  command.add_option("--threads", options.threads, "the most threads to use (default: all)")
      ->check(CLI::Range(0, 1 << 16))
      ->type_name("N");
  command.add_option("--implementation", options.implementation, "force the implementation of this name")->type_name("NAME");
}

}  // namespace tools
