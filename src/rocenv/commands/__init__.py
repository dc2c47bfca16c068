"""rocenv's commands, one module each. Only these, and `cli`, print."""
