#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_arm.sh [JOBS]: builds for 64-bit Arm, lets the command line compare itself with the oracle in an emulator, on every
# instruction set it is compiled for, and compares files of results with this machine's (build/release). Writes what it saw
# to tests/results/test-arm.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)}
here=$PWD/build/release/tools/backpass
folder=$PWD/build/arm
record=tests/results/test-arm.txt

# The arm64 libraries are unpacked beside the build; nothing foreign is installed.
if [ ! -e "$folder/root/complete" ]; then
  rm -rf "$folder/root"
  mkdir -p "$folder"/{root,packages,apt/lists/partial,apt/cache/archives/partial}
  apt=(apt-get -qq -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=
       -o Dir::State::Lists="$folder/apt/lists" -o Dir::Cache="$folder/apt/cache")
  "${apt[@]}" update
  packages=(lib{hwy-dev,hwy1,tbb-dev,tbb12,tbbmalloc2,tbbbind-2-5,fmt-dev,fmt9}:arm64 libcli11-dev)
  (cd "$folder/packages" && "${apt[@]}" download "${packages[@]}")
  for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder/root"; done
  touch "$folder/root/complete"
fi
cmake -S . -B "$folder/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DBACKPASS_ARM_ROOT="$folder/root" \
  -DCMAKE_BUILD_TYPE=Release -DBACKPASS_TESTS=OFF >/dev/null
cmake --build "$folder/build" -j "$jobs" --target backpass_cli

# there BYTES COMMAND...: on an emulated processor with SVE registers of so many bytes.
there() {
  local bytes=$1
  shift
  qemu-aarch64 -cpu max,sve-default-vector-length="$bytes" -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$folder/root/usr/lib/aarch64-linux-gnu" \
    "$folder/build/tools/backpass" "$@" </dev/null
}
# checks SET BYTES MODE RANDOM: as tests/matrix.sh does it.
checks() (
  set -e
  export BACKPASS_MAX_ISA=$1
  [ "$3" = ordinary ] || export BACKPASS_PART_BYTES=1 BACKPASS_CACHE_BYTES=0
  there "$2" check --threads 1,3
  there "$2" check --threads 1,3 --random "$4" --first 4000001
)

# inputs DTYPE: files of finite numbers: bytes at random, but for those that an exponent of infinity and NaN begins with.
inputs() {
  local size=4 code='<f4' name shape
  [ "$1" = f32 ] || { size=2; code='<f2'; }
  while read -r name shape; do
    {
      printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '$code', 'fortran_order': False, 'shape': (${shape}), }"
      head -c $((${shape//,/*} * size)) "$files/bytes"
    } >"$files/$name.npy"
  done <<FILES
x 2,3,40,40
dy 2,3,20,20
dy39 2,3,39,39
FILES
}
files=$(mktemp -d)
export folder files
export -f there checks
trap 'rm -rf "$files"' EXIT
seq 1 100000 | gzip -n | LC_ALL=C tr -d '\174-\177\374-\377' >"$files/bytes"
sets=$(there 16 list | sed -n 's/^instruction sets: //p')

{
  echo "make test-arm, $(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ' and changes')"
  echo "$(aarch64-linux-gnu-g++ --version | head -n 1), $(qemu-aarch64 --version | head -n 1), on $(uname -m)"
  echo "instruction sets: $sets"
  # As many at a time as there are jobs; each writes a file, and they are shown in order.
  for set in ${sets//,/ }; do
    # Registers of SVE may have any of these lengths; NEON's have one.
    lengths=16
    [ "$set" = NEON ] || lengths="16 32 64 256"
    for bytes in $lengths; do
      for mode in ordinary streams; do echo "$set" "$bytes" $mode 1000; done
    done
  done >"$files/runs"
  failed=0
  xargs -a "$files/runs" -P "$jobs" -L 1 bash -c 'checks "$@" >"$files/$1-$2-$3" 2>&1' checks || failed=1
  while read -r set bytes mode random; do
    echo
    echo "== $set, registers of $bytes bytes, $mode, $random random problems"
    cat "$files/$set-$bytes-$mode"
  done <"$files/runs"
  [ $failed = 0 ] || exit 1
  echo
  echo "== files of results, byte for byte: Arm's on every instruction set like this machine's"
  same=0
  for dtype in f32 f16; do
    inputs "$dtype"
    while read -r line; do
      # shellcheck disable=SC2086
      (cd "$files" && "$here" run $line --out here.npy >/dev/null </dev/null)
      for set in ${sets//,/ }; do
        # shellcheck disable=SC2086
        (cd "$files" && BACKPASS_MAX_ISA=$set there 64 run $line --out there.npy >/dev/null)
        cmp "$files/here.npy" "$files/there.npy" || { echo "differs: $dtype $set: run $line"; exit 1; }
        same=$((same + 1))
      done
    done <<LINES
relu --x x.npy
relu-grad --x x.npy --dy x.npy
max-pool --x x.npy --window 3 --strides 2
max-pool-grad --x x.npy --dy dy.npy --window 2
max-pool-grad --x x.npy --dy dy39.npy --window 2 --strides 1
resample --x x.npy --y-shape 2,3,67,91
resample-grad --dy x.npy --x-shape 2,3,17,23
slice --x x.npy --strides 1,1,-2,3
slice-grad --dy dy.npy --x-shape 2,3,40,40 --strides 1,1,-2,2
LINES
  done
  echo "$same comparisons, all the same"
} 2>&1 | tee "$record.new"
mv "$record.new" "$record"  # whole, or the last one stays
