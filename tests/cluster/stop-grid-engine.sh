#!/usr/bin/env bash
# End what start-grid-engine.sh started, jobs first.   usage: stop-grid-engine.sh DIR
set -u
. "$1/default/common/settings.sh"
qdel -u '*' > /dev/null
for _ in $(seq 50); do
  [ -z "$(qstat 2> /dev/null)" ] && break
  sleep 0.2
done
qconf -ke all -km > /dev/null
exit 0
