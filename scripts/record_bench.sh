#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# record_bench.sh [BENCH ARGUMENTS]: runs the bench and keeps its JSON and plot under bench/results, named by device, date and
# commit. Refuses a tree with changes, whose commit would say nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
git diff --quiet HEAD || { echo "commit first: the record names the commit" >&2; exit 1; }
BACKPASS_COMMIT=$(git rev-parse --short HEAD)
export BACKPASS_COMMIT
mkdir -p bench/results
name=bench/results/cpu-$(date -u +%Y-%m-%d)-$BACKPASS_COMMIT
build/release/tools/backpass bench --json "$name.json" --plot "$name.svg" "$@"
echo "$name.json"
