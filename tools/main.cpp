// SPDX-License-Identifier: Apache-2.0
// `backpass`: the operators from the command line.
#include "commands.h"
#include "printable.h"
#include "problem.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int kBadInput = 2;

int bad_input(std::string_view text) {
  const std::string line = fmt::format("backpass: {}\n", tools::printable(text));
  std::fputs(line.c_str(), stderr);  // where stderr is closed, the exit code is all there is to say
  return kBadInput;
}

std::string version() {
  return fmt::format("backpass {}.{}.{}", bp_version() / 10000, bp_version() / 100 % 100, bp_version() % 100);
}

// CLI11 answers a wrong word with "a subcommand is required"; say which word it was.
void require_known_words(const CLI::App& app, int argc, char** argv) {
  const CLI::App* level = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::vector<const CLI::App*> choices = level->get_subcommands([](const CLI::App*) { return true; });
    if (choices.empty() || level->get_require_subcommand_min() == 0) return;
    if (word == "-h" || word == "--help" || word == "--version") return;
    std::string names;
    const CLI::App* found = nullptr;
    for (const CLI::App* choice : choices) {
      names += (names.empty() ? "" : " ") + choice->get_name();
      if (choice->get_name() == word) found = choice;
    }
    if (found == nullptr) {
      throw tools::UsageError(
          fmt::format("'{}' is no {}, expected one of {}", word, level == &app ? "command" : "operator", names));
    }
    level = found;
  }
}

int run(int argc, char** argv) {
  CLI::App app{"Backward-pass operators of neural networks, with the same bits on every device.", "backpass"};
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) { return std::string(error.what()); });
  tools::Command chosen;
  tools::add_list(app, chosen);
  tools::add_run(app, chosen);
  tools::add_check(app, chosen);
  tools::add_explain(app, chosen);
  tools::add_bench(app, chosen);
  require_known_words(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return bad_input(fmt::format("{} (--help shows what there is)", error.what()));
  }
  const int code = chosen();
  if (std::fflush(stdout) != 0) throw tools::UsageError("standard output could not be written");
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error like any other
  try {
    return run(argc, argv);
  } catch (const tools::UsageError& error) {
    return bad_input(error.what());
  } catch (const std::bad_alloc&) {
    return bad_input("not enough memory");
  } catch (const std::length_error&) {
    return bad_input("not enough memory");
  } catch (const std::exception& error) {
    return bad_input(error.what());
  }
}
