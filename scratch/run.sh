#!/bin/bash
cd build/kern
nvidia-smi --query-gpu=clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader
for p in ${PROGS:-pool_float resample_float pool___half resample___half pool___nv_bfloat16 resample___nv_bfloat16}; do
  echo "== $p"; s=$(date +%s)
  timeout 90 ./$p 2>&1; echo "rc $? $(( $(date +%s) - s )) s"
done
