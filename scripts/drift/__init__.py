"""What the rows of the matrix say about the world outside, compared with what is there now."""
