"""The benchmarks of `scripts/bench`: one module per subject, with a function `figures`."""
