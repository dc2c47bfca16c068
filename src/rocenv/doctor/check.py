"""What a check is, to those who run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.doctor.scene import Scene
    from rocenv.doctor.seen import Found


@dataclass(frozen=True, slots=True)
class Check:
    """A check, and where it applies; it is named after the fault that it sees."""

    name: str
    look: Callable[[Scene], Found]
    platform: Literal["linux", "windows", "any"]
    slow: bool = False
    of_env: bool = False  # looks at the env that was named, and is left out where none was
    tells: str = ""  # the row of `advice` that names it in lists; "" = the one of its name

    @property
    def title_row(self) -> str:
        """The row whose title says what it looks for."""
        return self.tells or self.name
