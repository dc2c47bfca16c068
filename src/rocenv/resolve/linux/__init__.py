"""Sets for Linux: a ROCm release from a channel, the wheels of torch that go with it, an override or none."""

from rocenv.resolve.linux.choices import problem
from rocenv.resolve.linux.words import beyond, candidate, reason

__all__ = ["beyond", "candidate", "problem", "reason"]
