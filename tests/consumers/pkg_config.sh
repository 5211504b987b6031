#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pkg_config.sh CC PREFIX FOLDER [--static]: builds the C program with one compiler line, in FOLDER, and runs it.
set -euo pipefail
compiler=$1 prefix=$2 folder=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
pc=$(find "$prefix" -name backpass.pc)
export PKG_CONFIG_LIBDIR=${pc%/*}  # this folder alone, so nothing that is installed elsewhere can stand in for it
flags=$(pkg-config "$@" --cflags --libs backpass)
echo "flags: $flags"
mkdir -p "$folder"
# shellcheck disable=SC2086 # the flags are words
"$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror "$here/max_pool_grad.c" $flags -o "$folder/consumer"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir backpass) "$folder/consumer"
