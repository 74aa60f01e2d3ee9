#!/usr/bin/env bash

#BSUB -J primo-scale
#BSUB -e WORK_DIR/scratch/logs/NAME-%J.err
#BSUB -o WORK_DIR/scratch/logs/NAME-%J.out
#BSUB -q normal
#BSUB -P "biobank"
#BSUB -n 8
#BSUB -R "span[hosts=1]"
#BSUB -M 17179870
#BSUB -W 12:00
#BSUB -R "rusage[mem=16384]"
umask 077
export DASK_DISTRIBUTED__WORKER__HTTP__ROUTES=[]
export DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL=100ms
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=True
export OMP_NUM_THREADS=1
export OPENBLAS_NUM_THREADS=1
export MKL_NUM_THREADS=1
export NUMBA_NUM_THREADS=1
export MALLOC_TRIM_THRESHOLD_=134217728
export MALLOC_MMAP_THRESHOLD_=33554432
export MALLOC_ARENA_MAX=1
PYTHON -m distributed.cli.dask_worker tls://SCHEDULER:PORT --name NAME --nthreads 1 --memory-limit 2.00GiB --nworkers 8 --nanny --death-timeout 120 --local-directory ${TMPDIR:-/tmp} --no-dashboard --lifetime 42600s --lifetime-stagger 300s --interface ib0 --protocol tls:// --tls-ca-file WORK_DIR/scratch/tls/ca.pem --tls-cert WORK_DIR/scratch/tls/cert.pem --tls-key WORK_DIR/scratch/tls/key.pem
