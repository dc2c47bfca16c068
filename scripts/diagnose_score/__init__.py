"""The parts of `scripts/diagnose-score`."""
