"""Clusters that tasks run on: profiles, and how each kind of cluster is started and reached."""
