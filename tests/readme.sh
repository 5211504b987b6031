#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# readme.sh README CXX LIBRARY INCLUDE: each ```cpp program of the README compiles, runs, and prints the ```text that follows.
set -euo pipefail
readme=$1 cxx=$2 library=$3 include=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
awk -v folder="$folder" '
  /^```cpp$/ {n++; out = folder "/" n ".cpp"; next}
  /^```text$/ {if (n) {out = folder "/" n ".txt"}; next}
  /^```$/ {out = ""; next}
  out {print > out}' "$readme"
count=0
for source in "$folder"/*.cpp; do
  program=${source%.cpp}
  "$cxx" -std=c++20 -Wall -Wextra -Wpedantic -Werror -I"$include" "$source" "$library" -Wl,-rpath,"$(dirname "$library")" -o "$program"
  "$program" > "$program.found"
  diff -u "$program.txt" "$program.found"
  count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "the README has no program"; exit 1; }
echo "$count programs of the README print what it says"
