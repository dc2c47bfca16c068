"""ZLUDA before torch, in every program that this Python runs. Written here by rocenv; changes are lost.

Python reads this at its start, through the `.pth` file beside it, and it does next to nothing then: it sets
the env's variables where the env is not active, and waits for `import torch`. Just before that it loads the
libraries named in the `.json` file, each by its full path and in that order, so that torch, which asks for
CUDA's by name, gets them; just after it makes torch's settings.

Standard library only. Where ROCENV_TRACE names a file, it says there what it does: the last line of a process
that crashed names the library that was being loaded.
"""

from __future__ import annotations

import importlib.util
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
        sys.stderr.write(f"rocenv: ZLUDA is not set up in this Python: {error}; `rocenv repair` mends it\n")
        return
    if os.path.normcase(os.environ.get("ZLUDA", "")) != os.path.normcase(_native("zluda")):
        _activate(settings["environment"])
    sys.meta_path.insert(0, _BeforeTorch(settings))


def _native(path: str) -> str:
    return os.path.join(_PREFIX, *path.split("/"))


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
    """Stands first among those that look for modules, until torch is looked for."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Load what torch is to find, before it is imported."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec: Any = importlib.util.find_spec("torch")
        if spec is not None and spec.loader is not None:
            _load(self._settings)
            spec.loader = _Switching(spec.loader, self._settings["switches"])
        return spec


class _Switching:
    """torch's own loader, and torch's settings once it has done its work."""

    def __init__(self, loader: Any, switches: list[dict[str, Any]]) -> None:
        self._loader = loader
        self._switches = switches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        """Leave it to torch's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """Import torch, then make its settings."""
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        for switch in self._switches:
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
    """Load the libraries; raise ImportError, which says what to do, where one cannot be loaded."""
    import ctypes

    if os.environ.get("ROCENV_TRACE"):
        import faulthandler

        faulthandler.enable()
    for folder in settings["folders"]:
        os.add_dll_directory(_native(folder))  # type: ignore[attr-defined, unused-ignore]
    for each in settings["load"]:
        path = _native(each)
        _trace("load " + path)
        try:
            ctypes.CDLL(path, winmode=_ALTERED_SEARCH_PATH)
        except OSError as error:  # also where it crashed: ctypes catches that
            _trace(f"failed {path}: {error}")
            name = os.path.basename(_PREFIX)
            raise ImportError(
                f"rocenv: `{path}` cannot be loaded before torch: {error}. "
                f'`rocenv verify "{name}"` says what is missing, `rocenv repair "{name}"` puts files back.'
            ) from error
        _trace("loaded " + path)


if sys.platform == "win32":
    start()
