"""Tests for `rocenv kernels`, with a fake compiler."""
