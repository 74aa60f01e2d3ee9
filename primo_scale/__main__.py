"""``python -m primo_scale``: the same command as ``primo-scale``."""

from primo_scale.cli.main import run

run()
