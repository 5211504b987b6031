#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_cuda.sh BACKPASS CUDA_TEST OUT [STAGE...]: the bits on a CUDA device. Stages, all of them unless some are named:
# life (of operators), named (problems), random (5,000 of them, twice), large (what 32 bits cannot count), and the tools of
# compute-sanitizer on the named problems: memcheck and initcheck on all, racecheck and synccheck on the operators whose
# kernels use shared memory. Writes OUT/check-cuda.txt. BACKPASS_COMMIT says which commit they were built from, where there
# is no repository.
set -euo pipefail
backpass=$1 cuda_test=$2 out=$3
shift 3
[ $# -gt 0 ] || set -- life named random large memcheck initcheck racecheck synccheck
commit=${BACKPASS_COMMIT:-$(git rev-parse --short HEAD)}
mkdir -p "$out"
counts() { grep -E '^(DIFFERS|CRASHED|  again|[0-9]+ problem|[a-z-]+ +[a-z]+ +[0-9]+ checked)' || true; }
sanitize() { # tool, operators
  local tool=$1
  shift
  echo "== named problems under $tool${1:+: $*}"
  for operator in "${@:-}"; do
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$backpass" check ${operator:+"$operator"} --device cuda |
      grep -E '^(DIFFERS|[0-9]+ problem|=========.*SUMMARY)'
  done
}
{
  echo "scripts/check_cuda.sh $*, $(date -u +%Y-%m-%d), commit $commit"
  echo "machine: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)"
  for stage; do
    echo
    case $stage in
      life)
        echo "== the operators' life"
        "$cuda_test" | grep -E '^\[ +(PASSED|FAILED|SKIPPED)'
        ;;
      named)
        echo "== named problems"
        "$backpass" check --device cuda | counts
        ;;
      random)
        for time in first second; do
          echo "== 5,000 random problems, the $time time"
          "$backpass" check --device cuda --random 5000 --first 7000001 | counts
        done
        ;;
      large)
        echo "== problems that 32 bits cannot count, against the CPU's results"
        "$backpass" bench --device cuda --group large --dtype f16 --no-peers --seconds 0 | grep -E '^[a-z_]+ +[a-z_]+_large|DIFFERS'
        ;;
      memcheck | initcheck) sanitize "$stage" ;;
      racecheck | synccheck) sanitize "$stage" max-pool-grad resample-grad ;;
      *)
        echo "check_cuda.sh: no stage is called $stage" >&2
        exit 2
        ;;
    esac
  done
} 2>&1 | tee "$out/check-cuda.txt.new"
mv "$out/check-cuda.txt.new" "$out/check-cuda.txt"  # whole, or the last one stays
