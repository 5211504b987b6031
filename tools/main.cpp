// SPDX-License-Identifier: Apache-2.0
// `backpass`: the operators from the command line.
#include "commands.h"
#include "problem.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <string>

namespace {

constexpr int kBadInput = 2;

int bad_input(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';  // one line, whatever it quotes
  }
  fmt::print(stderr, "backpass: {}\n", text);
  return kBadInput;
}

std::string version() {
  return fmt::format("backpass {}.{}.{}", bp_version() / 10000, bp_version() / 100 % 100, bp_version() % 100);
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return bad_input(fmt::format("{} (--help shows what there is)", error.what()));
  }
  return chosen();
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
  } catch (const std::exception& error) {
    return bad_input(error.what());
  }
}
