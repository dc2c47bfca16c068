"""Benchmarks of `scripts/bench`: one module per subject, each with a function `figures`."""
