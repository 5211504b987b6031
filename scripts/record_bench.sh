#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# record_bench.sh [BENCH ARGUMENTS]: runs the cpu group with one thread and with all, BACKPASS_ROUNDS (3) times over, each
# measurement of BACKPASS_SECONDS (0.1), and keeps the results under bench/results: a JSON of each run, named by date, commit
# and threads, and the plot of the f32 rows with all threads.
# They take the place of the last run's; docs/performance.md shows them (make docs). Without arguments also the tables of
# docs/benchmarks.md: with one thread, except for the planes, where all are compared with one.
# BACKPASS_RESULTS names another folder under bench/results for them: that of another processor, of which the page shows
# what falls short; without the plot, and of the tables with the limits alone.
# Refuses a tree with changes, whose commit would say nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
git diff --quiet HEAD || { echo "commit first: the record names the commit" >&2; exit 1; }
BACKPASS_COMMIT=$(git rev-parse --short HEAD)
export BACKPASS_COMMIT
results=${BACKPASS_RESULTS:-bench/results}
mkdir -p "$results"
rm -f "$results"/cpu-*-threads-*.json
name=$results/cpu-$(date -u +%Y-%m-%d)-$BACKPASS_COMMIT
plot=()
[ "$results" != bench/results ] || plot=(--plot "$results/cpu.svg")
for threads in 1 $(nproc); do
  build/release/tools/backpass bench --threads "$threads" --dtype f32,f16,bf16 --seconds "${BACKPASS_SECONDS:-0.1}" --rounds "${BACKPASS_ROUNDS:-3}" \
    --json "$name-threads-$threads.json" "${plot[@]}" "$@"
done
# table ARGUMENTS: what the bench prints with them, under a line that says so.
table() {
  echo "# commit $BACKPASS_COMMIT: backpass bench $*"
  build/release/tools/backpass bench "$@"
}
if [ $# -eq 0 ]; then
  # A limit that noise has lowered would be an excuse.
  for threads in 1 $(nproc); do table --limits --threads "$threads" --seconds 0.5 --no-peers; done >"$results/cpu-limits.txt"
fi
if [ $# -eq 0 ] && [ "$results" = bench/results ]; then
  for table in sizes calls strides; do table --$table --threads 1 --seconds 0.1 >"bench/results/cpu-$table.txt"; done
  # Past the last cache two threads share its bandwidth, inside it they have their own.
  { table --planes --threads "$(nproc)" --seconds 0.1
    echo
    table --planes --threads "$(nproc)" --largest $((16 << 20)) --seconds 0.1; } >bench/results/cpu-planes.txt
  python=build/python-venv/bin/python
  if [ -x $python ]; then
    { echo "# commit $BACKPASS_COMMIT: python bench/python_calls.py"
      $python bench/python_calls.py; } >bench/results/python-calls.txt
  fi
fi
echo "$name-threads-*.json"
