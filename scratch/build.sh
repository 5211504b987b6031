#!/bin/bash
# build.sh SRC_INCLUDE
cd "$(dirname "$0")"
for f in ${PROGS:-pool resample}; do for t in ${TYPES:-float __half __nv_bfloat16}; do
  while [ -e /tmp/quiet ]; do sleep 5; done
  taskset -c 1 nvcc -std=c++20 -O3 -arch=sm_90 -fmad=false -Xptxas -v -diag-suppress 20050 -cudart static -Xcompiler -static-libstdc++,-static-libgcc -DT_=$t -DFED=${FED:-1} -DINC=${INC:-0} -I${1:-/tmp/w-cuda-k/src} -I/work/main/include $f.cu -o ${f}_$t$SUF > log_${f}_$t.txt 2>&1 || { grep -E error log_${f}_$t.txt | head; exit 1; }
done; done
