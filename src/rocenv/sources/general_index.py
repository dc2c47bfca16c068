"""The system's general package index, for packages such as numpy; several indexes are tried in order.

An index that is configured for uv or pip replaces uv's default, because some firewalls block all other
indexes.

Source: https://pip.pypa.io/en/stable/topics/configuration/
"""

from __future__ import annotations

import configparser
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rocenv.core.errors import DataError, ResolutionImpossible, RocenvError
from rocenv.sources.uv_outcome import index_name
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rocenv.core.model import Artifact
    from rocenv.net import Network
    from rocenv.sources.interpreter import Interpreter
    from rocenv.sources.uv import Uv

T = TypeVar("T")

GENERAL = "pypi:"  # key in `[mirrors]` for the general index


def general_indices(environ: Mapping[str, str], network: Network) -> tuple[str, ...]:
    """List the URLs to try: rocenv's mirrors, then uv's or pip's index, or "" for uv's default.

    Raises:
        DataError: A pip configuration file is invalid.
    """
    own = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL") or ""
    name, _, address = own.partition("=")
    if address and "/" not in name:  # NAME=ADDRESS
        own = address
    return (
        *network.candidates(GENERAL),
        own or environ.get("PIP_INDEX_URL") or pip_setting(environ, "index-url"),
    )


def from_first(urls: Iterable[str], ask: Callable[[str], T], uv: Uv) -> T:
    """Call `ask` with each URL until one succeeds, and report each failure.

    Raises:
        ResolutionImpossible: No index has the packages.
        RocenvError: `ask` failed for the last URL.
    """
    errors: list[RocenvError] = []
    for url in urls:
        if errors:
            uv.report(f"{errors[-1]}; trying {index_name(url)}")
        try:
            return ask(url)
        except RocenvError as error:
            errors.append(error)
    # An error from an index that responded is more informative than one from an unreachable mirror.
    raise next((error for error in errors if isinstance(error, ResolutionImpossible)), errors[-1])


def with_companions(
    wheels: Iterable[Artifact],
    pins: Mapping[str, str],
    *,
    index_urls: Iterable[str],
    python: Interpreter,
    uv: Uv,
) -> tuple[Artifact, ...]:
    """Add the wheels for `pins` (project -> version), and drop other versions of these projects.

    Raises:
        ResolutionImpossible: No index has these versions for this interpreter.
        FetchError: No index is reachable.
    """
    if not pins:
        return tuple(wheels)
    wanted = [f"{name}=={version}" for name, version in pins.items()]

    def resolve(url: str) -> tuple[Artifact, ...]:
        return uv.resolve(wanted, index_url=url, python=python, dependencies=False)

    found = from_first(index_urls, resolve, uv)
    names = {wheel.name for wheel in found}
    kept = [wheel for wheel in wheels if wheel.name not in names]
    return tuple(sorted((*kept, *found), key=lambda wheel: wheel.name))


def pip_setting(environ: Mapping[str, str], name: str) -> str:
    """Read a setting from pip's configuration files with pip's precedence, or "" if it is not set.

    Raises:
        DataError: A file is invalid.
    """
    parser = configparser.RawConfigParser()
    for file in _files_of_pip(environ):
        try:
            parser.read(file, encoding="utf-8-sig")
        except (configparser.Error, UnicodeDecodeError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"cannot read pip's configuration `{file}`: {reason}") from error
    for section in ("install", "global"):
        for key in (name, name.replace("-", "_")):
            if value := parser.get(section, key, fallback=""):
                return value
    return ""


def _files_of_pip(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield pip's configuration files. Later files win, and PIP_CONFIG_FILE replaces the user's files."""
    chosen = environ.get("PIP_CONFIG_FILE", "")
    if chosen == os.devnull:
        return
    home = Path(environ.get("USERPROFILE" if WINDOWS else "HOME") or os.path.expanduser("~"))
    if WINDOWS:
        machine = [Path(environ.get("PROGRAMDATA", "C:/ProgramData"), "pip", "pip.ini")]
        roaming = Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
        user = [home / "pip" / "pip.ini", roaming / "pip" / "pip.ini"]
    else:
        folders = reversed(environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":"))
        machine = [*(Path(folder, "pip", "pip.conf") for folder in folders), Path("/etc/pip.conf")]
        settings = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
        user = [home / ".pip" / "pip.conf", settings / "pip" / "pip.conf"]
    yield from machine
    if not (chosen and os.path.exists(chosen)):
        yield from user
    yield Path(sys.prefix, "pip.ini" if WINDOWS else "pip.conf")
    if chosen:
        yield Path(chosen)
