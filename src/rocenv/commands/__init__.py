"""The verbs of `rocenv`, a module each. Only these, and `cli`, print."""
