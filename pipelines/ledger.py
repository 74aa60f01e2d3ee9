"""``python -m pipelines.ledger``: the same command as ``primo-scale ledger``."""

from primo_scale.cli.ledger import main

if __name__ == "__main__":
    main()
