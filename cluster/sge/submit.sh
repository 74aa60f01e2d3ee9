#!/usr/bin/env bash
# The command itself as a Grid Engine job that submits its workers: qsub cluster/sge/submit.sh COMMAND...
#$ -N primo-scale-command
#$ -cwd
#$ -j y
#$ -o /dev/null
#$ -pe smp 4
#$ -l h_rt=48:00:00
#$ -r y
set -u
# The queue creates its output file with a mode of its own, often readable by others: what the job
# prints goes to a private file instead.
umask 077
exec >> "primo-scale-command.$JOB_ID.out" 2>&1
# Ten minutes before the end: time to stop in order. Without --foreground, timeout leaves the process group of
# the job, and Grid Engine would not end the command with the job.
timeout --foreground --signal=TERM $((48 * 3600 - 600)) "$@"
code=$?
# 124: timeout sent the signal. Grid Engine queues a job that ends with 99 again.
if [ "$code" -eq 5 ] || [ "$code" -eq 124 ]; then
  exit 99
fi
exit "$code"
