"""Backend switches."""

from torch.backends import cuda, cudnn

__all__ = ["cuda", "cudnn"]
