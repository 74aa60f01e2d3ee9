#!/usr/bin/env bash

#SBATCH -J primo-scale
#SBATCH -e WORK_DIR/scratch/logs/primo-scale-%J.err
#SBATCH -o WORK_DIR/scratch/logs/primo-scale-%J.out
#SBATCH -p normal
#SBATCH -A biobank
#SBATCH -n 1
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH -t 12:00:00
#SBATCH --constraint=avx512
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
module load python/3.11
PYTHON -m distributed.cli.dask_worker tls://SCHEDULER:PORT --name NAME --nthreads 1 --memory-limit 2.00GiB --nworkers 8 --nanny --death-timeout 120 --local-directory /local/$SLURM_JOB_ID --no-dashboard --lifetime 42600s --lifetime-stagger 300s --interface ib0 --protocol tls:// --tls-ca-file WORK_DIR/scratch/tls/ca.pem --tls-cert WORK_DIR/scratch/tls/cert.pem --tls-key WORK_DIR/scratch/tls/key.pem
