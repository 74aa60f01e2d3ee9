#!/usr/bin/env bash
# Start a SLURM of one node on this machine, for tests. Needs root, slurmctld, slurmd and munge.
# usage: start-slurm.sh DIR CONTROLLER_PORT NODE_PORT    then: export SLURM_CONF=DIR/slurm.conf
set -euo pipefail
dir=$(mkdir -p "$1" && cd "$1" && pwd)
mkdir -p "$dir"/{state,spool,log}
node=$(hostname -s)
cat > "$dir/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$2
SlurmdPort=$3
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
# The node claims four cores wherever the tests run.
SlurmdParameters=config_overrides
NodeName=$node NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
KillWait=2
JobRequeue=1
END
if ! munge -n > /dev/null 2>&1; then
  install -d -o munge -m 755 /run/munge
  [ -s /etc/munge/munge.key ] || runuser -u munge -- mungekey --create
  runuser -u munge -- /usr/sbin/munged
  for _ in $(seq 600); do
    [ -s /run/munge/munged.pid ] && munge -n > /dev/null 2>&1 && break
    sleep 0.1
  done
  cp /run/munge/munged.pid "$dir/munged.pid"
fi
export SLURM_CONF="$dir/slurm.conf"
slurmctld
slurmd
for _ in $(seq 600); do
  sinfo --noheader --format=%T 2> /dev/null | grep -q idle && exit 0
  sleep 0.2
done
echo "SLURM did not come up; see $dir/log" >&2
exit 1
