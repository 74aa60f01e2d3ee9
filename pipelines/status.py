"""``python -m pipelines.status``: the same command as ``primo-scale status``."""

from primo_scale.cli.status import main

if __name__ == "__main__":
    main()
