"""``python -m pipelines.encryption_key``: the same command as ``primo-scale encryption-key``."""

from primo_scale.cli.encryption_key import main

if __name__ == "__main__":
    main()
