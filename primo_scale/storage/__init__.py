"""The only package that knows Zarr: chunked arrays, atomic commits, checksums, format versions."""
