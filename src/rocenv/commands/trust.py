"""`rocenv trust`: let a folder's `.rocenv` file choose the env for shells in that folder.

The file contains one line, the name of an env. rocenv uses it only while its content is exactly what the user
trusted, because others who can write to the folder must not control what a shell does there.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rocenv import config
from rocenv.commands.options import json_option
from rocenv.commands.output import columns, note, print_json
from rocenv.context import Context
from rocenv.core.errors import PrefixError, RocenvError
from rocenv.core.foreign import open_regular
from rocenv.prefix import all_prefixes, prefix_of
from rocenv.system.locks import locked
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.home import Home
    from rocenv.prefix import Prefix

FILE = ".rocenv"
MAX_BYTES = 4096
_MAX_NAME_LENGTH = 200


@click.command()
@click.argument("folder", required=False, type=click.Path(file_okay=False, readable=False))
@click.option("--forget", "mode", flag_value="forget", help="Stop trusting the file.")
@click.option("--check", "mode", flag_value="check", help="Print the env's name if rocenv may activate it.")
@click.option("--list", "mode", flag_value="list", help="List the trusted folders.")
@json_option
def command(folder: str | None, mode: str | None, as_json: bool) -> int:
    """Trust the `.rocenv` file in FOLDER as it is now. Default: this folder, or its nearest parent with one.

    The file contains the name of an env. A shell with the hook (`rocenv hook`) activates that env when you
    enter the folder, and deactivates it when you leave the folder. If the file changes, trust it again.
    """
    home = Context().home
    if folder == "":
        raise click.UsageError("FOLDER is empty; omit it to use the current folder")
    if mode == "list":
        if folder is not None:
            raise click.UsageError("`--list` lists all trusted folders; omit the folder")
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
    note(f"trusted `{found.shown}`, which names env `{name}`")
    if found.prefix.state != "complete":
        note(f"that env does not exist yet; create it: `rocenv create {shell_join(name)} --torch`")
    if as_json:
        print_json({"folder": found.folder, "env": name})
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _FolderFile:
    """A folder's `.rocenv` file."""

    folder: str  # with links resolved
    prefix: Prefix  # of the env that the file names, which may not exist
    sha256: str

    @property
    def shown(self) -> str:
        return _printable(os.path.join(self.folder, FILE))


def _here() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise RocenvError(f"cannot determine the current folder: {error.strerror}") from error


def _nearest(folder: str) -> str:
    """Find the nearest folder with a `.rocenv` file, starting with this one, or return "".

    A folder named `.rocenv` does not count, because every env has one.
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
        # Two lines at most, because the hook runs this before each prompt.
        note("\n  ".join((f"rocenv: {error.message}", *error.hints[:1])))
        return 1
    if as_json:
        print_json({"folder": found.folder, "env": found.prefix.name})
    else:
        click.echo(os.fsencode(found.prefix.name))
    return 0


def _require_trusted(found: _FolderFile, home: Home) -> None:
    """Raise RocenvError unless the user trusts the file as it is and its env is complete.

    The first hint is the command to run.
    """
    name = found.prefix.name
    known = config.load(home.config_file).trusted.get(key_of(found.folder))
    if known != found.sha256:
        state = "it changed since you trusted it" if known else "you have not trusted it"
        command = shell_join("rocenv", "trust", found.folder)
        raise RocenvError(
            f"`{found.shown}` names env `{name}`, but {state}; to allow it:",
            hints=(command if found.folder.isprintable() else "rocenv trust  (in that folder)",),
            code="folder-untrusted",
        )
    if found.prefix.state != "complete":
        partly = found.prefix.state == "incomplete"
        raise PrefixError(
            f"`{found.shown}` names env `{name}`, which {'is incomplete' if partly else 'does not exist'}",
            hints=(f"rocenv create {shell_join(name)} --torch",),
            code="env-incomplete" if partly else "env-missing",
        )


def _forget(folder: str, home: Home, as_json: bool) -> None:
    """Stop trusting a folder's file, even if the folder no longer exists."""
    with locked(home.lock("settings", "trusted")):
        forgotten = config.unset(home.config_file, ("trusted", key_of(folder)))
    shown = _printable(folder)
    note(f"`{shown}` is no longer trusted" if forgotten else f"`{shown}` was not trusted")
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
        rows += [(each["env"] or "-", str(each["state"]), _printable(str(each["folder"]))) for each in listed]
        click.echo(columns(rows))
    else:
        note("you have not trusted any folders yet")


def key_of(folder: str) -> str:
    """Encode a folder as a settings key; unprintable characters become numbers, such as `%A;`."""
    return "".join(f"%{ord(c):X};" if c == "%" or not c.isprintable() else c for c in folder)


def folder_of(key: str) -> str:
    """Decode a key from `key_of`; other keys are returned unchanged."""
    first, *rest = key.split("%")
    try:
        parts = [part.split(";", 1) for part in rest]
        folder = first + "".join(chr(int(number, 16)) + text for number, text in parts)
        os.fsencode(folder)  # fails for lone surrogates that paths cannot contain
    except (ValueError, OverflowError):
        return key
    return folder


def _printable(path: str) -> str:
    """Make a path safe to print on a single line."""
    return "".join(char if char.isprintable() else "?" for char in path)


def _read(folder: str, home: Home) -> _FolderFile:
    """Read a folder's file.

    Raises:
        RocenvError: The file does not exist, or does not contain an env's name.
    """
    real = folder if "\0" in folder else os.path.realpath(folder)
    content = _content(real, home)
    name = _name(real, content)
    try:
        os.fsencode(name)  # a locale without UTF-8 cannot represent all names
        prefix = prefix_of(home, name)
    except (PrefixError, UnicodeEncodeError) as error:
        why = error.message if isinstance(error, PrefixError) else "this locale cannot represent the name"
        raise _malformed(real, why) from error
    return _FolderFile(folder=real, prefix=prefix, sha256=hashlib.sha256(content).hexdigest())


def _content(folder: str, home: Home) -> bytes:
    path = os.path.join(folder, FILE)
    try:
        with open_regular(path) as stream:
            content = stream.read(MAX_BYTES + 1)
    except PermissionError as error:
        raise RocenvError(
            f"cannot read `{_printable(path)}`: {error.strerror}",
            hints=("ask the owner for permission to read it",),
            code="folder-file",
        ) from error
    except (OSError, ValueError) as error:
        names = (prefix.name for prefix in all_prefixes(home) if prefix.state == "complete")
        write = f"echo {shell_join(next(names, 'default'))} > {FILE}"
        raise RocenvError(
            f"there is no `{FILE}` file in `{_printable(folder)}`",
            hints=(f"create one that contains the name of an env, for example: `{write}`",),
            code="folder-file",
        ) from error
    if len(content) > MAX_BYTES:
        raise _malformed(folder, f"it is larger than {MAX_BYTES} bytes")
    return content


def _name(folder: str, content: bytes) -> str:
    """Return the first line. The others must be empty, because the hook reads only the first line."""
    try:
        first, *rest = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise _malformed(folder, "it is not UTF-8 text") from error
    name = first.strip(" \t\r")
    if any(line.strip(" \t\r") for line in rest):
        raise _malformed(folder, "it has more than one line")
    if not name:
        raise _malformed(folder, "its first line is empty")
    if len(name) > _MAX_NAME_LENGTH:
        raise _malformed(folder, "its first line is too long for a name")
    return name


def _malformed(folder: str, why: str) -> RocenvError:
    return RocenvError(
        f"`{_printable(os.path.join(folder, FILE))}` does not contain the name of an env: {why}",
        hints=("the file must contain a single line with the name of an env",),
        code="folder-file",
    )
