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

constexpr const char* kFooter =
    "Environment:\n"
    "  BACKPASS_IMPL=NAME,...      only these implementations may be chosen\n"
    "  BACKPASS_MAX_ISA=NAME       no instruction set above this one (backpass list names them)\n"
    "  BACKPASS_PART_BYTES=N       the least that a CPU run gives to a thread (1: every problem is shared)\n"
    "  BACKPASS_CACHE_BYTES=N      the size of the last cache, past which results are written (0: always)\n"
    "  BACKPASS_VERBOSE=1          a line on stderr for every operator created and run\n"
    "\n"
    "Exit codes: 0 all is well; 1 a result differs from the oracle's (check, bench); 2 bad input, or a file that "
    "cannot be\n"
    "read or written, with one line on stderr that says why.";

// CLI11 answers a wrong word, or none, with "a subcommand is required"; say which word it was and which there are.
void require_known_words(const CLI::App& app, int argc, char** argv) {
  const CLI::App* level = &app;
  for (int i = 1; level->get_require_subcommand_min() > 0; ++i) {
    const std::string_view wanted = level == &app ? "command" : "operator";
    std::string names;
    const std::string_view word = i < argc ? argv[i] : "";
    if (word == "-h" || word == "--help" || word == "--version") return;
    const CLI::App* found = nullptr;
    for (const CLI::App* choice : level->get_subcommands([](const CLI::App*) { return true; })) {
      names += (names.empty() ? "" : " ") + choice->get_name();
      if (choice->get_name() == word) found = choice;
    }
    if (i >= argc) throw tools::UsageError(fmt::format("the {} is missing, expected one of {}", wanted, names));
    if (found == nullptr && word.starts_with('-')) {
      throw tools::UsageError(fmt::format("'{}' stands where the {} should, expected one of {}", word, wanted, names));
    }
    if (found == nullptr)
      throw tools::UsageError(fmt::format("'{}' is no {}, expected one of {}", word, wanted, names));
    level = found;
  }
}

// The first word that nobody took. (CLI11's own sentence has all of them, backwards.)
std::string unexpected_word(const CLI::App& app) {
  const CLI::App* level = &app;
  while (level->remaining().empty()) level = level->get_subcommands().front();
  return level->remaining().front();
}

// CLI11's own refusals in our words; those of our options pass through.
std::string sentence_of(const CLI::ParseError& error, const CLI::App& app) {
  std::string text = error.what();
  const std::string name = text.substr(0, text.find(": "));
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    return fmt::format("'{}' is not expected here", unexpected_word(app));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr || name == text) return text;
  if (text.find(": At Most") != std::string::npos) return fmt::format("{}: is given twice", name);
  return fmt::format("{}: has no value", name);
}

int run(int argc, char** argv) {
  CLI::App app{"Backward-pass operators of neural networks, with the same bits on every device.", "backpass"};
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  tools::Command chosen;
  tools::add_list(app, chosen);
  tools::add_run(app, chosen);
  tools::add_check(app, chosen);
  tools::add_explain(app, chosen);
  tools::add_bench(app, chosen);
  app.footer(kFooter);  // behind the commands, which would inherit it
  require_known_words(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return bad_input(fmt::format("{} (--help shows what there is)", sentence_of(error, app)));
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
