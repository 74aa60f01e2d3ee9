"""What several test files share; a test imports it by name: ``from support.processes import run``.

pyproject.toml puts tests/ on the path. What one file alone uses is in that file.
"""
