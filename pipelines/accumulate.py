"""``python -m pipelines.accumulate``: the same command as ``primo-scale accumulate``."""

from primo_scale.cli.accumulate import main

if __name__ == "__main__":
    main()
