"""Auditing a mechanism: how well can its noise, as it is really drawn, hide one person?

An audit draws the noise of a release many times over the exact statistics of two invented
neighbouring cohorts (`primo_scale.privacy.worst_pairs`) and plays the adversary who has to tell
them apart. How often that succeeds bounds epsilon from below. It reads nobody's data, so it spends
no budget. What it can and cannot show: docs/audit.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from primo_scale.privacy.calibration import epsilon_for
from primo_scale.privacy.distinguish import Hits, Observed, distinguish
from primo_scale.privacy.mechanism import Mechanism
from primo_scale.privacy.noise import FineNoise, Integers, Sampler, noise_from, off_diagonal_sigma
from primo_scale.privacy.noisy_matrices import (
    noisy_counts,
    noisy_cross,
    noisy_gram,
    noisy_outcome_gram,
    noisy_smallest_eigenvalue,
)
from primo_scale.privacy.worst_pairs import (
    CohortStatistics,
    NeighbourPair,
    Person,
    everybody,
    grams,
    statistics_of,
)
