"""``python -m pipelines.verify``: the same command as ``primo-scale verify``."""

from primo_scale.cli.verify import main

if __name__ == "__main__":
    main()
