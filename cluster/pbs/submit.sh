#!/usr/bin/env bash
# The command itself as a PBS job that submits its workers.
#   qsub -v COMMAND=".venv/bin/primo-scale release --cluster my.toml ..." cluster/pbs/submit.sh
#PBS -N primo-scale-command
#PBS -l select=1:ncpus=4:mem=16gb
#PBS -l walltime=48:00:00
#PBS -j oe
#PBS -o /dev/null
set -u
cd "$PBS_O_WORKDIR" || exit 2
# The queue creates its output file with a mode of its own, often readable by others: what the job
# prints goes to a private file instead.
umask 077
exec >> "primo-scale-command.$PBS_JOBID.out" 2>&1
# Ten minutes before the end: time to stop in order.
timeout --foreground --signal=TERM $((48 * 3600 - 600)) bash -c "exec $COMMAND"
code=$?
# 124: timeout sent the signal, after which the command ended in order with exit code 5.
if [ "$code" -eq 5 ] || [ "$code" -eq 124 ]; then
  qsub -v COMMAND="$COMMAND" "$PBS_O_WORKDIR/cluster/pbs/submit.sh"
fi
exit "$code"
