#!/usr/bin/env bash
# Runs a command that continues after you log out, and again after an interruption (exit code 5).
#   nohup cluster/local/run.sh .venv/bin/primo-scale release ... &
# It prints to nohup.out, which nohup creates for its owner alone.
set -u
umask 077
while true; do
  "$@"
  code=$?
  [ "$code" -eq 5 ] || exit "$code"
  sleep 10
done
