"""GPU memory: how much is free, who holds the rest, what a program can have, and what a model takes."""
