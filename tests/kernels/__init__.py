"""Kernels of apps: found, compiled, checked, placed and removed, with a fake compiler."""
