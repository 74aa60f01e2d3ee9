"""``python -m pipelines.finalize``: the same command as ``primo-scale finalize``."""

from primo_scale.cli.commands import finalize as main

if __name__ == "__main__":
    main()
