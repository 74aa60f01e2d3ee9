"""``python -m pipelines.party_fit``: the same command as ``primo-scale party-fit``."""

from primo_scale.cli.party_fit import main

if __name__ == "__main__":
    main()
