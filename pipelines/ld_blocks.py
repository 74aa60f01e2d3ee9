"""``python -m pipelines.ld_blocks``: the same command as ``primo-scale ld-blocks``."""

from primo_scale.cli.ld_blocks import main

if __name__ == "__main__":
    main()
