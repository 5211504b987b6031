#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_python.sh [PACKAGE...]: makes the wheel of build/release, installs it into a fresh virtual environment with what its
# tests need and these packages, and runs the tests; one that is skipped says why.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/python-venv wheels=build/wheels
rm -rf "$venv" "$wheels"
python3 -m venv "$venv"
pip() { "$venv/bin/pip" --disable-pip-version-check --quiet "$@"; }
pip install scikit-build-core -r python/tests/requirements.txt "$@"
# The options of the release preset: nothing is compiled again.
pip wheel . --no-deps --no-build-isolation --wheel-dir "$wheels" --config-settings build-dir=build/release \
  --config-settings cmake.define.BACKPASS_TESTS=ON --config-settings cmake.define.BACKPASS_TOOLS=ON
pip install --no-deps "$wheels"/*.whl
echo "$(basename "$wheels"/*.whl), $(stat -c %s "$wheels"/*.whl) bytes"
"$venv/bin/python" -m pytest -q -rs
