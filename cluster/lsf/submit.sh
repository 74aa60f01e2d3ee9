#!/usr/bin/env bash
# The command itself as an LSF job that submits its workers: write it below, then bsub < submit.sh
#BSUB -J primo-scale-command
#BSUB -n 4
#BSUB -R "span[hosts=1]"
#BSUB -W 48:00
# Ten minutes before the end: time to stop in order; exit code 5 queues the job again.
#BSUB -wt 10
#BSUB -wa TERM
#BSUB -Q 5
#BSUB -o /dev/null
set -u
# The queue creates its output file with a mode of its own, often readable by others: what the job
# prints goes to a private file instead.
umask 077
exec >> "primo-scale-command.$LSB_JOBID.out" 2>&1
exec .venv/bin/primo-scale release --cluster cluster/lsf/lsf.toml --bfile PREFIX
