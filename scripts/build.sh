#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh PRESET WERROR JOBS [TARGET...]: configures quietly, builds, shows the log only of a configuration that fails.
set -euo pipefail
preset=$1 werror=$2 jobs=$3
shift 3
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# CI builds the CUDA part for one kind of device; a release is for all.
devices=()
[ -z "${CI:-}" ] || devices=(-DCMAKE_CUDA_ARCHITECTURES=90)
if ! cmake --preset "$preset" -DBACKPASS_WERROR="$werror" "${devices[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
targets=()
[ $# -eq 0 ] || targets=(--target "$@")
cmake --build --preset "$preset" -j "$jobs" "${targets[@]}"
