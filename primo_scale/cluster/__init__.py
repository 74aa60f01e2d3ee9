"""Clusters that tasks run on: profiles, start-up and connections, certificates."""
