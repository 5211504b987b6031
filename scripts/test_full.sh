#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What takes too long for every day, after `make test`. Writes what it saw to tests/results/test-full.txt.
set -euo pipefail
jobs=${1:-$(nproc)}
record=tests/results/test-full.txt
mkdir -p tests/results
# sweep SET MODE: what went wrong, and the counts.
sweep() {
  set -o pipefail
  # 77: a set that the processor lacks, and said so
  tests/matrix.sh build/release/tools/backpass "$1" "$2" 20000 |
    grep -E '^(skipped|DIFFERS|CRASHED|  again|[0-9]+ problem)' || [ "${PIPESTATUS[0]}" -eq 77 ]
}
# under_tsan TEST [COMMAND that runs it]
under_tsan() {
  echo "$@"
  "${@:2}" "build/tsan/tests/$1" | grep -E '^\[ +(PASSED|FAILED|SKIPPED)'
}
files=$(mktemp -d)
export files
export -f sweep
trap 'rm -rf "$files"' EXIT
{
  scripts/record_head.sh "make test-full, scripts/test_full.sh"
  echo
  echo "== all 2^16 f16 and bf16 values up, all 2^32 f32 values down"
  BACKPASS_TEST_FULL=1 build/release/tests/core_test --gtest_filter='Half.*' | grep -E '^\[ +(OK|FAILED|PASSED)'
  echo
  echo "== all 2^32 f32 values down, on vectors of each instruction set"
  BACKPASS_TEST_FULL=1 build/release/tests/simd_test | grep -E '^\[ +(OK|FAILED|PASSED|SKIPPED)'
  echo
  echo "== every instruction set, 1, 2, 3 and 7 threads: named problems, and 20,000 random ones each"
  # As many at a time as there are jobs; each writes a file, and they are shown in order.
  printf '%s\n' {SCALAR,SSE4,AVX2,AVX3}" "{ordinary,parts,streams} >"$files/runs"
  failed=0
  xargs -a "$files/runs" -P "$jobs" -L 1 bash -c 'sweep "$@" >"$files/$1-$2"' sweep || failed=1
  while read -r set mode; do
    echo "$set $mode"
    cat "$files/$set-$mode"
  done <"$files/runs"
  [ $failed = 0 ] || exit 1
  echo
  echo "== a million random problems"
  build/release/tools/backpass check --random 1000000 --first 1000000
  echo
  echo "== one operator on many threads, and every vector and property, under TSan"
  scripts/build.sh tsan OFF "$jobs" abi_test cpu_test operators_test >/dev/null
  # ThreadSanitizer does not see what oneTBB's library puts in order: the first two bring threads of their own, the third
  # has one processor.
  under_tsan abi_test
  under_tsan cpu_test
  under_tsan operators_test taskset -c 0
} 2>&1 | tee "$record.new"
mv "$record.new" "$record"  # whole, or the last one stays
