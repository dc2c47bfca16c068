"""Comparison of the rows in `profiles/` with today's indices and release pages."""
