"""Zarr stores on disks and in buckets: atomic commits, checksums, encryption, format versions."""
