#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lint.sh [JOBS | --format]: the sources are formatted as .clang-format and pyproject.toml say, ruff finds nothing and, but for
# --format, clang-tidy neither.
set -euo pipefail
git ls-files '*.h' '*.hpp' '*.c' '*.cpp' '*.cu' '*.cuh' | xargs clang-format-16 --dry-run -Werror
echo "clang-format: clean"
ruff=build/lint-venv/bin/ruff
[ -x $ruff ] || { python3 -m venv build/lint-venv && build/lint-venv/bin/pip install --quiet ruff==0.17.4; }
$ruff check --quiet
$ruff format --quiet --check
echo "ruff: clean"
[ "${1:-}" != --format ] || exit 0
jobs=${1:-$(nproc)}
cmake --preset release >/dev/null  # writes the generated headers and compile_commands.json; nothing need be built
# The library and the tools; GoogleTest's macros would drown the tests.
git ls-files 'src/*.cpp' 'tools/*.cpp' 'bench/*.cpp' | grep -v '/test.cpp$' |
  xargs -P "$jobs" -n 4 clang-tidy-16 -p build/release --quiet --extra-arg=-Wno-unknown-warning-option --warnings-as-errors='*' 2>/dev/null
echo "clang-tidy: clean"
