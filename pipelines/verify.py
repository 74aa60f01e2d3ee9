"""``python -m pipelines.verify``: the same command as ``primo-scale verify``."""

from primo_scale.cli.commands import verify as main

if __name__ == "__main__":
    main()
