"""``python -m pipelines.certificates``: the same command as ``primo-scale certificates``."""

from primo_scale.cli.certificates import main

if __name__ == "__main__":
    main()
