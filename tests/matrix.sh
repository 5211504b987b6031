#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# matrix.sh BACKPASS SET MODE RANDOM: every named problem and RANDOM random ones (the same for all sets), in every type and
# implementation, with 1, 2, 3 and 7 threads, on one instruction set, against the oracle, to the bit.
# MODE ordinary: as a user runs it. MODE parts: the smallest problems are cut into parts too, so that the threads really
# share them. MODE streams: and all results go past the cache.
# Exits with 77 where the processor lacks the set.
set -euo pipefail
backpass=$1 set=$2 mode=$3 random=$4

sets=$("$backpass" list | sed -n 's/^instruction sets: //p')
if [[ ,$sets, != *,$set,* ]]; then
  echo "skipped: matrix.$set.$mode: this processor has no $set (it has $sets)"
  exit 77
fi
export BACKPASS_MAX_ISA=$set
case $mode in
  ordinary) ;;
  parts) export BACKPASS_PART_BYTES=1 ;;
  streams) export BACKPASS_PART_BYTES=1 BACKPASS_CACHE_BYTES=0 ;;
  *) echo "matrix.sh: '$mode' is no mode" >&2; exit 2 ;;
esac
"$backpass" check --threads 1,2,3,7
"$backpass" check --threads 1,2,3,7 --random "$random" --first 3000001
