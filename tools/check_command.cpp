// SPDX-License-Identifier: Apache-2.0
// `backpass check [OP] [problem...]`: every implementation against the oracle, bit for bit.
#include "check.h"
#include "commands.h"
#include "device_options.h"
#include "options.h"
#include "printable.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <thread>

// The sanitizers' own name; null where none is linked in.
// NOLINTNEXTLINE
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace tools {

namespace {

struct CheckArguments {
  std::int32_t kind = 0;  // 0: every operator
  Problem problem;        // a problem of its own, where it has an x_shape; else only its types count
  std::vector<std::string> names;
  std::uint64_t random = 0;
  bool random_given = false;
  bool first_given = false;
  std::uint64_t first = 1;
  DeviceOptions device;
};

// What to type to see one comparison again, with the environment that the library reads.
std::string repeating_line(const Problem& problem, std::int32_t dtype, const CreateOptions& options) {
  std::string line;
  for (const char* variable : {"BACKPASS_MAX_ISA", "BACKPASS_PART_BYTES", "BACKPASS_CACHE_BYTES"}) {
    if (const char* value = std::getenv(variable)) line += fmt::format("{}={} ", variable, value);
  }
  line += "backpass check " + problem.text;
  if (problem.dtypes.empty()) line += fmt::format(" --dtype {}", dtype_name(dtype));
  if (options.device.kind == BP_DEVICE_CUDA) line += " --device cuda";
  if (options.threads > 0) line += fmt::format(" --threads {}", options.threads);
  return line;
}

// Counts by operator and implementation; speaks of what differs at once, of the rest at the end.
class Report {
 public:
  explicit Report(std::uint64_t total) : total_(total), terminal_(::isatty(STDERR_FILENO) != 0) {}

  void passed(const Problem& problem, const std::string& implementation) { ++tally(problem, implementation).tried; }
  void refused(const Problem& problem, const std::string& implementation) { ++tally(problem, implementation).refused; }
  void failed(const Problem& problem, std::int32_t dtype, const CreateOptions& options, const std::string& wrong) {
    ++tally(problem, options.implementation).tried;
    ++tally(problem, options.implementation).failed;
    clear_progress();
    fmt::print("DIFFERS {} {} {}: {}\n", operator_name(problem.kind), dtype_name(dtype), options.implementation, wrong);
    if (problem.text.empty()) return;  // typed by the user, who has it
    fmt::print("  again: {}\n", repeating_line(problem, dtype, options));
  }

  void start(const Problem& problem) {
    ++done_;
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    clear_progress();
    const std::string line = fmt::format("{} of {}: {} {}", done_, total_, operator_name(problem.kind), problem.name);
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
  }

  int finish() {
    clear_progress();
    std::uint64_t tried = 0;
    std::uint64_t wrong = 0;
    for (const auto& [key, tally] : tallies_) {
      fmt::print("{:<16} {:<14} {:>7} checked, {} refused, {} differ\n", operator_name(key.first), key.second,
                 tally.tried, tally.refused, tally.failed);
      tried += tally.tried;
      wrong += tally.failed;
    }
    if (tried == 0) throw UsageError("nothing was checked: no problem has such a type or implementation");
    fmt::print("{}, {} passed, {} failed\n", counted(done_, "problem", "problems"), tried - wrong, wrong);
    return wrong == 0 ? 0 : 1;
  }

 private:
  struct Tally {
    std::uint64_t tried = 0;
    std::uint64_t refused = 0;
    std::uint64_t failed = 0;
  };
  Tally& tally(const Problem& problem, const std::string& implementation) {
    return tallies_[{problem.kind, implementation}];
  }
  void clear_progress() const {
    if (terminal_) std::fputs("\r\x1b[K", stderr);
  }
  std::uint64_t total_;
  bool terminal_;
  std::chrono::steady_clock::time_point shown_;
  std::uint64_t done_ = 0;
  std::map<std::pair<std::int32_t, std::string>, Tally> tallies_;
};

// ---- A crash says what it was about ----------------------------------------------------------------------

std::array<char, 4096> crash_line{};

void write_crash_line() {
  const char* text = crash_line.data();
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

void on_crash(int signal) {
  write_crash_line();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// While it lives, a crash (a guard page was touched, a sanitizer gave up) prints the line that repeats it.
class CrashLine {
 public:
  CrashLine(const Problem& problem, std::int32_t dtype, const CreateOptions& options) {
    const std::string line = fmt::format("\nCRASHED in: {}\n", repeating_line(problem, dtype, options));
    const std::size_t length = std::min(line.size(), crash_line.size() - 1);
    std::memcpy(crash_line.data(), line.data(), length);
    crash_line[length] = '\0';
  }
  ~CrashLine() { crash_line[0] = '\0'; }
  CrashLine(const CrashLine&) = delete;
  CrashLine& operator=(const CrashLine&) = delete;
};

void install_crash_handlers() {
  std::fflush(stdout);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(write_crash_line);  // the sanitizer has handlers of its own
    return;
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, on_crash);
}

// A host's pool: as many threads as asked for. The library's own are no more than the processor has.
void run_on_own_threads(void*, std::int64_t count, void (*task)(void*, std::int64_t), void* data) {
  std::vector<std::thread> threads;
  for (std::int64_t i = 1; i < count; ++i) threads.emplace_back(task, data, i);
  task(data, 0);
  for (std::thread& thread : threads) thread.join();
}

// One implementation with one number of threads.
void check_operator(const ProblemCheck& check, const Problem& problem, std::int32_t dtype, const CreateOptions& options,
                    Report& report) {
  const CreateResult created = try_create(problem, tensors(problem, dtype), options);
  if (created.status == BP_UNSUPPORTED) return report.refused(problem, options.implementation);
  std::string wrong = created.error;
  if (created.op && options.implementation != bp_operator_implementation(created.op.get())) {
    wrong = "another implementation ran";
  }
  if (wrong.empty()) {
    const CrashLine line(problem, dtype, options);
    wrong = check.run(created.op.get(), options.device.kind);
  }
  wrong.empty() ? report.passed(problem, options.implementation) : report.failed(problem, dtype, options, wrong);
}

// Every implementation of one type; a problem that the library refuses is the user's mistake, not a difference.
void check_type(const Problem& problem, std::int32_t dtype, const DeviceOptions& device, Report& report) {
  CreateOptions options = device.create_options();
  if (const CreateResult best = try_create(problem, tensors(problem, dtype), options); !best.op) {
    throw UsageError(problem.text.empty() ? best.error : fmt::format("{} (in '{}')", best.error, problem.text));
  }
  require_judge(problem, device.implementation);
  const ProblemCheck check(problem, dtype);
  for (const std::string& name : implementations_of(problem.kind, device.device)) {
    if (!device.implementation.empty() && device.implementation != name) continue;
    options.implementation = name;
    require_judge(problem, name);
    for (const int threads : device.threads) {
      options.threads = threads;
      const bool too_many = threads > static_cast<int>(std::thread::hardware_concurrency());
      options.parallel_for = too_many ? run_on_own_threads : nullptr;
      check_operator(check, problem, dtype, options, report);
    }
  }
}

void check_one(const Problem& problem, const CheckArguments& arguments, Report& report) {
  const std::vector<std::int32_t>& wanted = arguments.problem.dtypes;
  report.start(problem);
  for (const std::int32_t dtype : dtypes_of(problem, arguments.device.device)) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), dtype) == wanted.end()) continue;
    check_type(problem, dtype, arguments.device, report);
  }
}

// ---- Which problems ------------------------------------------------------------------------------------

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
      if (arguments.kind == 0) {
        throw UsageError(fmt::format(
            "'{}' is no named problem and no operator (backpass list problems, backpass list: what there is)", name));
      }
      const std::string_view op = operator_name(arguments.kind);
      throw UsageError(
          fmt::format("'{}' is no named problem of {} (backpass list problems {}: what there is)", name, op, op));
    }
  }
  Report report(selected.size());
  for (const Problem* problem : selected) check_one(*problem, arguments, report);
  return report.finish();
}

int check_random(const CheckArguments& arguments) {
  if (arguments.random > std::numeric_limits<std::uint64_t>::max() - arguments.first) {
    throw UsageError("--first: leaves no room for so many problems");
  }
  if (!arguments.names.empty() || !arguments.problem.x_shape.empty()) {
    throw UsageError("--random: makes its own problems, expected no name and no --x-shape beside it");
  }
  if (arguments.random == 0) throw UsageError("--random: is 0, expected 1 or more");
  fmt::print("random problems {} to {}\n", arguments.first, arguments.first + arguments.random - 1);
  std::fflush(stdout);
  Report report(arguments.random);
  for (std::uint64_t n = arguments.first; n < arguments.first + arguments.random; ++n) {
    check_one(parse_problem(random_problem(n, arguments.kind)), arguments, report);
  }
  return report.finish();
}

int check_given(CheckArguments& arguments) {
  if (!arguments.names.empty()) throw UsageError("--x-shape: gives a problem of its own, expected no names beside it");
  complete(arguments.problem);
  Report report(1);
  check_one(arguments.problem, arguments, report);
  return report.finish();
}

int check(CheckArguments& arguments) {
  if (*bp_cpu_instruction_sets() == '\0') throw UsageError(bp_last_error());
  if (arguments.kind != 0 && implementations_of(arguments.kind, arguments.device.device).empty()) {
    throw UsageError(fmt::format("device: this build has no implementation of {} for {}", operator_name(arguments.kind),
                                 device_name(arguments.device.device)));
  }
  install_crash_handlers();
  if (arguments.random_given) return check_random(arguments);
  if (arguments.first_given) throw UsageError("--first: needs --random");
  return arguments.problem.x_shape.empty() ? check_named(arguments) : check_given(arguments);
}

// Parameters without a shape would be read and ignored.
void require_shape_for_parameters(const CLI::App& op, const CheckArguments& arguments) {
  if (!arguments.problem.x_shape.empty()) return;
  for (const CLI::Option* option : op.get_options()) {
    const std::string name = option->get_name();
    const bool belongs_to_all = name == "problem" || name == "--random" || name == "--first" || name == "--dtype" ||
                                name == "--device" || name == "--threads" || name == "--implementation";
    if (option->count() > 0 && !belongs_to_all) throw CLI::ValidationError(name + ": needs --x-shape");
  }
}

// An option before the operator and again behind it would be read and ignored; so would a name before it.
void require_once(const CLI::App& command, const CLI::App& op) {
  for (const CLI::Option* before : command.get_options()) {
    if (before->count() == 0) continue;
    const std::string name = before->get_name();
    if (name == "problem") {
      throw CLI::ValidationError("'" + before->results().front() + "' stands before the operator, expected behind it");
    }
    const CLI::Option* behind = op.get_option_no_throw(name);
    if (behind != nullptr && behind->count() > 0) throw CLI::ValidationError(name + ": is given twice");
  }
}

void add_common(CLI::App& command, CheckArguments& arguments) {
  const auto number = [&](const std::string& option, std::uint64_t& target, bool& given, const std::string& help) {
    command
        .add_option_function<std::string>(
            option,
            [option, &target, &given](const std::string& text) {
              try {
                target = parse_count(option, text);
                given = true;
              } catch (const UsageError& error) {
                throw CLI::ValidationError(error.what());
              }
            },
            help)
        ->type_name("N");
  };
  command.add_option("problem", arguments.names, "named problems (default: all)")->type_name("NAME");
  number("--random", arguments.random, arguments.random_given, "check this many random problems instead");
  number("--first", arguments.first, arguments.first_given, "the number of the first random problem (default 1)");
  add_device_options(command, arguments.device, Threads::list);
}

}  // namespace

void add_check(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "check", "Compares every implementation with the oracle, bit for bit, on named, random or given problems");
  command->require_subcommand(0, 1);
  // Whether they stand before the operator or behind it, the common options mean the same.
  const auto arguments = std::make_shared<CheckArguments>();
  add_common(*command, *arguments);
  command->callback([arguments, &chosen] { chosen = [arguments] { return check(*arguments); }; });
  for (const std::string_view name : operator_names()) {
    CLI::App* op = command->add_subcommand(std::string(name), operator_help(*operator_kind(name)));
    const auto problem = std::make_shared<Problem>();
    problem->kind = *operator_kind(name);
    add_common(*op, *arguments);
    add_problem_options(*op, *problem);
    op->callback([arguments, problem, command, op] {
      require_once(*command, *op);
      arguments->kind = problem->kind;
      arguments->problem = *problem;
      require_shape_for_parameters(*op, *arguments);
    });
  }
}

}  // namespace tools
