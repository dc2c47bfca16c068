"""Kernels of apps: found, compiled, checked, placed and taken back, with a compiler that only pretends."""
