// SPDX-License-Identifier: Apache-2.0
// `backpass explain OP ...`: the plan of a problem.
#include "commands.h"
#include "device_options.h"

#include <fmt/format.h>

#include <memory>

namespace tools {

namespace {

struct ExplainArguments {
  Problem problem;
  DeviceOptions device;
};

int explain(ExplainArguments& arguments) {
  Problem& problem = arguments.problem;
  complete(problem);
  if (problem.dtypes.size() > 1) throw UsageError("--dtype: names several types, expected one");
  const std::int32_t dtype = problem.dtypes.empty() ? default_dtype(problem) : problem.dtypes.front();
  const CreateResult created = try_create(problem, tensors(problem, dtype), arguments.device.create_options());
  if (!created.op) throw UsageError(created.error);
  std::size_t length = 0;
  bp_operator_explain(created.op.get(), nullptr, 0, &length);
  std::string text(length + 1, '\0');
  bp_operator_explain(created.op.get(), text.data(), text.size(), nullptr);
  text.resize(length);
  fmt::print("{}", text);
  return 0;
}

// A plan has one type and no values: the help says so. What fills the tensors is read all the same, so that any line
// that `check` prints can be explained.
void adapt_help(CLI::App& op, const Problem& problem) {
  op.get_option("--dtype")
      ->description(problem.kind == BP_CONVERT_WINNERS ? "data type of what is read (default: by its form)"
                                                       : "data type (default f32)")
      ->type_name("T");
  for (const char* name : {"--fill", "--seed", "--corrupt-winners"}) {
    if (CLI::Option* option = op.get_option_no_throw(name)) option->group("");
  }
}

}  // namespace

void add_explain(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "explain", "The plan of a problem: implementation, why faster ones refused, tables, bytes, workspace");
  command->require_subcommand(1);
  for (const std::string_view name : operator_names()) {
    CLI::App* op = command->add_subcommand(std::string(name), operator_help(*operator_kind(name)));
    const auto arguments = std::make_shared<ExplainArguments>();
    arguments->problem.kind = *operator_kind(name);
    add_problem_options(*op, arguments->problem);
    adapt_help(*op, arguments->problem);
    add_device_options(*op, arguments->device);
    op->callback([arguments, &chosen] { chosen = [arguments] { return explain(*arguments); }; });
  }
}

}  // namespace tools
