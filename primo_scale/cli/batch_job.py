"""What a batch job prints: public lines alone, since others can often read the queue's output file.

The statistics' digest, counts of people and whatever else comes from the cohort go to the run's
log in the work directory, which is private.
"""

from __future__ import annotations

import copy
import logging
import os
from typing import TextIO

from primo_scale.run.log_records import NOTE

# Set by SLURM, PBS, LSF and Grid Engine in every job, and by a job's author anywhere else.
SIGNS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "SGE_TASK_ID", "PRIMO_SCALE_BATCH_JOB")
_PUBLIC_EVENTS = ("stage begins", "stage ends", "published", "error")


def is_batch_output(stream: TextIO) -> bool:
    """Whether a stream goes to the output file of a batch job, and not to somebody's terminal."""
    return any(os.environ.get(sign) for sign in SIGNS) and not stream.isatty()


class PublicLines(logging.Handler):
    """Handler that passes public lines on to another, and of an error its exit code alone.

    Parameters
    ----------
    handler
        Handler of the output file.
    elsewhere
        Where the error is explained, in words; None: nowhere, so that it is passed on whole.
    """

    def __init__(self, handler: logging.Handler, elsewhere: str | None = None) -> None:
        super().__init__(logging.DEBUG)
        self._handler, self._elsewhere = handler, elsewhere

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a public line on."""
        event, fields = getattr(record, "event", NOTE), getattr(record, "fields", {})
        if event not in _PUBLIC_EVENTS:
            return
        explained = self._elsewhere is not None and "continue" not in fields
        if event == "error" and explained:  # an interruption tells nothing
            code = fields.get("exit_code")
            record = copy.copy(record)
            record.msg, record.args = "error: exit code %s; %s", (code, self._elsewhere)
            vars(record)["fields"] = {"exit_code": code}
        self._handler.handle(record)
