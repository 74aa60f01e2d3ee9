"""``python -m pipelines.accumulate``: the same command as ``primo-scale accumulate``."""

from primo_scale.cli.commands import accumulate as main

if __name__ == "__main__":
    main()
