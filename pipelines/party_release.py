"""``python -m pipelines.party_release``: the same command as ``primo-scale party-release``."""

from primo_scale.cli.party_release import main

if __name__ == "__main__":
    main()
