#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What takes too long for every day, after `make test`. Writes what it saw to tests/results/test-full.txt.
set -euo pipefail
jobs=${1:-$(nproc)}
record=tests/results/test-full.txt
mkdir -p tests/results
{
  echo "make test-full, $(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ' and changes')"
  echo "machine: $(uname -m), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $(g++ --version | head -n 1)"
  echo
  echo "== all 2^16 f16 and bf16 values up, all 2^32 f32 values down"
  BACKPASS_TEST_FULL=1 build/release/tests/core_test --gtest_filter='Half.*' | grep -E '^\[ +(OK|FAILED|PASSED)'
  echo
  echo "== all 2^32 f32 values down, on vectors of each instruction set"
  BACKPASS_TEST_FULL=1 build/release/tests/simd_test | grep -E '^\[ +(OK|FAILED|PASSED|SKIPPED)'
  echo
  echo "== every instruction set, 1, 2, 3 and 7 threads: named problems, and 50,000 random ones each"
  for set in SCALAR SSE4 AVX2 AVX3; do
    for mode in ordinary parts streams; do
      echo "$set $mode"
      # 77: a set that the processor lacks, and said so
      tests/matrix.sh build/release/tools/backpass $set $mode 50000 | grep -E '^(skipped|DIFFERS|CRASHED|  again|[0-9]+ problem)' ||
        [ "${PIPESTATUS[0]}" -eq 77 ]
    done
  done
  echo
  echo "== a million random problems"
  build/release/tools/backpass check --random 1000000 --first 1000000
  echo
  echo "== one operator on many threads, and every vector and property, under TSan"
  scripts/build.sh tsan OFF "$jobs" abi_test cpu_test operators_test >/dev/null
  for test in abi_test cpu_test operators_test; do
    echo "$test"
    build/tsan/tests/$test | grep -E '^\[ +(PASSED|FAILED|SKIPPED)'
  done
} 2>&1 | tee "$record"
