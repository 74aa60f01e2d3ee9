"""Where tasks run: profiles of clusters, the ways to start or reach them, and their certificates."""
