#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# record_head.sh COMMAND: the first lines of a record: what made it, when, of which commit, on which machine.
set -euo pipefail
echo "$1, $(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ' and changes')"
echo "machine: $(uname -m), $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $(g++ --version | head -n 1)"
