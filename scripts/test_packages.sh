#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package as others use it: on arrays of PyTorch and JAX, and from its sdist. Writes what it saw to
# tests/results/test-packages.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
record=tests/results/test-packages.txt
# Of what is installed on the way, the record has nothing.
tests='^(SKIPPED|FAILED|ERROR)|\.whl,|\.tar\.gz,| (passed|failed)'
{
  scripts/record_head.sh "make test-full, scripts/test_packages.sh"
  echo
  echo "== the wheel, on arrays of PyTorch and JAX too"
  scripts/test_python.sh torch==2.13.0 jax==0.10.2 2>&1 | grep -E "$tests"
  echo
  echo "== the sdist, unpacked in an empty folder, installed with pip and tested"
  scripts/test_sdist.sh 2>&1 | grep -E "$tests"
} 2>&1 | tee "$record.new"
mv "$record.new" "$record"  # whole, or the last one stays
