#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What somebody without this repository does: makes the sdist, unpacks it in an empty folder, and there, in a fresh virtual
# environment, installs the package with `pip install .`, which builds the library from nothing, and runs its tests.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/sdist
rm -rf "$folder"
mkdir -p "$folder"
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/pip" --disable-pip-version-check --quiet "$@"; }
pip install build
"$folder/venv/bin/python" -m build --sdist --outdir "$folder" . >/dev/null
sdist=$(echo "$folder"/backpass-*.tar.gz)
echo "$(basename "$sdist"), $(stat -c %s "$sdist") bytes"
tar -xzf "$sdist" -C "$folder"
cd "${sdist%.tar.gz}"
pip install .
pip install -r python/tests/requirements.txt
"$folder/venv/bin/python" -m pytest -q -rs
