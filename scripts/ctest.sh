#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest.sh PRESET JOBS [CTEST ARGUMENTS]: runs the tests of a preset; a skipped test says why.
set -uo pipefail
preset=$1 jobs=$2
shift 2
ctest --preset "$preset" -j "$jobs" --progress --no-tests=error "$@"
status=$?
log=build/$preset/Testing/Temporary/LastTest.log
grep -h '^skipped: ' "$log"
awk '/^\[ RUN/ {name = $4} /: Skipped$/ {getline reason; print "skipped: " name ": " reason}' "$log"
grep -hE '^random problems [0-9]+ to|^[0-9]+ problems?, ' "$log" || true
exit $status
