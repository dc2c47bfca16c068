"""Sets for Linux: a ROCm release from a channel, the wheels of torch that go with it, an override or none."""

from rocenv.resolve.linux.choices import problem
from rocenv.resolve.linux.words import candidate, reason, remarks

__all__ = ["candidate", "problem", "reason", "remarks"]
