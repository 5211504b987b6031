// SPDX-License-Identifier: Apache-2.0
// The commands of `backpass`. Each adds itself to the parser and, when it is the one given, sets the function to call.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace tools {

using Command = std::function<int()>;  // returns the exit code

void add_list(CLI::App& app, Command& chosen);
void add_run(CLI::App& app, Command& chosen);
void add_check(CLI::App& app, Command& chosen);
void add_explain(CLI::App& app, Command& chosen);
void add_bench(CLI::App& app, Command& chosen);

}  // namespace tools
