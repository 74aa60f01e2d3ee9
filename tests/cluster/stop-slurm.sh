#!/usr/bin/env bash
# End what start-slurm.sh started, jobs first.   usage: stop-slurm.sh DIR
set -u
export SLURM_CONF="$1/slurm.conf"
scancel --state=PENDING --user="$(id -un)"
scancel --user="$(id -un)"
for _ in $(seq 50); do
  [ -z "$(squeue --noheader 2> /dev/null)" ] && break
  sleep 0.2
done
for name in slurmd slurmctld munged; do
  [ -s "$1/$name.pid" ] && kill "$(cat "$1/$name.pid")"
done
exit 0
