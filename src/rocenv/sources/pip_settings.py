"""How this machine's pip is set up, read as pip reads it, since rocenv lets pip itself see none of it.

Which general index there is, and how servers are reached, come from here; nothing else does.
Source: https://pip.pypa.io/en/stable/topics/configuration/
"""

from __future__ import annotations

import configparser
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SECTIONS = ("global", "install")  # the latter wins


def pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return pip's settings: option without its dashes -> value. Variables win over files.

    Raises:
        DataError: A configuration file cannot be understood.
    """
    settings: dict[str, str] = {}
    for section in _SECTIONS:
        for file in _files(environ):
            settings |= _section(file, section)
    for name, value in environ.items():
        if name.startswith("PIP_") and value and name != "PIP_CONFIG_FILE":
            settings[_option(name.removeprefix("PIP_"))] = value
    return settings


def _section(file: Path, section: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        with file.open(encoding="utf-8-sig") as stream:
            parser.read_file(stream)
    except OSError:
        return {}
    except (configparser.Error, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"pip's configuration `{file}` cannot be read: {reason}") from error
    return {_option(key): value for key, value in (parser.items(section) if section in parser else ())}


def _option(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield pip's configuration files, the weakest first; a chosen one stands in for the user's."""
    chosen = environ.get("PIP_CONFIG_FILE", "")
    if chosen == os.devnull:
        return
    yield from _of_the_machine(environ)
    if not chosen or not os.path.exists(chosen):
        yield from _of_the_user(environ)
    yield Path(sys.prefix, "pip.ini" if WINDOWS else "pip.conf")
    if chosen:
        yield Path(chosen)


def _of_the_machine(environ: Mapping[str, str]) -> Iterator[Path]:
    if WINDOWS:
        yield Path(environ.get("PROGRAMDATA", "C:/ProgramData"), "pip", "pip.ini")
        return
    for folder in reversed(environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")):
        yield Path(folder, "pip", "pip.conf")
    yield Path("/etc/pip.conf")


def _of_the_user(environ: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environ.get("USERPROFILE" if WINDOWS else "HOME") or os.path.expanduser("~"))
    if WINDOWS:
        yield home / "pip" / "pip.ini"
        yield Path(environ.get("APPDATA") or home / "AppData" / "Roaming", "pip", "pip.ini")
    else:
        yield home / ".pip" / "pip.conf"
        yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config", "pip", "pip.conf")
