"""rocenv's commands, one module each. Only these modules and `cli` print."""
