// SPDX-License-Identifier: Apache-2.0
// `backpass list`: what there is.
#include "check.h"
#include "commands.h"
#include "device_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

namespace tools {

namespace {

struct ListArguments {
  std::vector<std::string> operators;  // empty: all
  bool markdown = false;
};

// One row for each operator and device that can compute it.
struct Row {
  std::string_view op, device;
  std::string types, implementations;
};

std::vector<Row> rows(const std::vector<std::string>& operators) {
  std::vector<Row> result;
  for (const std::string_view name : operator_names()) {
    if (!operators.empty() && std::find(operators.begin(), operators.end(), name) == operators.end()) continue;
    const std::int32_t kind = *operator_kind(name);
    for (const std::int32_t device : {BP_DEVICE_CPU, BP_DEVICE_CUDA}) {
      std::vector<std::string_view> types;
      for (const std::int32_t dtype : all_dtypes()) {
        if (bp_is_supported(kind, device, dtype) != 0) types.push_back(dtype_name(dtype));
      }
      if (types.empty()) continue;
      result.push_back({name, device_name(device), fmt::format("{}", fmt::join(types, " ")),
                        fmt::format("{}", fmt::join(implementations_of(kind, device), " "))});
    }
  }
  return result;
}

int list(const ListArguments& arguments) {
  const std::string_view sets = bp_cpu_instruction_sets();
  if (sets.empty()) throw UsageError(bp_last_error());
  for (const std::string& name : arguments.operators) {
    if (!operator_kind(name)) throw UsageError(fmt::format("'{}' is no operator", name));
  }
  if (arguments.markdown) {
    fmt::print("| operator | device | types | implementations, best first |\n| --- | --- | --- | --- |\n");
    for (const Row& r : rows(arguments.operators)) {
      fmt::print("| {} | {} | {} | {} |\n", r.op, r.device, r.types, r.implementations);
    }
    return 0;
  }
  fmt::print("{:<16} {:<6} {:<54} {}\n", "operator", "device", "types", "implementations, best first");
  for (const Row& r : rows(arguments.operators)) {
    fmt::print("{:<16} {:<6} {:<54} {}\n", r.op, r.device, r.types, r.implementations);
  }
  fmt::print("\ndevices: cpu {}, cuda {}\n", bp_device_count(BP_DEVICE_CPU), bp_device_count(BP_DEVICE_CUDA));
  fmt::print("instruction sets: {}\n", sets);
  return 0;
}

}  // namespace

void add_list(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("list", "Operators, devices and types; this machine's devices and instruction sets");
  const auto arguments = std::make_shared<ListArguments>();
  command->add_option("operator", arguments->operators, "only these (default: all)")->type_name("OP");
  command->add_flag("--markdown", arguments->markdown, "the table as the documentation has it");
  command->callback([arguments, &chosen] { chosen = [arguments] { return list(*arguments); }; });
}

}  // namespace tools
