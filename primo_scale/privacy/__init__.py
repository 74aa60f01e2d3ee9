"""The one way from exact to private statistics, and the scales of its noise."""
