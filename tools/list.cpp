// SPDX-License-Identifier: Apache-2.0
// `backpass list`: what there is.
#include "check.h"
#include "commands.h"
#include "device_options.h"
#include "harness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

namespace tools {

namespace {

struct ListArguments {
  std::vector<std::string> words;  // perhaps "problems" or "workloads", then operators; none: all
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

// As the files have them: "[group]" before the workloads of a group, "name: problem".
int list_problems(const std::vector<bench::Workload>& entries, const std::vector<std::string>& operators) {
  std::string group;
  for (const bench::Workload& entry : entries) {
    const std::string_view op = operator_name(entry.problem.kind);
    if (!operators.empty() && std::find(operators.begin(), operators.end(), op) == operators.end()) continue;
    if (entry.group != group) fmt::print("[{}]\n", entry.group);
    group = entry.group;
    fmt::print("{}: {}\n", entry.problem.name, entry.problem.text);
  }
  return 0;
}

int list_operators(const std::vector<std::string>& operators, bool markdown) {
  const std::string_view sets = bp_cpu_instruction_sets();
  if (sets.empty()) throw UsageError(bp_last_error());
  if (markdown) {
    fmt::print("| operator | device | types | implementations, best first |\n| --- | --- | --- | --- |\n");
    for (const Row& r : rows(operators)) {
      fmt::print("| {} | {} | {} | {} |\n", r.op, r.device, r.types, r.implementations);
    }
    return 0;
  }
  fmt::print("{:<16} {:<6} {:<54} {}\n", "operator", "device", "types", "implementations, best first");
  for (const Row& r : rows(operators)) {
    fmt::print("{:<16} {:<6} {:<54} {}\n", r.op, r.device, r.types, r.implementations);
  }
  fmt::print("\ndevices: cpu {}, cuda {}\n", bp_device_count(BP_DEVICE_CPU), bp_device_count(BP_DEVICE_CUDA));
  fmt::print("instruction sets: {}\n", sets);
  return 0;
}

int list(const ListArguments& arguments) {
  std::vector<std::string> operators = arguments.words;
  std::string what;
  if (!operators.empty() && (operators.front() == "problems" || operators.front() == "workloads")) {
    what = operators.front();
    operators.erase(operators.begin());
  }
  for (const std::string& name : operators) require_operator(name);
  if (what.empty()) return list_operators(operators, arguments.markdown);
  if (arguments.markdown) throw UsageError(fmt::format("--markdown: is for the table of operators, not for {}", what));
  if (what == "workloads") return list_problems(bench::workloads(), operators);
  std::vector<bench::Workload> named;
  for (const Problem& problem : named_problems()) named.push_back({"", problem});
  return list_problems(named, operators);
}

}  // namespace

void add_list(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("list", "Operators, devices and types; named problems; workloads; this machine's devices");
  const auto arguments = std::make_shared<ListArguments>();
  command
      ->add_option("what", arguments->words,
                   "the named problems of `check` or the workloads of `bench` (default: what can be computed), of all "
                   "operators or of these")
      ->type_name("[problems|workloads] [OP]...");
  command->add_flag("--markdown", arguments->markdown, "the table as the documentation has it");
  command->callback([arguments, &chosen] { chosen = [arguments] { return list(*arguments); }; });
}

}  // namespace tools
