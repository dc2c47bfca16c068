"""Compare the rows in `profiles/` with the current indexes and release pages."""
