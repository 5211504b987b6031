#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_cuda.sh BACKPASS CUDA_TEST OUT: the bits on a CUDA device: the operators' life, every named problem, 5,000 random ones
# twice, the problems that 32 bits cannot count, and compute-sanitizer on the named ones. Writes OUT/check-cuda.txt.
# BACKPASS_COMMIT says which commit they were built from, where there is no repository.
set -euo pipefail
backpass=$1 cuda_test=$2 out=$3
commit=${BACKPASS_COMMIT:-$(git rev-parse --short HEAD)}
mkdir -p "$out"
counts() { grep -E '^(DIFFERS|CRASHED|  again|[0-9]+ problem|[a-z-]+ +[a-z]+ +[0-9]+ checked)' || true; }
{
  echo "scripts/check_cuda.sh, $(date -u +%Y-%m-%d), commit $commit"
  echo "machine: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)"
  echo
  echo "== the operators' life"
  "$cuda_test" | grep -E '^\[ +(PASSED|FAILED|SKIPPED)'
  echo
  echo "== named problems"
  "$backpass" check --device cuda | counts
  for time in first second; do
    echo
    echo "== 5,000 random problems, the $time time"
    "$backpass" check --device cuda --random 5000 --first 7000001 | counts
  done
  echo
  echo "== problems that 32 bits cannot count, against the CPU's results"
  "$backpass" bench --device cuda --group large --dtype f16 --no-peers --seconds 0 | grep -E '^[a-z_]+ +[a-z_]+_large|DIFFERS'
  for tool in memcheck initcheck racecheck synccheck; do
    echo
    echo "== named problems under $tool"
    compute-sanitizer --tool $tool --error-exitcode 9 "$backpass" check --device cuda |
      grep -E '^(DIFFERS|[0-9]+ problem|=========.*SUMMARY)'
  done
} 2>&1 | tee "$out/check-cuda.txt.new"
mv "$out/check-cuda.txt.new" "$out/check-cuda.txt"  # whole, or the last one stays
