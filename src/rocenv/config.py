"""Read and edit the settings file, `config.toml`; edits keep its comments.

It contains `[mirrors]` (URL prefix -> prefixes to try first, in order), `[defaults]`, `[trusted]` (folder
-> hash of its `.rocenv` file) and `[home]` (`shared`: several users intentionally share it). Mirror URLs may
contain passwords, so only the owner can read the file unless the home is shared. Unknown names and wrong
types are errors that report the file and key, because a silently ignored setting looks broken.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import DataError
from rocenv.system import WINDOWS
from rocenv.system.files import write_atomic
from rocenv.system.private import make_private

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# The keys of `[defaults]`: options of `create`.
DEFAULTS = ("rocm", "zluda", "torch", "python", "target", "channel")
KNOWN = ("mirrors", "defaults", "trusted", "home")

Mirrors = tuple[tuple[str, tuple[str, ...]], ...]
Key = tuple[str, ...]  # `("defaults", "rocm")`
Value = str | bool | int | list[Any]

# a dotted key in TOML: whl.rocm, a."b.c", 'd.e'
_KEY_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED_KEY = re.compile(rf"{_KEY_PART}(?:\s*\.\s*{_KEY_PART})*")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings for all commands."""

    mirrors: Mirrors = ()  # prefix -> prefixes, in file order
    defaults: Mapping[str, str | bool | int] = field(default_factory=dict)  # option of `create` -> default
    trusted: Mapping[str, str] = field(default_factory=dict)  # see `rocenv.commands.trust`
    shared: bool = False  # several users intentionally share the home


def load(path: Path) -> Config:
    """Read the settings; a missing file means no settings.

    Raises:
        DataError: Invalid TOML (with the line), an unknown name, or a value of the wrong type.
    """
    found = _validated(path, _parse(path, _text(path)))
    if any("@" in address for _, addresses in found.mirrors for address in addresses):
        _keep_private(path)
    return found


def _keep_private(path: Path) -> None:
    """Make settings that contain a password readable only by their owner; skip other users' files."""
    if not WINDOWS:
        with contextlib.suppress(OSError):
            if os.stat(path).st_mode & 0o077:
                os.chmod(path, 0o600)


def shares_home(path: Path) -> bool:
    """Whether this user's or root's settings declare the home shared; raises the same errors as `load`."""
    try:
        info = os.stat(path)
    except OSError:
        return False
    if not WINDOWS and (info.st_uid not in (0, os.geteuid()) or info.st_mode & 0o022):
        return False
    return load(path).shared


def lookup(path: Path, key: Key) -> Any:
    """Return a key's value (a dict for a table), or None if the key is unset."""
    found: Any = _parse(path, _text(path))
    for part in key:
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return found


def assign(path: Path, key: Key, value: Value) -> None:
    """Set a key without touching other lines; change nothing if the result would be invalid."""
    assign_all(path, {key: value})


def assign_all(path: Path, settings: Mapping[Key, Value]) -> None:
    """Set several keys in one write: all of them, or none if the result would be invalid."""
    import tomlkit

    text = _text(path)
    _parse(path, text)
    document: Any = tomlkit.parse(text)
    for key, value in settings.items():
        *tables, last = key
        table = document
        for part in tables:
            if part not in table:
                table[part] = tomlkit.table()
            table = table[part]
            if not isinstance(table, dict):
                raise DataError(f"cannot set `{_dotted(*key)}`: `{part}` in `{path}` is not a table")
        table[last] = value
    result = document.as_string()
    _validated(path, _parse(path, result))
    _write(path, result)


def unset(path: Path, key: Key) -> bool:
    """Remove a key and return whether it was set; works on invalid settings too, so users can repair them."""
    import tomlkit

    *tables, last = key
    text = _text(path)
    _parse(path, text)
    document: Any = tomlkit.parse(text)
    table = document
    for part in tables:
        table = table.get(part) if isinstance(table, dict) else None
    if not isinstance(table, dict) or last not in table:
        return False
    del table[last]
    _write(path, document.as_string())
    return True


def parse_key(text: str) -> Key:
    """Parse a dotted key, written as in TOML: `defaults.rocm`, `mirrors."https://…/"`.

    URLs contain dots, so everything after `mirrors.` is one part unless it begins with a quotation mark.
    """
    first, _, rest = text.partition(".")
    if first.strip() == "mirrors" and rest and rest[0] not in "\"'":
        return ("mirrors", rest)
    try:
        if not _DOTTED_KEY.fullmatch(text):
            raise ValueError(text)
        found: Any = _toml_loads(f"{text} = 0")
    except ValueError as error:
        raise DataError(
            f"`{text}` is not a valid key",
            hints=("keys look like `defaults.rocm` or `mirrors.https://host/`",),
        ) from error
    parts: list[str] = []
    while isinstance(found, dict):
        ((part, found),) = found.items()
        parts.append(part)
    return tuple(parts)


def parse_value(text: str) -> Value:
    """Parse a value from the command line: `true`, `false`, an integer, a TOML array, or text."""
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    if not text.startswith("["):
        return text
    try:
        # Join the lines so that the text cannot add keys.
        (found,) = _toml_loads(f"value = {' '.join(text.splitlines())}").values()
    except ValueError as error:
        raise DataError(
            f"`{text}` is not a valid TOML array: {error}", hints=('write it like `["first", "second"]`',)
        ) from error
    return list(found)


def _toml_loads(text: str) -> dict[str, Any]:
    """Parse TOML; errors are subclasses of ValueError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")  # Windows editors add a byte order mark
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise DataError(f"`{path}` is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise DataError(f"cannot read `{path}`: {error.strerror}") from error


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return _toml_loads(text)
    except ValueError as error:
        raise DataError(f"`{path}` is not valid TOML: {error}", hints=(f"fix `{path}`",)) from error


def _write(path: Path, text: str) -> None:
    home = _parse(path, text).get("home")
    # Group members need to read the shared home's file; a file elsewhere stays private.
    is_in_home = str(path.parent) == os.path.abspath(os.path.expanduser(os.environ.get("ROCENV_HOME") or "?"))
    is_shared = is_in_home and isinstance(home, dict) and home.get("shared") is True
    try:
        make_private(path.parent)
        _require_ours(path)
        write_atomic(path, text.encode(), 0o644 if is_shared else 0o600)
    except OSError as error:
        raise DataError(f"cannot write `{path}`: {error.strerror}") from error


def _require_ours(path: Path) -> None:
    """Raise DataError if another user owns the file: they could read a password or lose access."""
    owner = (path if path.exists() else path.parent).stat().st_uid
    if not WINDOWS and os.geteuid() not in (0, owner):
        raise DataError(
            f"`{path}` belongs to another user",
            hints=("ask them to change it, or set ROCENV_HOME to a folder of your own",),
        )


def _validated(path: Path, tables: dict[str, Any]) -> Config:
    for name, table in tables.items():
        if name not in KNOWN:
            raise DataError(
                f"unknown name `{name}` in `{path}`; expected one of "
                f"{', '.join(f'`{known}`' for known in KNOWN)}",
                hints=(f"rocenv config unset {_dotted(name)}",),
            )
        if not isinstance(table, dict):
            raise _wrong_type(path, (name,), "a table", table)
    for name, value in tables.get("defaults", {}).items():
        if not isinstance(value, (str, bool, int)):
            raise _wrong_type(path, ("defaults", name), "a string, a boolean or an integer", value)
    for folder, value in tables.get("trusted", {}).items():
        if not (isinstance(value, str) and _SHA256.fullmatch(value)):
            raise DataError(
                f"`{_dotted('trusted', folder)}` in `{path}` is not a sha256 hash",
                hints=("delete the line, then run `rocenv trust` again",),
            )
    mirrors = tables.get("mirrors", {}).items()
    return Config(
        mirrors=tuple((prefix, _addresses(path, prefix, value)) for prefix, value in mirrors),
        defaults=tables.get("defaults", {}),
        trusted=tables.get("trusted", {}),
        shared=_shared(path, tables.get("home", {})),
    )


def _shared(path: Path, table: dict[str, Any]) -> bool:
    for name in table:
        if name != "shared":
            unknown = _dotted("home", name)
            raise DataError(
                f"unknown name `{unknown}` in `{path}`; the only setting is `home.shared`",
                hints=(f"rocenv config unset {unknown}",),
            )
    value = table.get("shared", False)
    if not isinstance(value, bool):
        raise _wrong_type(path, ("home", "shared"), "a boolean", value)
    return value


def _addresses(path: Path, prefix: str, value: Any) -> tuple[str, ...]:
    key = ("mirrors", prefix)
    addresses = [value] if isinstance(value, str) else value
    if not isinstance(addresses, list):
        raise _wrong_type(path, key, "an array of strings", value)
    if not prefix or not addresses:
        raise DataError(
            f"`{_dotted(*key)}` in `{path}` is empty", hints=(f"rocenv config unset '{_dotted(*key)}'",)
        )
    for index, address in enumerate(addresses):
        if not isinstance(address, str):
            raise _wrong_type(path, key, "a string", address, f"[{index}]")
        if not address.startswith(("https://", "http://")):
            raise DataError(
                f"`{_dotted(*key)}` in `{path}`: `{address}` does not begin with `https://` or `http://`"
            )
        if "@" in address:
            _require_server(path, key, address)
    return tuple(addresses)


def _require_server(path: Path, key: Key, address: str) -> None:
    """Reject URLs if special characters obscure where a password ends; the error omits the URL."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(address)
        is_clear = bool(parts.hostname) and parts.port != 0 and parts.netloc.count("@") == 1
        is_clear = is_clear and not re.search(r"[\s\"'`<>]", parts.netloc)
    except ValueError:
        is_clear = False
    if not is_clear:
        raise DataError(
            f"`{_dotted(*key)}` in `{path}` is not a valid URL",
            hints=("percent-encode special characters in passwords: `@` is `%40`, `/` is `%2F`",),
        )


def _wrong_type(path: Path, key: Key, expected: str, value: Any, index: str = "") -> DataError:
    # The likely mistake is an unquoted version: `rocm = 5.7`.
    hints = (f'put quotes around it: `"{value}"`',) if isinstance(value, float) else ()
    found = type(value).__name__
    return DataError(f"`{_dotted(*key)}{index}` in `{path}` must be {expected}, not {found}", hints=hints)


def _dotted(*parts: str) -> str:
    import tomlkit  # imported here because `load` runs before every prompt and does not need it

    return tomlkit.key(list(parts)).as_string()
