"""Kernels of apps: found, compiled, checked, placed and removed, with a compiler that only pretends."""
