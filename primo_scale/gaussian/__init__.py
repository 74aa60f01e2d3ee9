"""Mathematics of the Gaussian mechanism: sensitivities, calibration and exact samplers."""
