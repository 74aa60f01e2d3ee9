"""Output of a batch job: public lines alone, because others can often read the queue's file.

The digest of the statistics, counts of people and other facts about the cohort go to the run's log
in the work directory, which is private.
"""

from __future__ import annotations

import logging
import os
from typing import TextIO

from primo_scale.run.run_log import NOTE

# Set by SLURM, PBS, LSF and Grid Engine in every job; the last one by the author of any other job.
SIGNS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "SGE_TASK_ID", "PRIMO_SCALE_BATCH_JOB")
_PUBLIC_EVENTS = ("stage begins", "stage ends", "published", "error")


def is_batch_output(stream: TextIO) -> bool:
    """Return whether a stream is the output file of a batch job rather than a terminal."""
    return any(os.environ.get(sign) for sign in SIGNS) and not stream.isatty()


class PublicLines(logging.Handler):
    """Handler that passes public lines to `handler`, that of an output file."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__(logging.DEBUG)
        self._handler = handler

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a public line."""
        if getattr(record, "event", NOTE) in _PUBLIC_EVENTS:
            self._handler.handle(record)
