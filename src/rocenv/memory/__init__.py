"""The memory of GPUs: what is free, who holds the rest, what can be had, and what a model takes of it."""
