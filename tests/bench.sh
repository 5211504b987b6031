#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The bench on small problems: what it prints and writes has its fixed form. No time is judged, and no peer is needed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export BACKPASS_COMMIT=test BACKPASS_PEERS_PYTHON="$folder/none"
expect() { grep -q -- "$1" "$2" || { echo "not found in $2: $1"; exit 1; }; }
is_json() { if command -v python3 > /dev/null; then python3 -c "import json, sys; json.load(open(sys.argv[1]))" "$1"; fi; }

# Two rounds are shown as one.
"$1" bench grad_3_s2_compact --layout nchw --rounds 2 --seconds 0.001 --no-peers > "$folder/rounds"
test "$(grep -c '^max_pool_grad ' "$folder/rounds")" = 1
names="grad_3_s2_compact grad_bilinear_x2 grad_half_channels grad_one_element window_3_stride_2"
# shellcheck disable=SC2086
"$1" bench $names --dtype f32,f16 --seconds 0.001 --json "$folder/b.json" --plot "$folder/b.svg" > "$folder/table"
cat "$folder/table"
expect '^peers: oneDNN .*, PyTorch not found (make peers)$' "$folder/table"
expect '^max_pool_grad  grad_3_s2_compact .* f16 .* nhwc ' "$folder/table"
for key in machine commit limits results operator problem dtype layout device implementation threads median_ns spread \
           bytes gb_per_s fraction verified peers; do
  expect "\"$key\":" "$folder/b.json"
done
expect '"commit": "test"' "$folder/b.json"
expect '"verified": true' "$folder/b.json"
if grep -q '"verified": false' "$folder/b.json"; then echo "something differs"; exit 1; fi
# Where oneDNN is there, it took part, and has the same gradient.
if ! grep -q 'oneDNN not found' "$folder/table"; then
  expect '"peers": \[{"name": "oneDNN [0-9.]*", "median_ns": [0-9]*, "agrees": true}\]' "$folder/b.json"
  if grep -q '"agrees": false' "$folder/b.json"; then echo "a peer differs"; exit 1; fi
fi
is_json "$folder/b.json"
expect '<svg ' "$folder/b.svg"
expect '</svg>' "$folder/b.svg"

"$1" bench --calls --seconds 0.001 --json "$folder/calls.json" > "$folder/calls"
cat "$folder/calls"
expect '^slice_grad *32 KiB ' "$folder/calls"
is_json "$folder/calls.json"
"$1" bench --sizes --largest 65536 --seconds 0.001 --json "$folder/sizes.json" > "$folder/sizes"
cat "$folder/sizes"
expect '^ns for a KiB *1 KiB *4 KiB *16 KiB *64 KiB$' "$folder/sizes"
expect '^resample_grad ' "$folder/sizes"
is_json "$folder/sizes.json"
"$1" bench --planes --largest 65536 --threads 2 --seconds 0.001 --json "$folder/planes.json" > "$folder/planes"
cat "$folder/planes"
expect '^one plane .* 1 thread  2 threads   gain ' "$folder/planes"
expect '^max-pool-grad recompute .*[0-9]$' "$folder/planes"
expect '^resample-grad nearest .*[0-9]$' "$folder/planes"
expect '"threads": 1, ' "$folder/planes.json"
expect '"threads": 2, ' "$folder/planes.json"
is_json "$folder/planes.json"
"$1" bench --strides --largest 65536 --seconds 0.001 --json "$folder/strides.json" > "$folder/strides"
cat "$folder/strides"
expect '^relu  *W reversed .*[0-9]$' "$folder/strides"
expect '^slice-grad  *only y NHWC .*[0-9]$' "$folder/strides"
expect '"peers": \[{"name": "packed", ' "$folder/strides.json"
is_json "$folder/strides.json"
"$1" bench --limits --seconds 0.001 > "$folder/limits"
cat "$folder/limits"
expect '^a product added  *[0-9.]*$' "$folder/limits"
expect '^trilinear_x2  *bf16 .* [01]\.[0-9]*$' "$folder/limits"
for table in planes strides; do
  if grep DIFFERS "$folder/$table"; then echo "something differs"; exit 1; fi
done

# A named problem in strides of its own is timed in them.
"$1" bench backwards_x grad_strides --seconds 0.001 --json "$folder/named.json"
if grep -q '"verified": false' "$folder/named.json"; then echo "something differs"; exit 1; fi
