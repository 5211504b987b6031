#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# callgrind.sh [--record]: counts the instructions of one run of three operators (AVX2, one thread), which no other program
# on the machine can change, and prints how they differ from those recorded in bench/results/callgrind.txt; or records
# them.
set -euo pipefail
cd "$(dirname "$0")/.."
backpass=$PWD/build/release/tools/backpass
record=bench/results/callgrind.txt
export BACKPASS_MAX_ISA=AVX2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# npy NAME SIZE,SIZE,...: a file of random f32.
npy() {
  python3 - "$folder/$1.npy" "$2" <<'EOF'
import array, math, random, sys
shape = tuple(map(int, sys.argv[2].split(",")))
generator = random.Random(1)
values = array.array("f", (generator.uniform(-1, 1) for _ in range(math.prod(shape))))
header = str({"descr": "<f4", "fortran_order": False, "shape": shape}).ljust(117) + "\n"
with open(sys.argv[1], "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + values.tobytes())
EOF
}

# count NAME OP OPTIONS...: a line with the instructions of its run.
count() {
  local name=$1
  shift
  valgrind --tool=callgrind --toggle-collect=bp_operator_run --callgrind-out-file="$folder/out" \
    "$backpass" run "$@" --threads 1 --out "$folder/result.npy" 2> "$folder/log" || { cat "$folder/log" >&2; exit 1; }
  echo "$name $(sed -n 's/^.*Collected : //p' "$folder/log")"
}

pool="--window 3 --strides 2 --start-padding 1 --end-padding 1"
npy x 1,16,112,112
npy pooled 1,16,56,56
npy doubled 1,16,128,128
# shellcheck disable=SC2086
"$backpass" run max-pool --x "$folder/x.npy" $pool --out "$folder/y.npy" --winners-out "$folder/winners.npy"
{
  # shellcheck disable=SC2086
  count max_pool_grad_3x3_s2_compact max-pool-grad --dy "$folder/pooled.npy" --winners-in "$folder/winners.npy" --x-shape 1,16,112,112 $pool
  count resample_grad_bilinear_x2 resample-grad --dy "$folder/doubled.npy" --x-shape 1,16,64,64
  count slice_grad_every_second slice-grad --dy "$folder/pooled.npy" --x-shape 1,16,112,112 --offsets 0,0,0,0 --sizes 1,16,112,112 --strides 1,1,2,2
} > "$folder/counts"

if [ "${1:-}" = --record ]; then
  commit=$(git describe --always --dirty)  # before the record itself changes
  {
    echo "# Instructions of one run, AVX2, one thread; scripts/callgrind.sh --record wrote them at commit $commit."
    cat "$folder/counts"
  } > "$record"
  cat "$record"
  exit 0
fi
while read -r name now; do
  before=$(sed -n "s/^$name //p" "$record" 2>/dev/null || true)
  awk -v name="$name" -v now="$now" -v before="$before" 'BEGIN {
    printf "%-30s %12d instructions", name, now
    if (before > 0) printf ", recorded %12d, %+.2f %%", before, 100 * (now - before) / before
    print ""
  }'
done < "$folder/counts"
