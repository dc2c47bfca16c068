"""Benchmarks for `scripts/bench`: each module covers one subject and defines a function `figures`."""
