#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The bench on small problems: what it prints and writes has its fixed form. No time is judged.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
names="grad_3_s2_compact grad_bilinear_x2 grad_half_channels grad_one_element window_3_stride_2"
# shellcheck disable=SC2086
BACKPASS_COMMIT=test "$1" bench $names --dtype f32,f16 --seconds 0.001 --json "$folder/b.json" --plot "$folder/b.svg" > "$folder/table"
cat "$folder/table"
expect() { grep -q -- "$1" "$2" || { echo "not found in $2: $1"; exit 1; }; }
expect '^max_pool_grad  grad_3_s2_compact .* f16 .* nhwc .* reference ' "$folder/table"
for key in machine commit limits results operator problem dtype layout device implementation threads median_ns spread \
           bytes gb_per_s fraction verified peers; do
  expect "\"$key\":" "$folder/b.json"
done
expect '"commit": "test"' "$folder/b.json"
expect '"verified": true' "$folder/b.json"
if grep -q '"verified": false' "$folder/b.json"; then echo "something differs"; exit 1; fi
if command -v python3 > /dev/null; then python3 -c "import json, sys; json.load(open(sys.argv[1]))" "$folder/b.json"; fi
expect '<svg ' "$folder/b.svg"
expect '</svg>' "$folder/b.svg"
"$1" bench no_such_problem 2> "$folder/error" && exit 1
expect "'no_such_problem' is no workload and no named problem" "$folder/error"
