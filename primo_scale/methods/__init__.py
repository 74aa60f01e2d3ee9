"""Regression weights from private statistics, for all phenotypes at once."""
