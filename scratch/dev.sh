#!/bin/bash
cd build/kern
N="nvcc -std=c++20 -O3 -fmad=false -diag-suppress 20050 -Isrc -Iinclude -Xcompiler -Wall,-Wextra,-Wshadow"
s=$(date +%s)
for t in float __half __nv_bfloat16; do for p in pool resample; do $N -arch=sm_90 -DT_=$t $p.cu -o ${p}_$t 2>&1 | grep -E "error|warning" | head -5 & done; done
for p in pool resample; do (q=$(date +%s); $N -gencode arch=compute_80,code=sm_80 -c -DT_=__nv_bfloat16 $p.cu -o /tmp/$p.o 2>&1 | grep -E "error|warning" | head -3; echo "sm_80 $p $(( $(date +%s) - q )) s") & done
wait; echo "built in $(( $(date +%s) - s )) s"
for p in pool_float pool___half resample_float resample___half; do echo "== $p"; timeout 40 ./$p 2>&1; echo "rc $?"; done
for p in pool___nv_bfloat16 resample___nv_bfloat16; do echo "== $p"; CHECK_ONLY=1 timeout 40 ./$p 2>&1; echo "rc $?"; done
