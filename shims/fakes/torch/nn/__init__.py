"""Layers."""

from torch.nn import functional

__all__ = ["functional"]
