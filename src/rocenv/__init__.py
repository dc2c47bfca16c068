"""Matching ROCm and PyTorch sets for AMD GPUs, in isolated prefixes."""

__version__ = "0.1.0"
