// SPDX-License-Identifier: Apache-2.0
// `backpass check [OP] [problem...]`: every implementation against the oracle, bit for bit.
#include "check.h"
#include "commands.h"
#include "device_options.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>

namespace tools {

namespace {

struct CheckArguments {
  std::int32_t kind = 0;  // 0: every operator
  Problem problem;        // given by options, where kind is set
  std::vector<std::string> names;
  std::uint64_t random = 0;
  std::uint64_t first = 1;
  DeviceOptions device;
};

// Counts by operator and implementation; speaks of what differs at once, of the rest at the end.
class Report {
 public:
  explicit Report(std::size_t total) : total_(total), terminal_(::isatty(STDERR_FILENO) != 0) {}

  void add(const Problem& problem, std::int32_t dtype, const std::string& implementation, const std::string& wrong) {
    Tally& tally = tallies_[{problem.kind, implementation}];
    ++tally.tried;
    if (wrong.empty()) return;
    ++tally.failed;
    clear_progress();
    fmt::print("DIFFERS {} {} {}: {}\n", operator_name(problem.kind), dtype_name(dtype), implementation, wrong);
    if (problem.text.empty()) return;  // typed by the user, who has it
    const bool has_dtype = !problem.dtypes.empty();
    fmt::print("  again: backpass check {}{}{}\n", problem.text, has_dtype ? "" : " --dtype ",
               has_dtype ? "" : dtype_name(dtype));
  }

  void progress() {
    ++done_;
    if (!terminal_ || done_ % 16 != 0) return;
    fmt::print(stderr, "\r{} of {} problems", done_, total_);
    std::fflush(stderr);
  }

  int finish() {
    clear_progress();
    std::int64_t tried = 0;
    std::int64_t failed = 0;
    for (const auto& [key, tally] : tallies_) {
      fmt::print("{:<16} {:<14} {:>7} checked, {} differ\n", operator_name(key.first), key.second, tally.tried, tally.failed);
      tried += tally.tried;
      failed += tally.failed;
    }
    fmt::print("{} problems, {} passed, {} failed\n", done_, tried - failed, failed);
    return failed == 0 ? 0 : 1;
  }

 private:
  void clear_progress() const {
    if (terminal_) fmt::print(stderr, "\r\x1b[K");
  }
  struct Tally {
    std::int64_t tried = 0;
    std::int64_t failed = 0;
  };
  std::size_t total_;
  bool terminal_;
  std::size_t done_ = 0;
  std::map<std::pair<std::int32_t, std::string>, Tally> tallies_;
};

void check_one(const Problem& problem, const CreateOptions& options, Report& report) {
  const std::vector<std::string> implementations =
      options.implementation.empty() ? implementations_of(problem.kind, options.device.kind)
                                     : std::vector<std::string>{options.implementation};
  if (implementations.empty()) throw UsageError(fmt::format("this build has no implementation of {} for that device", operator_name(problem.kind)));
  for (const std::int32_t dtype : dtypes_of(problem, options.device.kind)) {
    for (const std::string& implementation : implementations) {
      CreateOptions forced = options;
      forced.implementation = implementation;
      report.add(problem, dtype, implementation, check_problem(problem, dtype, forced));
    }
  }
  report.progress();
}

bool wanted(const Problem& problem, const CheckArguments& arguments) {
  if (arguments.kind != 0 && problem.kind != arguments.kind) return false;
  return arguments.names.empty() ||
         std::find(arguments.names.begin(), arguments.names.end(), problem.name) != arguments.names.end();
}

int check_named(const CheckArguments& arguments) {
  std::vector<const Problem*> selected;
  for (const Problem& problem : named_problems()) {
    if (wanted(problem, arguments)) selected.push_back(&problem);
  }
  for (const std::string& name : arguments.names) {
    const auto has_name = [&](const Problem* p) { return p->name == name; };
    if (std::none_of(selected.begin(), selected.end(), has_name)) {
      throw UsageError(fmt::format("'{}' is no named problem{}", name,
                                   arguments.kind == 0 ? "" : fmt::format(" of {}", operator_name(arguments.kind))));
    }
  }
  Report report(selected.size());
  for (const Problem* problem : selected) check_one(*problem, arguments.device.create_options(), report);
  return report.finish();
}

int check_random(const CheckArguments& arguments) {
  fmt::print("random problems {} to {}\n", arguments.first, arguments.first + arguments.random - 1);
  Report report(arguments.random);
  for (std::uint64_t n = arguments.first; n < arguments.first + arguments.random; ++n) {
    check_one(parse_problem(random_problem(n, arguments.kind)), arguments.device.create_options(), report);
  }
  return report.finish();
}

int check(CheckArguments& arguments) {
  if (arguments.random > 0) return check_random(arguments);
  if (arguments.problem.x_shape.empty()) return check_named(arguments);
  complete(arguments.problem);
  Report report(1);
  check_one(arguments.problem, arguments.device.create_options(), report);
  return report.finish();
}

void add_common(CLI::App& command, CheckArguments& arguments) {
  command.add_option("problem", arguments.names, "named problems (default: all)")->type_name("NAME...");
  command.add_option("--random", arguments.random, "check this many random problems instead")->type_name("N");
  command.add_option("--first", arguments.first, "the number of the first random problem (default 1)")->type_name("N");
  add_device_options(command, arguments.device);
}

}  // namespace

void add_check(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "check", "Compares every implementation with the oracle, bit for bit, on named, random or given problems");
  command->require_subcommand(0, 1);
  const auto all = std::make_shared<CheckArguments>();
  add_common(*command, *all);
  command->callback([all, command, &chosen] {
    if (command->get_subcommands().empty()) chosen = [all] { return check(*all); };
  });
  for (const std::string_view name : operator_names()) {
    CLI::App* op = command->add_subcommand(std::string(name), "");
    const auto arguments = std::make_shared<CheckArguments>();
    arguments->kind = *operator_kind(name);
    arguments->problem.kind = arguments->kind;
    add_common(*op, *arguments);
    add_problem_options(*op, arguments->problem);
    op->callback([arguments, &chosen] { chosen = [arguments] { return check(*arguments); }; });
  }
}

}  // namespace tools
