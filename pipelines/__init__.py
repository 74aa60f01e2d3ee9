"""Command lines. Thin: they parse options, wire the layers and turn errors into exit codes."""
