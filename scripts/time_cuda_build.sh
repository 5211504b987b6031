#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# time_cuda_build.sh [JOBS]: how long the CUDA part takes to build from nothing for all devices (the preset cuda's), on as many
# cores as there are, or JOBS. Writes tests/results/build-cuda.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)}
record=tests/results/build-cuda.txt
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBACKPASS_CUDA=ON >/dev/null
mapfile -t objects < <(ninja -C "$folder" -t targets all | sed -n 's/^\(src\/.*\.cu\.o\): .*/\1/p')
SECONDS=0
ninja -C "$folder" -j "$jobs" "${objects[@]}" >/dev/null
{
  echo "scripts/time_cuda_build.sh $jobs, $(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ' and changes')"
  echo "machine: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $jobs jobs, $(nvcc --version | sed -n 's/.*\(release .*\), .*/CUDA \1/p')"
  echo "devices: $(sed -n 's/^CMAKE_CUDA_ARCHITECTURES:.*=//p' "$folder/CMakeCache.txt")"
  echo "${#objects[@]} files in $SECONDS s"
} | tee "$record.new"
mv "$record.new" "$record"
