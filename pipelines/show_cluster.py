"""``python -m pipelines.show_cluster``: the same command as ``primo-scale show-cluster``."""

from primo_scale.cli.show_cluster import main

if __name__ == "__main__":
    main()
