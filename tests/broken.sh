#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# broken.sh BACKPASS BROKEN_LIBRARY: a wrong bit makes `backpass check` fail, with a line that repeats it; so does a crash.
set -u
backpass=$1 broken=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1"; cat "$folder/out"; exit 1; }

LD_PRELOAD=$broken BREAK=flip "$backpass" check slice whole crop > "$folder/out" 2>&1
[ $? -eq 1 ] || fail "a wrong bit must give exit code 1"
grep -q '^DIFFERS slice ' "$folder/out" || fail "the difference must be told"
again=$(sed -n 's/^  again: backpass //p' "$folder/out" | head -n 1)
[ -n "$again" ] || fail "the line that repeats it must be printed"
# shellcheck disable=SC2086
LD_PRELOAD=$broken BREAK=flip "$backpass" $again > "$folder/out" 2>&1
[ $? -eq 1 ] || fail "that line must fail again: $again"
# shellcheck disable=SC2086
"$backpass" $again > "$folder/out" 2>&1 || fail "and pass with the library unbroken: $again"

LD_PRELOAD=$broken BREAK=crash "$backpass" check slice --random 20 > "$folder/out" 2>&1
grep -q '^random problems 1 to 20$' "$folder/out" || fail "the seeds must be printed before a crash"
again=$(sed -n 's/^CRASHED in: backpass //p' "$folder/out")
[ -n "$again" ] || fail "a crash must print the line that repeats it"
# shellcheck disable=SC2086
"$backpass" $again > "$folder/out" 2>&1 || fail "which passes with the library unbroken: $again"
echo "differences and crashes print lines that repeat them"
