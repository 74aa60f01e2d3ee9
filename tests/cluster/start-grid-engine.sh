#!/usr/bin/env bash
# Start a Grid Engine of one host on this machine, for tests. Needs root and Debian's gridengine-master, -exec and -client.
# usage: start-grid-engine.sh DIR MASTER_PORT EXEC_PORT    then: . DIR/default/common/settings.sh
set -euo pipefail
dir=$(mkdir -p "$1" && cd "$1" && pwd)
export SGE_ROOT=$dir SGE_CELL=default SGE_QMASTER_PORT=$2 SGE_EXECD_PORT=$3
common=$dir/default/common
mkdir -p "$common" "$dir"/spool/{qmaster,execd,database}
ln -s /var/lib/gridengine/{bin,lib,util,utilbin} "$dir"
host=$(hostname -s)
echo "$host localhost" > "$common/host_aliases"
echo "$host" > "$common/act_qmaster"
sed "s|^admin_user .*|admin_user none|; s|/var/spool/gridengine/spooldb|$dir/spool/database|
  s|/var/spool/gridengine/qmaster|$dir/spool/qmaster|" /usr/share/gridengine/default-bootstrap > "$common/bootstrap"
sh /usr/share/gridengine/scripts/init_cluster "$SGE_ROOT" "$SGE_CELL" "$dir/spool/database" root > "$dir/init.log"
cat >> "$common/settings.sh" <<END
export SGE_QMASTER_PORT=$2 SGE_EXECD_PORT=$3
END

/usr/lib/gridengine/sge_qmaster
for _ in $(seq 100); do
  qconf -ah "$host" > /dev/null 2>&1 && break
  sleep 0.1
done
qconf -as "$host" > /dev/null
# Jobs of root, which start at once. The name of a file is that of the configuration in it.
qconf -sconf global | sed "s|^min_uid .*|min_uid 0|; s|^min_gid .*|min_gid 0|
  s|^execd_spool_dir .*|execd_spool_dir $dir/spool/execd|; s|^load_report_time .*|load_report_time 00:00:01|" > "$dir/global"
qconf -Mconf "$dir/global" > /dev/null
qconf -ssconf | sed 's|^schedule_interval .*|schedule_interval 0:0:1|
  s|^flush_\(submit\|finish\)_sec .*|flush_\1_sec 1|' > "$dir/scheduler"
qconf -Msconf "$dir/scheduler" > /dev/null
cat > "$dir/smp" <<END
pe_name smp
slots 99
user_lists NONE
xuser_lists NONE
start_proc_args NONE
stop_proc_args NONE
allocation_rule \$pe_slots
control_slaves FALSE
job_is_first_task TRUE
urgency_slots min
accounting_summary FALSE
qsort_args NONE
END
qconf -Ap "$dir/smp" > /dev/null
qconf -sq | sed "s|^qname .*|qname all.q|; s|^hostlist .*|hostlist $host|; s|^load_thresholds .*|load_thresholds NONE|
  s|^slots .*|slots 8|; s|^rerun .*|rerun TRUE|; s|^pe_list .*|pe_list smp|" > "$dir/all.q"
qconf -Aq "$dir/all.q" > /dev/null
/usr/lib/gridengine/sge_execd
for _ in $(seq 600); do
  qstat -f | grep -q 'all.q@.* lx-[a-z0-9]* *$' && exit 0
  sleep 0.1
done
echo "Grid Engine did not come up; see $dir/spool" >&2
exit 1
