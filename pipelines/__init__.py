"""Commands of ``primo-scale`` as modules, for ``python -m pipelines.COMMAND``."""

import sys

from primo_scale.interruption import note_signals_until_exit

# While `python -m pipelines.COMMAND` locates the command. A program that imports this package keeps
# its own handlers.
if sys.argv[:1] == ["-m"]:
    note_signals_until_exit()
