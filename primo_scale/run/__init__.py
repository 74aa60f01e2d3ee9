"""One run from genotypes to a release: request, design, pre-flight, stages, progress."""
