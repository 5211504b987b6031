#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The libraries that the bench races: oneDNN as Debian has it, and PyTorch in a virtual environment of its own. The bench
# works without them.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/deps.sh peers
[ -x build/peers/bin/python ] || python3 -m venv build/peers
build/peers/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
build/peers/bin/python -W ignore -c 'import torch; print("PyTorch", torch.__version__)'
