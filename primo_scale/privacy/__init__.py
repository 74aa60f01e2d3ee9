"""Private statistics: scales of the noise, payment, and the drawing of the noise."""
