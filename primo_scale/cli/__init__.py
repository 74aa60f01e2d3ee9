"""Command lines: each module parses the options of one command and calls the public API."""
