"""Compiled and BLAS kernels on plain arrays: no files, no Dask, no options."""
