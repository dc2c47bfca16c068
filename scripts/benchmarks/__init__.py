"""Benchmarks for `scripts/bench`: each module covers one subject and has a function `figures`."""
