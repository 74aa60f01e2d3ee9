"""Version of primo_scale, in a module that imports nothing."""

__version__ = "0.5.0"
