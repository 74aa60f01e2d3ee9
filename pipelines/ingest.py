"""``python -m pipelines.ingest``: the same command as ``primo-scale ingest``."""

from primo_scale.cli.ingest import main

if __name__ == "__main__":
    main()
