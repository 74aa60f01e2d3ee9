"""``python -m pipelines.ingest``: the same command as ``primo-scale ingest``."""

from primo_scale.cli.commands import ingest as main

if __name__ == "__main__":
    main()
