#!/usr/bin/env bash
# A scheduler with TLS (here), or workers that join it: start.sh scheduler | start.sh worker
# CERTIFICATES is the directory with ca.pem, cert.pem and key.pem; ADDRESS the scheduler's.
set -euo pipefail
: "${CERTIFICATES:=certificates}" "${ADDRESS:=tls://$(hostname -f):8786}"
tls=(--tls-ca-file "$CERTIFICATES/ca.pem" --tls-cert "$CERTIFICATES/cert.pem"
  --tls-key "$CERTIFICATES/key.pem")
umask 077
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True
export DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES=[] DASK_DISTRIBUTED__WORKER__HTTP__ROUTES=[]
export DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=10
export MALLOC_TRIM_THRESHOLD_=134217728 MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_ARENA_MAX=1
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
case ${1:-} in
  scheduler)
    exec .venv/bin/dask scheduler --protocol tls --port "${ADDRESS##*:}" --no-dashboard "${tls[@]}"
    ;;
  worker)
    exec .venv/bin/dask worker "$ADDRESS" --nworkers "${WORKERS:-1}" --nthreads 1 --no-dashboard \
      --local-directory "${TMPDIR:-/tmp}" --death-timeout 120 "${tls[@]}"
    ;;
  *)
    echo "usage: $0 scheduler|worker" >&2
    exit 2
    ;;
esac
