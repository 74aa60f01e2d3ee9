"""``python -m pipelines.evaluate``: the same command as ``primo-scale evaluate``."""

from primo_scale.cli.evaluate import main

if __name__ == "__main__":
    main()
