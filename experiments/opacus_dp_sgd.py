"""DP-SGD by Opacus, run by `experiments.other_libraries` in the environment that has it.

    python -m experiments.opacus_dp_sgd INPUTS.npz RESULT.npz

The inputs are X, Y, epsilon, delta, steps, clip, rate and seed. Each outcome has its own model.
Opacus' Renyi accountant states the noise for the steps of all outcomes together, for neighbours
that differ by one added person. An input `multiplier` replaces that noise, for tests.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import torch
from opacus.accountants.utils import get_noise_multiplier
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer


def multiplier_of(inputs: Any) -> float:
    """Return the noise multiplier by Opacus' accountant, for full batches."""
    multiplier: float = get_noise_multiplier(
        target_epsilon=float(inputs["epsilon"]),
        target_delta=float(inputs["delta"]),
        sample_rate=1.0,
        steps=int(inputs["steps"]) * inputs["Y"].shape[1],
        epsilon_tolerance=1e-3,
    )
    return multiplier


def weights_of(X: torch.Tensor, y: torch.Tensor, multiplier: float, inputs: Any) -> Any:
    """Train one model for one outcome, and return its weights, shape (d,)."""
    model = GradSampleModule(torch.nn.Linear(X.shape[1], 1, bias=False, dtype=X.dtype))
    torch.nn.init.zeros_(model._module.weight)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=float(inputs["rate"])),
        noise_multiplier=multiplier,
        max_grad_norm=float(inputs["clip"]),
        expected_batch_size=len(X),
    )
    for _ in range(int(inputs["steps"])):
        optimizer.zero_grad()
        ((model(X)[:, 0] - y) ** 2 / 2).mean().backward()
        optimizer.step()
    return model._module.weight.detach().numpy()[0]


def main() -> None:
    """Read the inputs, train one model for each outcome, and save weights and CPU seconds."""
    inputs = np.load(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(int(inputs["seed"]))
    multiplier = float(inputs["multiplier"]) if "multiplier" in inputs else multiplier_of(inputs)
    X, Y = torch.tensor(inputs["X"]), torch.tensor(inputs["Y"])
    start = time.process_time()
    weights = np.column_stack([weights_of(X, y, multiplier, inputs) for y in Y.T])
    np.savez(
        sys.argv[2], weights=weights, multiplier=multiplier, cpu_seconds=time.process_time() - start
    )


if __name__ == "__main__":
    main()
