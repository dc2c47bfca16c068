"""Tests of kernels, with a fake compiler."""
