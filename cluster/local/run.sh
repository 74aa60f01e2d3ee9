#!/usr/bin/env bash
# A command that goes on when you log out, and again when it was interrupted (exit code 5).
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
