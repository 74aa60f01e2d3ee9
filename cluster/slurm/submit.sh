#!/usr/bin/env bash
# The command itself as a SLURM job that submits its workers:
#   sbatch cluster/slurm/submit.sh .venv/bin/primo-scale release --cluster my.toml ...
#SBATCH --job-name=primo-scale-command
#SBATCH --cpus-per-task=4
#SBATCH --mem=16G
#SBATCH --time=2-00:00:00
#SBATCH --requeue
#SBATCH --output=/dev/null
# Five minutes before the end: time to stop in order, after which the job queues itself again.
#SBATCH --signal=B:USR1@300
set -u
# The queue creates its output file with a mode of its own, often readable by others: what the job
# prints goes to a private file instead.
umask 077
exec >> "primo-scale-command.$SLURM_JOB_ID.out" 2>&1
again=no
"$@" &
command=$!
trap 'again=yes; kill -TERM "$command"' USR1
wait "$command"
code=$?
# A signal ends the first wait; the command takes a moment more to stop.
while kill -0 "$command" 2> /dev/null; do
  wait "$command"
  code=$?
done
if [ "$again" = yes ] && [ "$code" -ne 0 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
