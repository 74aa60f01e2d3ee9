#!/usr/bin/env bash

#$ -N primo-scale
#$ -q all.q
#$ -P biobank
#$ -l h_vmem=2G
#$ -l h_rt=12:00:00
#$ -e WORK_DIR/scratch/logs/
#$ -o WORK_DIR/scratch/logs/
#$ -cwd
#$ -j y
#$ -pe smp 8
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
