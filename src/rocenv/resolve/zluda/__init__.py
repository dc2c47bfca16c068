"""Sets for Windows with ZLUDA: HIP SDK, archive of a build, library pack, torch for CUDA 11.8."""

from rocenv.resolve.zluda.choices import problem
from rocenv.resolve.zluda.words import candidate, reason, remarks

__all__ = ["candidate", "problem", "reason", "remarks"]
