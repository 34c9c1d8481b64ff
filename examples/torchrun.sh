#!/bin/bash
# One torchrun on each host of the job, with as many processes as the job has GPUs there.
#
#   gsub -n 2 -R "span[ptile=1]" -gpu num=4 -o log.%J examples/torchrun.sh train.py --epochs 3
#
# TORCHRUN names another program in the place of torchrun.
set -euo pipefail

hosts=$(awk '!seen[$0]++' "$LSB_DJOB_HOSTFILE")  # each host once, the first execution host first
export MASTER_ADDR=${hosts%%$'\n'*}
export MASTER_PORT=$((20000 + LSB_JOBID % 10000))  # jobs that share a host have different ones

# What glaunch is given is a line for a shell on each host; the arguments must come through as they are.
printf -v arguments ' %q' "$@"
exec glaunch -n -z "$hosts" "exec ${TORCHRUN:-torchrun} \
  --nnodes \$GSCHED_TASK_COUNT --node-rank \$((LSF_PM_TASKID - 1)) \
  --nproc-per-node \$(echo \${CUDA_VISIBLE_DEVICES:-0} | tr , '\n' | wc -l) \
  --master-addr \$MASTER_ADDR --master-port \$MASTER_PORT$arguments"
