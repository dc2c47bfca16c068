"""The state that the rungs of one child share: the task, open libraries, and the API."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.variables import OVERRIDE, overridden_target
from rocenv.probe import cuda, hip, own_process, windows
from rocenv.probe.device import Blas, Failure, Runtime
from rocenv.probe.library import Library
from rocenv.probe.rocm_wheels import provided_by

if TYPE_CHECKING:
    from rocenv.probe.wire import Task

_PROTOTYPES = {**hip.PROTOTYPES, **cuda.PROTOTYPES}
_STATUS_NAMES = {**hip.STATUS_NAMES, **cuda.STATUS_NAMES}
_SHOWN = 3


class Session:
    """The state of one child.

    Attributes:
        before: Libraries mapped before any vendor library, or None if unknown.
        interposers: Vendor functions that were defined before any vendor library was loaded.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.before = own_process.mapped_libraries()
        self.interposers = own_process.interposers(_PROTOTYPES)
        self._libraries: dict[str, Library] = {}
        self._preloaded: list[Library] | None = None

    @property
    def standin(self) -> bool:
        """Whether a library in use is a fake."""
        return any(library.standin for library in (*self._libraries.values(), *(self._preloaded or ())))

    @property
    def target(self) -> str:
        """The target to compile for: the override's if there is one, otherwise the set's."""
        return overridden_target(os.environ.get(OVERRIDE, "")) or self.task.target

    @property
    def code_object(self) -> Path:
        """Path of the kernel that `compile` writes and that `kernel` and `gemm` read."""
        return Path(self.task.work_dir, f"sgemm_{self.target}.co")

    def open_device(self) -> str:
        """Make a GPU current and describe it; raise NoDevice or Failure."""
        return cuda.open_device(self) if self._is_cuda else hip.open_device(self)

    def runtime(self) -> Runtime:
        """Make a GPU current and return its runtime; raises the same errors as `open_device`."""
        self.open_device()
        calls = cuda.RUNTIME if self._is_cuda else hip.RUNTIME
        return Runtime(self.library(calls.role), calls)

    def blas(self) -> Blas:
        """Return the BLAS; the caller opens its handle with `with`."""
        calls = cuda.BLAS if self._is_cuda else hip.BLAS
        return Blas(self.library(calls.role), calls)

    def kernel(self) -> bytes:
        """Return the image that contains `gemm.KERNEL`."""
        return cuda.KERNEL if self._is_cuda else self.code_object.read_bytes()

    @property
    def _is_cuda(self) -> bool:
        return self.task.runtime == "cuda"

    def library(self, role: str) -> Library:
        """Load the library for a role, or raise Failure.

        Preloaded libraries are loaded first, then HIP, because the others load HIP by name and get the copy
        that is already loaded.
        """
        self.preload()
        if role != "hip" and "hip" in self.task.libraries:
            self.library("hip")
        if role not in self._libraries:
            path = self.task.libraries.get(role)
            if path is None:
                raise Failure(f"the set has no library for `{role}`")
            self._libraries[role] = self._load(path, role)
        return self._libraries[role]

    def preload(self) -> None:
        """Load the task's preloads before anything else; raise Failure if that fails."""
        if self._preloaded is not None:
            return
        self._preloaded = []
        windows.search_in(self.task.search)
        for path in self.task.preload:
            self._preloaded.append(self._load(path))

    def leaks(self) -> list[str]:
        """Describe libraries that were loaded from the wrong folder."""
        found = []
        if self.interposers:
            names = ", ".join(f"`{name}`" for name in self.interposers[:_SHOWN])
            more = f" and {len(self.interposers) - _SHOWN} more" if len(self.interposers) > _SHOWN else ""
            found.append(f"defined before its library was loaded (LD_PRELOAD?): {names}{more}")
        now = own_process.mapped_libraries()
        if self.before is not None and now is not None:
            found += [
                f"from outside the env: {path}"
                for path in own_process.outsiders(
                    self.before, now, self.task, own_process.interpreter_folder()
                )
            ]
        return found

    def describe_target(self) -> str:
        """Describe the target, and the override that selects it."""
        if self.target == self.task.target:
            return self.target
        return f"{self.target} ({OVERRIDE}={os.environ[OVERRIDE]}, in place of {self.task.target})"

    def _load(self, path: str, role: str = "") -> Library:
        try:
            return Library(path, _PROTOTYPES, _STATUS_NAMES.get(role))
        except OSError as error:
            why = windows.explain(error, path, self.task)
            raise Failure(f"{os.path.basename(path)} cannot be loaded: {why}{provided_by(path)}") from error
