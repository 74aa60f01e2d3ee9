"""Exact integer statistics: plan, tasks, checkpoints and the Dask engine that runs them."""
