"""What an adapter answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.apps.blas import State
    from rocenv.apps.gpu_layers import Room
    from rocenv.data.apps import Flag


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Arguments that suit this machine, and what the adapter learned about it."""

    flags: tuple[Flag, ...] = ()  # to add, if this version has them
    own_arguments: tuple[
        str, ...
    ] = ()  # of the program's file, to repeat since added ones would replace them
    blas: State = "unknown"  # whether the env's rocBLAS works for the target
    around_blas: tuple[str, ...] = ()  # the arguments with which some versions work without rocBLAS
    room: Room | None = None  # for the layers of a model
    model: Path | None = None


NO_TUNING = Tuning()
