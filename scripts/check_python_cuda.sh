#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_python_cuda.sh PYTHON LIBRARY OUT: the package on arrays of a CUDA device, with whichever of PyTorch, CuPy and JAX this
# Python has beside pytest. LIBRARY is a libbackpass.so, of the commit that BACKPASS_COMMIT says, where there is no repository.
# Writes OUT/check-python-cuda.txt.
set -euo pipefail
python=$1 library=$2 out=$3
cd "$(dirname "$0")/.."
commit=${BACKPASS_COMMIT:-$(git rev-parse --short HEAD)}
mkdir -p "$out"
{
  echo "scripts/check_python_cuda.sh, $(date -u +%Y-%m-%d), commit $commit"
  echo "machine: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)"
  "$python" - << 'EOF'
from importlib.metadata import PackageNotFoundError, version
import sys
versions = [f"Python {sys.version.split()[0]}"]
for name in ("numpy", "torch", "cupy", "cupy-cuda12x", "cupy-cuda13x", "jax"):
    try:
        versions.append(f"{name} {version(name)}")
    except PackageNotFoundError:
        pass
print(", ".join(versions))
EOF
  PYTHONPATH=python${PYTHONPATH:+:$PYTHONPATH} BACKPASS_LIBRARY=$library "$python" -m pytest -q -rs -p no:cacheprovider python/tests/test_cuda.py
} 2> "$out/check-python-cuda.err" | tee "$out/check-python-cuda.txt.new"
mv "$out/check-python-cuda.txt.new" "$out/check-python-cuda.txt"  # whole, or the last one stays
