#!/usr/bin/env bash
# A command that goes on when you log out, and again when it was interrupted (exit code 5).
#   nohup cluster/local/run.sh .venv/bin/python -m pipelines.gwas_release ... > run.out 2>&1 &
set -u
while true; do
  "$@"
  code=$?
  [ "$code" -eq 5 ] || exit "$code"
  sleep 10
done
