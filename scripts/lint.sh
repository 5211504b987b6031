#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The sources are formatted as .clang-format says and clang-tidy finds nothing.
set -euo pipefail
jobs=${1:-$(nproc)}
git ls-files '*.h' '*.c' '*.cpp' | xargs clang-format-16 --dry-run -Werror
echo "clang-format: clean"
scripts/build.sh release OFF "$jobs" >/dev/null  # generated headers, compile_commands.json
git ls-files 'src/*.cpp' 'tools/*.cpp' 'tests/*.cpp' 'examples/*.c' 'tests/*.c' |
  xargs -P "$jobs" -n 2 clang-tidy-16 -p build/release --quiet --warnings-as-errors='*' 2>/dev/null
echo "clang-tidy: clean"
