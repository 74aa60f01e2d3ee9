"""``python -m pipelines.party_roster``: the same command as ``primo-scale party-roster``."""

from primo_scale.cli.party_roster import main

if __name__ == "__main__":
    main()
