#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install.sh SOURCE BUILD FOLDER shared|static: installs BUILD, moves the result to FOLDER/prefix, and looks at it there.
set -euo pipefail
source=$1 build=$2 folder=$3 kind=$4
fail() {
  echo "install: $*" >&2
  exit 1
}
rm -rf "$folder"
mkdir -p "$folder"
# Stripped: debugging information names the folders of the source by right.
DESTDIR='' cmake --install "$build" --prefix "$folder/first" --strip >"$folder/log" || { cat "$folder/log"; exit 1; }
mv "$folder/first" "$folder/prefix"
cd "$folder/prefix"

headers=$(cd "$source/include" && find backpass -name '*.h' -o -name '*.hpp')
for header in $headers; do
  cmp "$source/include/$header" "include/$header"
done
cmp "$source/LICENSE" share/doc/backpass/LICENSE
for file in backpassConfig.cmake backpassConfigVersion.cmake backpassTargets.cmake; do
  [ -n "$(find . -path "*/cmake/backpass/$file")" ] || fail "$file is missing"
done
[ -n "$(find . -path '*/pkgconfig/backpass.pc')" ] || fail "backpass.pc is missing"
named=$(grep -rlF -e "$source/" -e "$build" -e "$folder" . || true)
[ -z "$named" ] || fail "these name a folder of the source, the build or the installation: $named"
unexpected=$(find . -type f | grep -vE '^\./(bin/backpass$|include/backpass/|share/doc/backpass/|lib)' || true)
[ -z "$unexpected" ] || fail "nobody asked for $unexpected"

if [ "$kind" = static ]; then
  [ -n "$(find . -name libbackpass.a)" ] || fail "libbackpass.a is missing"
  exit 0
fi
library=$(find "$PWD" -name libbackpass.so.0)
[ -n "$library" ] || fail "libbackpass.so.0 is missing"
unset LD_LIBRARY_PATH
loaded=$(ldd bin/backpass | awk '$1 ~ /^libbackpass/ {print $3}')
[ "$(realpath "$loaded")" = "$(realpath "$library")" ] || fail "bin/backpass loads '$loaded', expected $library"
bin/backpass explain max-pool-grad --x-shape 1,1,3,3 --window 2 --strides 1 >/dev/null
