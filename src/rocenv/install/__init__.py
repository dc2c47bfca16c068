"""Turn a plan into a complete prefix."""
