"""``python -m pipelines.gwas_release``: the same command as ``primo-scale release``."""

from primo_scale.cli.commands import release as main

if __name__ == "__main__":
    main()
