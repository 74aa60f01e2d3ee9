"""Sensitivity, calibration, noise and ledger: the only way from raw to private statistics."""
