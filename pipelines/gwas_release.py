"""``python -m pipelines.gwas_release``: the same command as ``primo-scale release``."""

from primo_scale.cli.release import main

if __name__ == "__main__":
    main()
