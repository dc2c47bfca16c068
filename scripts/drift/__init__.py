"""Compare the rows in `profiles/` with current indices and release pages."""
