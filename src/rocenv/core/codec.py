"""Convert structs to and from plain values: records, locks, manifests and data rows.

Reading is strict: a missing key, an unknown key or a wrong type raises DataError with the file and the key
path. Nothing is coerced, so a damaged or unrelated file is never partly accepted.
"""

from __future__ import annotations

import datetime
import json
import re
from functools import cache
from typing import Any, TypeVar

import msgspec

from rocenv.core.errors import DataError
from rocenv.core.model import RungResult, Verification

T = TypeVar("T")

_MISSING = re.compile(r"Object missing required field `(\w+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`")


def to_plain(value: Any) -> Any:
    """Convert a value to dicts, lists, strings and numbers; omit fields that have their default value."""
    if isinstance(value, msgspec.Struct):
        contents = ((name, getattr(value, name), default) for name, default in _defaults(type(value)).items())
        return {name: to_plain(content) for name, content, default in contents if content != default}
    if isinstance(value, dict):
        return {key: to_plain(content) for key, content in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(content) for content in value]
    return value


def from_plain(kind: type[T], plain: Any, where: str) -> T:
    """Build a struct from parsed JSON or TOML.

    Raises:
        DataError: The data is invalid; the message contains the file (`where`) and the key path of the first
            mistake.
    """
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise DataError(_message(kind, str(error), where)) from None


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Map each field of a struct to its default."""
    items = msgspec.structs.fields(kind)
    none = msgspec.NODEFAULT
    return {
        item.name: item.default if item.default_factory is none else item.default_factory() for item in items
    }


def _message(kind: type, error: str, where: str) -> str:
    """Reword a `msgspec` error, which ends with the key path: "… - at `$.assets[0].name`"."""
    # Untrusted keys and values must not add lines to the message.
    error = "".join(each if each.isprintable() else repr(each)[1:-1] for each in error)
    what, _, path = error.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    if missing := _MISSING.fullmatch(what):
        return f"key `{_join(path, missing[1])}` is missing in `{where}`"
    if unknown := _UNKNOWN.fullmatch(what):
        return f"unknown key `{_join(path, unknown[1])}` in `{where}`"
    place = f"`{path}` in `{where}`" if path else f"`{where}`"
    if what.startswith("Invalid enum value "):
        return f"{place} is {what.removeprefix('Invalid enum value ')}, not one of {_allowed(kind, path)}"
    return f"{place}: {what[0].lower()}{what[1:]}"


def _allowed(kind: type, path: str) -> str:
    """List the values allowed by the Literal at `path`."""
    info: Any = msgspec.inspect.type_info(kind)
    for name, number in re.findall(r"([A-Za-z_]\w*)|\[(\d+|\.+)\]", path):
        if isinstance(info, msgspec.inspect.UnionType):
            info = next(each for each in info.types if not isinstance(each, msgspec.inspect.NoneType))
        if name:
            info = next(item.type for item in info.fields if item.name == name)
        elif isinstance(info, msgspec.inspect.TupleType):
            info = info.item_types[int(number)]
        else:
            info = info.value_type if isinstance(info, msgspec.inspect.DictType) else info.item_type
    return ", ".join(map(str, info.values))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def verification_to_plain(verification: Verification) -> dict[str, Any]:
    """Convert a verification to the JSON that `verify --json` prints."""
    rungs = [
        {
            "rung": result.rung,
            "status": result.status,
            "elapsed_s": round(result.elapsed_s, 3),
            "detail": result.detail,
            "exit_code": result.exit_code,
            "no_device": result.no_device,
            "findings": list(result.findings),
        }
        for result in verification.results
    ]
    return {
        "env": verification.env,
        "target": verification.target,
        "level": verification.level,
        "advice": list(verification.advice),
        "rungs": rungs,
    }


def verification_file(verification: Verification) -> bytes:
    """Encode a verification for `verified.json`."""
    plain = {"schema": 1, "when": verification.when, **verification_to_plain(verification)}
    return json.dumps(plain, indent=1).encode()


def verification_from_plain(plain: Any, where: str) -> Verification:
    """Decode `verified.json`; an invalid file raises KeyError, TypeError, ValueError or DataError."""
    # A newer rocenv version might have written additional keys.
    kept = {name: plain[name] for name in Verification.__struct_fields__ if name in plain}
    rungs = [
        {name: rung[name] for name in RungResult.__struct_fields__ if name in rung} for rung in plain["rungs"]
    ]
    found = from_plain(Verification, {**kept, "results": rungs}, where)
    if not found.results:
        raise DataError(f"`{where}` does not contain any rungs")
    if found.when:
        datetime.datetime.fromisoformat(found.when)
    return found
