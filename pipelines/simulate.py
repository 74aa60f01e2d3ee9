"""``python -m pipelines.simulate``: the same command as ``primo-scale simulate``."""

from primo_scale.cli.simulate import main

if __name__ == "__main__":
    main()
