"""``python -m pipelines.copy_genotypes``: the same command as ``primo-scale copy-genotypes``."""

from primo_scale.cli.copy_genotypes import main

if __name__ == "__main__":
    main()
