"""What a batch job prints: public lines alone, since others can often read the queue's output file.

The statistics' digest, counts of people and whatever else comes from the cohort go to the run's
log in the work directory, which is private.
"""

from __future__ import annotations

import logging
import os
from typing import TextIO

from primo_scale.run.run_log import NOTE

# Set by SLURM, PBS, LSF and Grid Engine in every job, and by a job's author anywhere else.
SIGNS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "SGE_TASK_ID", "PRIMO_SCALE_BATCH_JOB")
_PUBLIC_EVENTS = ("stage begins", "stage ends", "published", "error")


def is_batch_output(stream: TextIO) -> bool:
    """Whether a stream goes to the output file of a batch job, and not to somebody's terminal."""
    return any(os.environ.get(sign) for sign in SIGNS) and not stream.isatty()


class PublicLines(logging.Handler):
    """Handler that passes public lines on to the handler of an output file.

    Parameters
    ----------
    handler
        Handler of the output file.
    """

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__(logging.DEBUG)
        self._handler = handler

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a public line on."""
        if getattr(record, "event", NOTE) in _PUBLIC_EVENTS:
            self._handler.handle(record)
