"""What the rungs of one child share: the task, the libraries it opened, and the API that it works with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.model import OVERRIDE
from rocenv.probe import cuda, hip, maps, streams, windows
from rocenv.probe.device import Failure
from rocenv.probe.library import Interface, Library

if TYPE_CHECKING:
    from rocenv.probe.wire import Task

_INTERFACES = {**hip.INTERFACES, **cuda.INTERFACES}
_NOTHING_CALLED = Interface({})
_SHOWN = 3


class Session:
    """The state of one child.

    Attributes:
        before: The libraries that were mapped before any vendor library, None where that cannot be known.
        interposers: Functions of the vendor libraries that were there before them.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.before = maps.mapped_libraries()
        self.interposers = streams.interposers([*hip.PROTOTYPES, *cuda.PROTOTYPES])
        self._libraries: dict[str, Library] = {}
        self._preloaded: list[Library] | None = None

    @property
    def standin(self) -> bool:
        """One of the libraries in use is test equipment."""
        return any(library.standin for library in (*self._libraries.values(), *(self._preloaded or ())))

    @property
    def target(self) -> str:
        """The target that code has to be compiled for: what the override pretends, else the set's own."""
        return overridden_target(os.environ.get(OVERRIDE, "")) or self.task.target

    @property
    def code_object(self) -> Path:
        """Where `compile` leaves the kernel and `kernel` and `gemm` find it."""
        return Path(self.task.work_dir, f"sgemm_{self.target}.co")

    def library(self, role: str) -> Library:
        """Return the loaded library of a role; raise Failure if it cannot be loaded.

        What is preloaded comes first, then HIP: the others ask for it by name, and get the one that is there.
        """
        self.preload()
        if role != "hip" and "hip" in self.task.libraries:
            self.library("hip")
        if role not in self._libraries:
            path = self.task.libraries.get(role)
            if path is None:
                raise Failure(f"the set has no library for `{role}`")
            self._libraries[role] = self._load(path, _INTERFACES[role])
        return self._libraries[role]

    def preload(self) -> None:
        """Load what the task wants loaded before all else; raise Failure if one cannot be."""
        if self._preloaded is not None:
            return
        self._preloaded = []
        windows.search_in(self.task.search)
        for path in self.task.preload:
            self._preloaded.append(self._load(path, _NOTHING_CALLED))

    def leaks(self) -> list[str]:
        """Return what is wrong with where the loaded libraries came from."""
        found = []
        if self.interposers:
            names = ", ".join(f"`{name}`" for name in self.interposers[:_SHOWN])
            more = f" and {len(self.interposers) - _SHOWN} more" if len(self.interposers) > _SHOWN else ""
            found.append(f"there before its library was loaded (LD_PRELOAD?): {names}{more}")
        now = maps.mapped_libraries()
        if self.before is not None and now is not None:
            found += [
                f"from outside the prefix: {path}"
                for path in maps.outsiders(self.before, now, self.task, maps.interpreter_folder())
            ]
        return found

    def describe_target(self) -> str:
        """Return the target, and where it is the override's, that it is."""
        if self.target == self.task.target:
            return self.target
        return f"{self.target} ({OVERRIDE}={os.environ[OVERRIDE]}, in place of {self.task.target})"

    def _load(self, path: str, interface: Interface) -> Library:
        try:
            return Library(path, interface)
        except OSError as error:
            why = windows.explain(error, path, self.task)
            raise Failure(f"{os.path.basename(path)} does not load: {why}") from error


def overridden_target(value: str) -> str:
    """Return the target that a value of HSA_OVERRIDE_GFX_VERSION stands for, "" if it is none.

    Three decimals; the last two become hexadecimal digits: 9.0.10 is gfx90a.
    """
    parts = value.split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return ""
    major, minor, step = map(int, parts)
    return f"gfx{major}{minor:x}{step:x}"
