"""`config.toml`: the one file of settings; read strictly, edited so that its comments stay.

It holds `[mirrors]` (address prefix -> prefixes to try before it, in order), `[defaults]` and `[trusted]`
(folder -> hash of the `.rocenv` in it).
An unknown name or a wrong type is an error that names file and key: a setting that is silently passed over
looks like one that does not work.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import DataError
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KNOWN = ("mirrors", "defaults", "trusted")

Mirrors = tuple[tuple[str, tuple[str, ...]], ...]

# A dotted key as TOML has it: whl.rocm, a."b.c", 'd.e'
_KEY_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED_KEY = re.compile(rf"{_KEY_PART}(?:\s*\.\s*{_KEY_PART})*")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the user settled once for all commands."""

    mirrors: Mirrors = ()  # prefix -> prefixes, in the order of the file
    defaults: Mapping[str, str | bool | int] = field(default_factory=dict)  # option of `create` -> value
    trusted: Mapping[str, str] = field(default_factory=dict)  # see `rocenv.trust`


def load(path: Path) -> Config:
    """Return the settings of `path`; an absent file is an empty one.

    Raises:
        DataError: Broken TOML (with the line), an unknown name, or a value of the wrong type.
    """
    return _validated(path, _parse(path, _text(path)))


def lookup(path: Path, key: str) -> Any:
    """Return the value at a dotted key, a table as a dict; None where nothing is set."""
    found: Any = _parse(path, _text(path))
    for part in parse_key(key):
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return found


def assign(path: Path, key: str, value: str) -> None:
    """Set a dotted key to a value as typed (see `parse_value`); what else the file holds stays as it is.

    The file is left alone if the result would not be valid.
    """
    put(path, parse_key(key), parse_value(value))


def put(path: Path, key: tuple[str, ...], value: str | bool | int | list[Any]) -> None:
    """Set the key of these parts, as `assign` does."""
    import tomlkit

    *tables, last = key
    text = _text(path)
    _parse(path, text)
    document: Any = tomlkit.parse(text)
    table = document
    for part in tables:
        if part not in table:
            table[part] = tomlkit.table()
        table = table[part]
        if not isinstance(table, dict):
            whole = _dotted(*key)
            raise DataError(f"`{part}` in `{path}` is a value and no table, so `{whole}` cannot be set")
    table[last] = value
    result = document.as_string()
    _validated(path, _parse(path, result))
    _write(path, result)


def unset(path: Path, key: str) -> bool:
    """Remove a dotted key and tell whether it was there; works on invalid settings too, to mend them."""
    return take_out(path, parse_key(key))


def take_out(path: Path, key: tuple[str, ...]) -> bool:
    """Remove the key of these parts, as `unset` does."""
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


def parse_key(text: str) -> tuple[str, ...]:
    """Return the parts of a dotted key, written as in TOML: `defaults.rocm`, `mirrors."https://…/"`.

    Since addresses hold dots, what follows `mirrors.` without quotes is one part as it stands.
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
            f"`{text}` is not a key", hints=("keys look like `defaults.rocm` or `mirrors.https://host/`",)
        ) from error
    parts: list[str] = []
    while isinstance(found, dict):
        ((part, found),) = found.items()
        parts.append(part)
    return tuple(parts)


def parse_value(text: str) -> str | bool | int | list[Any]:
    """Return what a value on the command line means: `true`, `false`, an integer, a TOML array, else text."""
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    if not text.startswith("["):
        return text
    try:
        # In one line, so that the text cannot bring keys of its own.
        (found,) = _toml_loads(f"value = {' '.join(text.splitlines())}").values()
    except ValueError as error:
        raise DataError(
            f"`{text}` is not a TOML array: {error}", hints=('write it like `["first", "second"]`',)
        ) from error
    return list(found)


def _toml_loads(text: str) -> dict[str, Any]:
    """Parse TOML; TOMLDecodeError is a ValueError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")  # Windows editors put a byte order mark in front
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
        raise DataError(f"`{path}` is not valid TOML: {error}", hints=(f"correct `{path}`",)) from error


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text.encode())
    except OSError as error:
        raise DataError(f"cannot write `{path}`: {error.strerror}") from error


def _validated(path: Path, tables: dict[str, Any]) -> Config:
    for name in tables:
        if name not in KNOWN:
            raise DataError(
                f"unknown name `{name}` in `{path}`, known are {', '.join(f'`{known}`' for known in KNOWN)}",
                hints=(f"rocenv config unset {_dotted(name)}",),
            )
    mirrors = _table(path, tables, "mirrors").items()
    return Config(
        mirrors=tuple((prefix, _addresses(path, prefix, value)) for prefix, value in mirrors),
        defaults={
            name: _default(path, name, value) for name, value in _table(path, tables, "defaults").items()
        },
        trusted={
            folder: _sha256(path, folder, value) for folder, value in _table(path, tables, "trusted").items()
        },
    )


def _table(path: Path, tables: dict[str, Any], name: str) -> dict[str, Any]:
    value = tables.get(name, {})
    if not isinstance(value, dict):
        raise _wrong(path, name, "a table", value)
    return value


def _addresses(path: Path, prefix: str, value: Any) -> tuple[str, ...]:
    addresses = (value,) if isinstance(value, str) else _strings(path, ("mirrors", prefix), value)
    if not prefix or not addresses:
        key = _dotted("mirrors", prefix)
        raise DataError(f"`{key}` in `{path}` is empty", hints=(f"rocenv config unset '{key}'",))
    for address in addresses:
        if not address.startswith(("https://", "http://")):
            raise DataError(
                f"`{_dotted('mirrors', prefix)}` in `{path}`: `{address}` does not begin with `https://` or "
                "`http://`"
            )
    return addresses


def _default(path: Path, name: str, value: Any) -> str | bool | int:
    if isinstance(value, (str, bool, int)):
        return value
    raise _wrong(path, _dotted("defaults", name), "a string, a boolean or an integer", value)


def _sha256(path: Path, folder: str, value: Any) -> str:
    if isinstance(value, str) and _SHA256.fullmatch(value):
        return value
    raise DataError(
        f"`{_dotted('trusted', folder)}` in `{path}` is no sha256 of a file",
        hints=("take the line out; `rocenv trust` writes it anew",),
    )


def _strings(path: Path, key: tuple[str, ...], value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _wrong(path, _dotted(*key), "an array of strings", value)
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise _wrong(path, f"{_dotted(*key)}[{index}]", "a string", item)
    return tuple(value)


def _wrong(path: Path, key: str, expected: str, value: Any) -> DataError:
    # A version without quotes, `rocm = 5.7`, is the mistake to expect.
    hints = (f'put quotes around it: `"{value}"`',) if isinstance(value, float) else ()
    return DataError(f"`{key}` in `{path}` must be {expected}, not {type(value).__name__}", hints=hints)


def _dotted(*parts: str) -> str:
    import tomlkit  # here alone: `load` is in the way of every prompt, and has no use for it

    return tomlkit.key(list(parts)).as_string()
