"""``python -m pipelines.finalize``: the same command as ``primo-scale finalize``."""

from primo_scale.cli.finalize import main

if __name__ == "__main__":
    main()
