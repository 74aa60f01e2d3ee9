"""``python -m pipelines.audit``: the same command as ``primo-scale audit``."""

from primo_scale.cli.audit import main

if __name__ == "__main__":
    main()
