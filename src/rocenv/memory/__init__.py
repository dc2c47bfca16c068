"""GPU memory: usage by process, allocation limits, and the needs of models."""
