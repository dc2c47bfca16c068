"""GPU memory: usage by process, allocation limits, and how much models need."""
