"""`rocenv trust`: let the `.rocenv` file of a folder choose the env of a shell in it.

Such a file holds one line, the name of an env. It is followed only as long as it is, byte for byte, what the
user trusted: whoever can write to a folder must not choose what a shell does in it.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rocenv import config
from rocenv.commands.output import columns, json_option, note, print_json
from rocenv.context import Context
from rocenv.core.errors import PrefixError, RocenvError
from rocenv.core.foreign import open_regular
from rocenv.prefix import prefix_of
from rocenv.system.locks import locked
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.home import Home
    from rocenv.prefix import Prefix

FILE = ".rocenv"
MOST_BYTES = 4096
_LONGEST_NAME = 200


@click.command()
@click.argument("folder", required=False, type=click.Path(file_okay=False, readable=False))
@click.option("--forget", "mode", flag_value="forget", help="Stop trusting it.")
@click.option("--check", "mode", flag_value="check", help="Print the env's name if it may be activated.")
@click.option("--list", "mode", flag_value="list", help="List the folders that are trusted.")
@json_option
def command(folder: str | None, mode: str | None, as_json: bool) -> int:
    """Trust the `.rocenv` file of FOLDER as it is now. Default: this folder's, or the nearest above.

    The file holds the name of an env. A shell with the hook (`rocenv hook`) activates that env on entering
    the folder, and leaves it with the folder. A file that was changed has to be trusted again.
    """
    home = Context().home
    if folder == "":
        raise click.UsageError("FOLDER is empty; leave it out to mean this folder")
    if mode == "list":
        if folder is not None:
            raise click.UsageError("--list goes with no FOLDER")
        _list(home, as_json)
        return 0
    chosen = folder or _nearest(_here()) or _here()
    if mode == "check":
        return _check(chosen, home, as_json)
    if mode == "forget":
        _forget(os.path.realpath(chosen), home, as_json)
        return 0
    found = _read(chosen, home)
    with locked(home.lock("settings", "trusted")):
        config.assign(home.config_file, ("trusted", key_of(found.folder)), found.sha256)
    name = found.prefix.name
    note(f"trusted: `{found.shown}`, which asks for env `{name}`")
    if found.prefix.state != "complete":
        note(f"there is no such env yet: `rocenv create {shell_join(name)} --rocm VERSION`")
    if as_json:
        print_json({"folder": found.folder, "env": name})
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _FolderFile:
    """The file of a folder."""

    folder: str  # its real path
    prefix: Prefix  # of the env that it names, which need not exist
    sha256: str

    @property
    def shown(self) -> str:
        return _shown(os.path.join(self.folder, FILE))


def _here() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise RocenvError(f"cannot find the current folder: {error.strerror}") from error


def _nearest(folder: str) -> str:
    """Find the nearest folder with a file, from this one upwards; "" if there is none.

    A folder of that name, as every env has one, is no such file.
    """
    here = os.path.realpath(folder)
    while not os.path.isfile(os.path.join(here, FILE)):
        here, below = os.path.dirname(here), here
        if here == below:
            return ""
    return here


def _check(folder: str, home: Home, as_json: bool) -> int:
    try:
        found = _read(folder, home)
        _require_trusted(found, home)
    except RocenvError as error:
        if as_json:
            raise
        # At a prompt, where two lines are enough.
        note("\n  ".join((f"rocenv: {error.message}", *error.hints[:1])))
        return 1
    if as_json:
        print_json({"folder": found.folder, "env": found.prefix.name})
    else:
        click.echo(os.fsencode(found.prefix.name))
    return 0


def _require_trusted(found: _FolderFile, home: Home) -> None:
    """Raise RocenvError unless the user trusts the file as it is and its env is complete.

    The first hint is the command to type.
    """
    name = found.prefix.name
    known = config.load(home.config_file).trusted.get(key_of(found.folder))
    if known != found.sha256:
        state = "has been changed since it was trusted" if known else "is not trusted"
        # A folder that no terminal could show is left out.
        command = shell_join("rocenv", "trust", found.folder)
        raise RocenvError(
            f"`{found.shown}` asks for env `{name}`, but {state}; to allow it:",
            hints=(command if found.folder.isprintable() else "rocenv trust  (in that folder)",),
            code="folder-untrusted",
        )
    if found.prefix.state != "complete":
        partly = found.prefix.state == "incomplete"
        raise PrefixError(
            f"`{found.shown}` asks for env `{name}`, which {'is incomplete' if partly else 'does not exist'}",
            hints=(f"rocenv create {shell_join(name)} --rocm VERSION",),
            code="env-incomplete" if partly else "env-missing",
        )


def _forget(folder: str, home: Home, as_json: bool) -> None:
    """Stop trusting the file of a folder, which may be gone."""
    with locked(home.lock("settings", "trusted")):
        forgotten = config.unset(home.config_file, ("trusted", key_of(folder)))
    note(f"`{_shown(folder)}` is no longer trusted" if forgotten else f"`{_shown(folder)}` was not trusted")
    if as_json:
        print_json({"folder": folder, "forgotten": forgotten})


def _list(home: Home, as_json: bool) -> None:
    listed: list[dict[str, str | None]] = []
    for key, sha256 in sorted(config.load(home.config_file).trusted.items()):
        folder = folder_of(key)
        try:
            found = _read(folder, home)
        except RocenvError:
            listed.append({"folder": folder, "state": "gone", "env": None})
        else:
            state = "trusted" if found.sha256 == sha256 else "changed"
            listed.append({"folder": folder, "state": state, "env": found.prefix.name})
    if as_json:
        print_json({"trusted": listed})
    elif listed:
        rows: list[tuple[str, ...]] = [("ENV", "STATE", "FOLDER")]
        rows += [(each["env"] or "-", str(each["state"]), _shown(str(each["folder"]))) for each in listed]
        click.echo(columns(rows))
    else:
        note("no folder is trusted")


def key_of(folder: str) -> str:
    """Name a folder in the settings: what cannot be printed, or is no valid text, is its number, `%A;`."""
    return "".join(f"%{ord(c):X};" if c == "%" or not c.isprintable() else c for c in folder)


def folder_of(key: str) -> str:
    """Read a key that `key_of` made; any other one stays as it is."""
    first, *rest = key.split("%")
    try:
        parts = [part.split(";", 1) for part in rest]
        folder = first + "".join(chr(int(number, 16)) + text for number, text in parts)
        os.fsencode(folder)  # no path holds any lone surrogate
    except (ValueError, OverflowError):
        return key
    return folder


def _shown(path: str) -> str:
    """A path in one line that a terminal takes for text."""
    return "".join(char if char.isprintable() else "?" for char in path)


def _read(folder: str, home: Home) -> _FolderFile:
    """Read the file of a folder.

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
    return _FolderFile(folder=real, prefix=prefix, sha256=hashlib.sha256(content).hexdigest())


def _content(folder: str) -> bytes:
    path = os.path.join(folder, FILE)
    try:
        with open_regular(path) as stream:
            content = stream.read(MOST_BYTES + 1)
    except PermissionError as error:
        raise RocenvError(
            f"cannot read `{_shown(path)}`: {error.strerror}",
            hints=("you need permission to read it",),
            code="folder-file",
        ) from error
    except (OSError, ValueError) as error:
        raise RocenvError(
            f"there is no file `{FILE}` in `{_shown(folder)}`",
            hints=("make one that holds the name of an env: `echo NAME > .rocenv`",),
            code="folder-file",
        ) from error
    if len(content) > MOST_BYTES:
        raise _malformed(folder, f"it has more than {MOST_BYTES} bytes")
    return content


def _name(folder: str, content: bytes) -> str:
    """Take the first line; no other may hold anything, since the hook looks at the first line alone."""
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
    return RocenvError(
        f"`{_shown(os.path.join(folder, FILE))}` names no env: {why}",
        hints=("it holds one line, the name of an env, and nothing else",),
        code="folder-file",
    )
