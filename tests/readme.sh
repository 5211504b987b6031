#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# readme.sh README CXX LIBRARY INCLUDE: the README's ```cpp program, compiled by the README's own line, prints the ```text that
# follows it. Its paths into the clone become those of this build.
#
# readme.sh README PREFIX: the same program, built by the README's ```cmake against what is installed there.
set -euo pipefail
readme=$1
fail() {
  echo "readme: $*" >&2
  exit 1
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
awk -v folder="$folder" '
  /^```cpp$/ {out = folder "/main.cpp"; programs++; next}
  /^```text$/ {out = folder "/expected"; next}
  /^```cmake$/ {out = folder "/CMakeLists.txt"; next}
  /^```$/ {out = ""; next}
  out {print > out}
  END {exit programs != 1}' "$readme" || fail "expected one program"

if [ $# -eq 4 ]; then
  cxx=$2 library=$3 include=$4
  line=$(sed -n 's/^    \(g++ .*\$B\/include.*\) && .\/a.out$/\1/p' "$readme")
  [ -n "$line" ] || fail "the compiler's line is missing"
  line=${line//'$B/build/release/src'/$(dirname "$library")}
  line=${line//'$B/include'/$include}
  (cd "$folder" && eval "$cxx ${line#g++} -Wall -Wextra -Wpedantic -Werror -o program")
  program=$folder/program
else
  cmake -S "$folder" -B "$folder/build" -DCMAKE_PREFIX_PATH="$2" >"$folder/log" || { cat "$folder/log"; exit 1; }
  cmake --build "$folder/build" >"$folder/log" || { cat "$folder/log"; exit 1; }
  program=$folder/build/main
fi
"$program" >"$folder/found"
diff -u "$folder/expected" "$folder/found"
echo "the program of the README prints what it says"
