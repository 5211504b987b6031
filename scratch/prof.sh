#!/bin/bash
# prof.sh PROGRAM REGEX
S=smsp__average_warps_issue_stalled
M=gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum,l1tex__throughput.avg.pct_of_peak_sustained_elapsed,lts__throughput.avg.pct_of_peak_sustained_elapsed,smsp__inst_executed.sum,smsp__issue_active.avg.pct_of_peak_sustained_active,sm__warps_active.avg.pct_of_peak_sustained_active,launch__registers_per_thread,launch__block_size,launch__grid_size,smsp__thread_inst_executed_per_inst_executed.ratio
for r in long_scoreboard short_scoreboard lg_throttle mio_throttle math_pipe_throttle wait not_selected barrier branch_resolving no_instruction dispatch_stall; do M=$M,${S}_${r}_per_issue_active.ratio; done
PROFILE=1 ncu --clock-control none --csv --page raw --print-units base --kernel-name-base mangled -k "regex:$2" --metrics $M ./$1 2>&1
