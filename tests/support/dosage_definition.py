"""The byte of a dosage by its definition."""

from primo_scale.kernels.dosage_bytes import MISSING_BYTE, STEPS, UNITS


def nearest_byte(units: int) -> int:
    """Return the byte of a dosage in units of 1/16384 of a copy, or of a missing one (negative)."""
    if units < 0:
        return MISSING_BYTE
    return min(range(MISSING_BYTE), key=lambda t: (abs(UNITS * t - STEPS * units), abs(t - STEPS)))
