"""Where tasks run: profiles of clusters, ways to start and to reach them, certificates."""
