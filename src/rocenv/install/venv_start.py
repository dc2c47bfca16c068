"""Load ZLUDA before torch in every program that this Python runs. Written by rocenv; changes will be lost.

Python runs this at startup through the `.pth` file next to it. At startup, this code only sets the env's
variables (unless the env is active) and registers a hook for `import torch`. Before torch's own code runs,
the hook loads the libraries in the `.json` file, in order and by full path, so that torch, which loads
CUDA's libraries by name, gets ZLUDA's. Then it applies the settings for torch.

This file uses only the standard library. If ROCENV_TRACE is set to a file, each step is logged there; after
a crash, the last line names the library that was being loaded.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_PREFIX = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))  # venv/Lib/site-packages
_ALTERED_SEARCH_PATH = 8  # search a library's own folder first. Source: LoadLibraryExW, libloaderapi.h


def start() -> None:
    """Set the env's variables, and register the hook for torch."""
    try:
        with open(os.path.join(_HERE, "rocenv_zluda.json"), encoding="utf-8") as file:
            settings = json.load(file)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"rocenv: cannot set up ZLUDA in this Python: {error}; run `rocenv repair`\n")
        return
    if not _is_active(settings["environment"]):
        _activate(settings["environment"])
    sys.meta_path.insert(0, _BeforeTorch(settings))


def _native(path: str) -> str:
    return os.path.join(_PREFIX, *path.split("/"))


def _is_active(changes: list[list[str]]) -> bool:
    """Whether any variable that activation sets to a path in the prefix has that value."""
    return any(
        os.path.normcase(os.environ.get(name, "")) == os.path.normcase(value.replace("{prefix}", _PREFIX))
        for action, name, value in changes
        if action == "set" and "{prefix}" in value
    )


def _activate(changes: list[list[str]]) -> None:
    """Set the env's variables, because the venv's Python can be started without activating the env."""
    for action, name, value in changes:
        value = value.replace("{prefix}", _PREFIX)
        if action == "set":
            os.environ[name] = value
        elif action == "prepend":
            rest = [entry for entry in os.environ.get(name, "").split(os.pathsep) if entry not in ("", value)]
            os.environ[name] = os.pathsep.join([value, *rest])
        else:
            os.environ.pop(name, None)


def _trace(text: str) -> None:
    path = os.environ.get("ROCENV_TRACE")
    if path:
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(text + "\n")
        except OSError:
            pass


class _BeforeTorch:
    """A finder at the front of `sys.meta_path` that gives torch a loader that loads ZLUDA first.

    Packages that only check whether torch exists get the usual result without loading anything.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find torch's own spec through the other finders, and wrap its loader in `_Switching`."""
        if name != "torch":
            return None
        for finder in sys.meta_path:
            look = getattr(finder, "find_spec", None)
            spec: Any = None if finder is self or look is None else look(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Switching(spec.loader, self._settings)
                return spec
        return None


class _Switching:
    """A wrapper for torch's loader that loads ZLUDA before torch, and applies the settings afterward."""

    def __init__(self, loader: Any, settings: dict[str, Any]) -> None:
        self._loader = loader
        self._settings = settings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        """Delegate to torch's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Load ZLUDA, run torch, and apply the settings.

        If ZLUDA cannot be loaded, every import of torch fails with the reason.
        """
        _load(self._settings)
        self._loader.exec_module(module)
        for switch in self._settings["switches"]:
            _make(module, **switch)
        _trace("torch")


def _make(torch: Any, name: str, how: str, value: bool) -> None:
    """Apply a setting, unless this torch is too old to have it."""
    owner, _, last = name.rpartition(".")
    place = torch
    for part in owner.split("."):
        place = getattr(place, part, None)
    if place is None or not hasattr(place, last):
        return
    if how == "set":
        setattr(place, last, value)
        return
    getattr(place, last)(value if how == "call" else False)
    if how == "disable":
        setattr(place, last, lambda *_args, **_kwargs: None)


def _load(settings: dict[str, Any]) -> None:
    """Load the libraries; raise ImportError with advice if one cannot be loaded."""
    import ctypes

    if os.environ.get("ROCENV_TRACE"):
        _enable_fault_handler()
    path = ""
    try:
        for folder in settings["folders"]:
            path = _native(folder)
            os.add_dll_directory(path)  # type: ignore[attr-defined, unused-ignore]
        for each in settings["load"]:
            path = _native(each)
            _trace("load " + path)
            ctypes.CDLL(path, winmode=_ALTERED_SEARCH_PATH)
            _trace("loaded " + path)
    except OSError as error:  # ctypes also raises this error for crashes that it catches
        _trace(f"failed {path}: {error}")
        name = os.path.basename(_PREFIX)
        raise ImportError(
            f"rocenv: cannot load `{path}` before torch: {error}. "
            f'`rocenv verify "{name}"` reports what is missing; `rocenv repair "{name}"` restores files.'
        ) from error


def _enable_fault_handler() -> None:
    import contextlib
    import faulthandler

    with contextlib.suppress(RuntimeError, OSError, ValueError, AttributeError):  # there may be no console
        faulthandler.enable()


if sys.platform == "win32":
    start()
