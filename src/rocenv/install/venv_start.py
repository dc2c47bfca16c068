"""ZLUDA before torch, in every program that this Python runs. Written here by rocenv; changes are lost.

Python reads this at its start, through the `.pth` file beside it, and it does next to nothing then: it sets
the env's variables where the env is not active, and waits for `import torch`. Just before that it loads the
libraries named in the `.json` file, each by its full path and in that order, so that torch, which asks for
CUDA's by name, gets them; just after it makes torch's settings.

Standard library only. Where ROCENV_TRACE names a file, it says there what it does: the last line of a process
that crashed names the library that was being loaded.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_PREFIX = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))  # venv/Lib/site-packages
_ALTERED_SEARCH_PATH = 8  # a library's own folder first. Source: LoadLibraryExW, libloaderapi.h


def start() -> None:
    """Set what the env sets, and wait for torch."""
    try:
        with open(os.path.join(_HERE, "rocenv_zluda.json"), encoding="utf-8") as file:
            settings = json.load(file)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"rocenv: ZLUDA is not set up in this Python: {error}; run `rocenv repair`\n")
        return
    if not _is_active(settings["environment"]):
        _activate(settings["environment"])
    sys.meta_path.insert(0, _BeforeTorch(settings))


def _native(path: str) -> str:
    return os.path.join(_PREFIX, *path.split("/"))


def _is_active(changes: list[list[str]]) -> bool:
    """Tell whether a variable that activation sets to a place in the prefix is set so."""
    return any(
        os.path.normcase(os.environ.get(name, "")) == os.path.normcase(value.replace("{prefix}", _PREFIX))
        for action, name, value in changes
        if action == "set" and "{prefix}" in value
    )


def _activate(changes: list[list[str]]) -> None:
    """Do what activation does; a program may be started by the venv's Python alone."""
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
    """Stands first among those that look for modules, and gives torch a loader that loads ZLUDA first.

    Whoever only looks whether torch is there, as many packages do, gets the same answer and nothing loaded.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find torch's own spec, as the others do, with `_Switching` around its loader."""
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
    """torch's own loader: before its work ZLUDA is loaded, after it torch's settings are made."""

    def __init__(self, loader: Any, settings: dict[str, Any]) -> None:
        self._loader = loader
        self._settings = settings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        """Leave it to torch's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Import torch between the two; where ZLUDA does not load, each attempt to import it says so."""
        _load(self._settings)
        self._loader.exec_module(module)
        for switch in self._settings["switches"]:
            _make(module, **switch)
        _trace("torch")


def _make(torch: Any, name: str, how: str, value: bool) -> None:
    """Make one setting; an older torch may not have it."""
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
    """Load the libraries, once; raise ImportError, which says what to do, where one cannot be loaded."""
    import ctypes

    if os.environ.get("ROCENV_TRACE"):
        _tell_of_faults()
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
    except OSError as error:  # also where one crashed: ctypes catches that
        _trace(f"failed {path}: {error}")
        name = os.path.basename(_PREFIX)
        raise ImportError(
            f"rocenv: `{path}` cannot be loaded before torch: {error}. "
            f'`rocenv verify "{name}"` says what is missing, `rocenv repair "{name}"` puts files back.'
        ) from error


def _tell_of_faults() -> None:
    import contextlib
    import faulthandler

    with contextlib.suppress(RuntimeError, OSError, ValueError, AttributeError):  # there may be no console
        faulthandler.enable()


if sys.platform == "win32":
    start()
