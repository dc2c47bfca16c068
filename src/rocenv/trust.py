"""`.rocenv` files: which env a folder asks for, and whether the user lets it have that.

Such a file holds one line, the name of an env. It is followed only as long as it is, byte for byte, what the
user trusted: whoever can write to a folder must not choose what a shell does in it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv import config
from rocenv.core.errors import PrefixError, RocenvError
from rocenv.install.prefix import prefix_of
from rocenv.system.locks import locked
from rocenv.system.quoting import as_typed

if TYPE_CHECKING:
    from rocenv.home import Home
    from rocenv.install.prefix import Prefix

FILE = ".rocenv"
MOST_BYTES = 4096
_LONGEST_NAME = 200
_HOLDS = "it holds one line, the name of an env, and nothing else"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a folder asks for."""

    folder: str  # its real path
    prefix: Prefix  # of the env named, which need not exist
    sha256: str  # of the file


def nearest(folder: str) -> str:
    """Return the nearest folder that has a file, from this one upwards; "" where none has.

    A folder of that name, as every env has one, is none.
    """
    here = os.path.realpath(folder)
    while not os.path.isfile(os.path.join(here, FILE)):
        here, below = os.path.dirname(here), here
        if here == below:
            return ""
    return here


def wish_of(folder: str, home: Home) -> Wish:
    """Return what the file of a folder asks for.

    Raises:
        RocenvError: There is none, it cannot be read, or it holds something else than the name of an env.
    """
    real = folder if "\0" in folder else os.path.realpath(folder)
    content = _content(real)
    name = _name(real, content)
    try:
        os.fsencode(name)  # a locale without UTF-8 has no such folder
        prefix = prefix_of(home, name)
    except (PrefixError, UnicodeEncodeError) as error:
        why = error.message if isinstance(error, PrefixError) else "its name cannot be written in this locale"
        raise _malformed(real, why) from error
    return Wish(folder=real, prefix=prefix, sha256=hashlib.sha256(content).hexdigest())


def trusted_wish(folder: str, home: Home) -> Wish:
    """Return what the file of a folder asks for, if the user trusts it as it is and the env is there.

    Raises:
        RocenvError: As `wish_of` does; or it is not trusted, or was changed since; or the env is missing or
            incomplete. The first hint is the command to type.
    """
    wish = wish_of(folder, home)
    file, name = shown(os.path.join(wish.folder, FILE)), wish.prefix.name
    known = config.load(home.config_file).trusted.get(key_of(wish.folder))
    if known != wish.sha256:
        state = "has been changed since it was trusted" if known else "is not trusted"
        raise RocenvError(
            f"`{file}` asks for env `{name}`, and {state}; if it may have that:",
            hints=(trust_command(wish.folder),),
            code="folder-untrusted",
        )
    if wish.prefix.state != "complete":
        partly = wish.prefix.state == "incomplete"
        raise PrefixError(
            f"`{file}` asks for env `{name}`, which is {'incomplete' if partly else 'not there'}",
            hints=(f"rocenv create {as_typed(name)} --rocm VERSION",),
            code="env-incomplete" if partly else "env-missing",
        )
    return wish


def remember(wish: Wish, home: Home) -> None:
    """Trust a file as it was read."""
    with locked(home.lock("settings", "trusted")):
        config.assign(home.config_file, ("trusted", key_of(wish.folder)), wish.sha256)


def forget(folder: str, home: Home) -> bool:
    """Trust the file of a folder, which may be gone, no more; tell whether it was trusted."""
    with locked(home.lock("settings", "trusted")):
        return config.unset(home.config_file, ("trusted", key_of(os.path.realpath(folder))))


def key_of(folder: str) -> str:
    """Return a folder as the settings name it; `folder_of` reads it.

    What cannot be printed, which may be no valid text at all, stands as its number: `%A;`.
    """
    return "".join(f"%{ord(c):X};" if c == "%" or not c.isprintable() else c for c in folder)


def folder_of(key: str) -> str:
    """Return the folder that `key_of` made a key of; a key made by nobody stays as it is."""
    first, *rest = key.split("%")
    try:
        parts = [part.split(";", 1) for part in rest]
        folder = first + "".join(chr(int(number, 16)) + text for number, text in parts)
        os.fsencode(folder)  # no path holds any lone surrogate
    except (ValueError, OverflowError):
        return key
    return folder


def trust_command(folder: str) -> str:
    """Return what to type to trust a folder; without the folder where no terminal could show it."""
    return as_typed("rocenv", "trust", folder) if folder.isprintable() else "rocenv trust  (in that folder)"


def shown(path: str) -> str:
    """Return a path in one line that a terminal takes for text."""
    return "".join(char if char.isprintable() else "?" for char in path)


def _content(folder: str) -> bytes:
    path = os.path.join(folder, FILE)
    try:
        # Opening a pipe can wait for ever, and be noticed at its other end.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FileNotFoundError
        with open(path, "rb", buffering=0, opener=_open) as stream:
            content = stream.read(MOST_BYTES + 1) if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) else b""
    except PermissionError as error:
        raise RocenvError(
            f"cannot read `{shown(path)}`: {error.strerror}",
            hints=("it has to be readable for you",),
            code="folder-file",
        ) from error
    except (OSError, ValueError) as error:
        raise RocenvError(
            f"there is no file `{FILE}` in `{shown(folder)}`",
            hints=("make one that holds the name of an env: `echo NAME > .rocenv`",),
            code="folder-file",
        ) from error
    if len(content) > MOST_BYTES:
        raise _malformed(folder, f"it has more than {MOST_BYTES} bytes")
    return content


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _name(folder: str, content: bytes) -> str:
    """Return the first line, where no other one holds anything: the hook looks at the first line alone."""
    try:
        first, *rest = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise _malformed(folder, "it is not UTF-8 text") from error
    name = first.strip(" \t\r")
    if any(line.strip(" \t\r") for line in rest):
        raise _malformed(folder, "it has more than one line")
    if not name:
        raise _malformed(folder, "its first line is empty")
    if len(name) > _LONGEST_NAME:
        raise _malformed(folder, "its line is longer than any name")
    return name


def _malformed(folder: str, why: str) -> RocenvError:
    path = shown(os.path.join(folder, FILE))
    return RocenvError(f"`{path}` names no env: {why}", hints=(_HOLDS,), code="folder-file")
