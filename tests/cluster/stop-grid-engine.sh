#!/usr/bin/env bash
# End what start-grid-engine.sh started, jobs first.   usage: stop-grid-engine.sh DIR
set -u
. "$1/default/common/settings.sh"
timeout 20 qdel -u '*' > /dev/null
for _ in $(seq 50); do
  [ -z "$(timeout 5 qstat 2> /dev/null)" ] && break
  sleep 0.2
done
timeout 20 qconf -kej all > /dev/null
timeout 20 qconf -km > /dev/null
sleep 1
for file in "$1"/spool/execd/*/execd.pid "$1/spool/qmaster/qmaster.pid"; do
  [ -s "$file" ] && kill "$(cat "$file")" 2> /dev/null
done
exit 0
