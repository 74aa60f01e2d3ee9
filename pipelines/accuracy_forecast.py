"""What is said of the accuracy of a release before anything is summed or spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.command_line import LOGGER
from primo_scale.outcomes.ancestry import COMPONENTS_REMEDY, NO_COMPONENTS, has_components

if TYPE_CHECKING:
    from pipelines.design import Design


def forecast_accuracy(design: Design) -> None:
    """Warn of what will make the scores of a release inaccurate.

    Parameters
    ----------
    design
        Public choices of the run.
    """
    if not has_components(covariate.name for covariate in design.outcomes.covariates):
        LOGGER.warning("%s %s", NO_COMPONENTS, COMPONENTS_REMEDY)
