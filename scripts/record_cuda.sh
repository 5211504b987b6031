#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# record_cuda.sh BACKPASS OUT [BENCH ARGUMENTS]: what must be seen on a CUDA device. Times the cuda group beside the peers
# that the Python of BACKPASS_PEERS_PYTHON has, in the types of BACKPASS_TYPES (f32,f16), and keeps OUT/cuda-TIME-COMMIT-TYPES.json
# and the plot OUT/cuda.svg. BACKPASS_COMMIT says which commit BACKPASS was built from, where there is no repository.
set -euo pipefail
backpass=$1 out=$2
shift 2
types=${BACKPASS_TYPES:-f32,f16}
export BACKPASS_COMMIT=${BACKPASS_COMMIT:-$(git rev-parse --short HEAD)}
mkdir -p "$out"
"$backpass" bench --device cuda --dtype "$types" --seconds 0.02 \
  --json "$out/cuda-$(date -u +%Y-%m-%dT%H%M)-$BACKPASS_COMMIT-${types//,/-}.json" --plot "$out/cuda.svg" "$@"
