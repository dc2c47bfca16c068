"""What `scripts/bench` measures: one module per subject, each with functions that return figures."""
