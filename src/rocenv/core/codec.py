"""The values of `model` as JSON and back: what records, locks and manifests are written with.

Reading is strict: a missing key, an unknown key or a wrong type is a DataError that names the file and the
key path, so a damaged or foreign file is never half understood.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from rocenv.core.errors import DataError
from rocenv.core.model import RungResult, Verification

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return a value of `model` as dicts, lists, strings and numbers, without fields at their default."""
    if is_dataclass(value) and not isinstance(value, type):
        plain = {}
        for item in fields(value):
            content = getattr(value, item.name)
            default = item.default_factory() if item.default_factory is not MISSING else item.default
            if content != default:
                plain[item.name] = to_plain(content)
        return plain
    if isinstance(value, dict):
        return {key: to_plain(content) for key, content in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(content) for content in value]
    return value


def from_plain(kind: type[T], plain: Any, where: str) -> T:
    """Return the value of type `kind` that `plain` describes.

    Args:
        kind: A dataclass of `model`.
        plain: What `json.loads` or a TOML reader returned.
        where: File name, for messages.

    Raises:
        DataError: Names `where` and the key path of the first thing that is wrong.
    """
    result: T = _read(kind, plain, where, "")
    return result


def load_json(path: Path) -> Any:
    """Return the content of a JSON file; raise DataError where it is none, and OSError where it is absent."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"`{path}` is not valid JSON: {error}") from error


def _read(kind: Any, plain: Any, where: str, key: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _read_object(kind, plain, where, key)
    if origin is tuple:
        _require(plain, list, where, key)
        return tuple(_read(arguments[0], item, where, f"{key}[{i}]") for i, item in enumerate(plain))
    if origin is dict:
        _require(plain, dict, where, key)
        return {name: _read(arguments[1], item, where, f"{key}.{name}") for name, item in plain.items()}
    if origin is Literal:
        if plain not in arguments:
            raise DataError(f"`{key}` in `{where}` is {plain!r}, not one of {', '.join(map(str, arguments))}")
        return plain
    if arguments and type(None) in arguments:
        inner = next(argument for argument in arguments if argument is not type(None))
        return None if plain is None else _read(inner, plain, where, key)
    if kind is float and type(plain) is int:
        return float(plain)
    _require(plain, kind, where, key)
    return plain


def _read_object(kind: Any, plain: Any, where: str, key: str) -> Any:
    _require(plain, dict, where, key)
    hints = _hints(kind)
    for name in plain:
        if name not in hints:
            raise DataError(f"unknown key `{_join(key, name)}` in `{where}`")
    values = {}
    for item in fields(kind):
        if item.name in plain:
            values[item.name] = _read(hints[item.name], plain[item.name], where, _join(key, item.name))
        elif item.default is MISSING and item.default_factory is MISSING:
            raise DataError(f"key `{_join(key, item.name)}` is missing in `{where}`")
    return kind(**values)


_known_hints: dict[Any, Mapping[str, Any]] = {}


def _hints(kind: Any) -> Mapping[str, Any]:
    if kind not in _known_hints:
        _known_hints[kind] = get_type_hints(kind)
    return _known_hints[kind]


def _require(plain: Any, kind: type, where: str, key: str) -> None:
    if type(plain) is not kind:
        at = f"`{key}` in `{where}`" if key else f"`{where}`"
        raise DataError(f"{at} is a {type(plain).__name__}, not a {kind.__name__}")


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def verification_to_plain(verification: Verification) -> dict[str, Any]:
    """The JSON form of a verification, as `verify --json` prints it."""
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
    """The content of `verified.json`."""
    plain = {"schema": 1, "when": verification.when, **verification_to_plain(verification)}
    return json.dumps(plain, indent=1).encode()


def verification_from_plain(plain: Any) -> Verification:
    """Read the content of `verified.json`; raises KeyError, TypeError or ValueError for anything else."""
    results = tuple(
        RungResult(
            rung=str(row["rung"]),
            status=row["status"],
            elapsed_s=float(row.get("elapsed_s", 0.0)),
            detail=str(row.get("detail", "")),
            exit_code=row.get("exit_code"),
            no_device=bool(row.get("no_device")),
            findings=tuple(row.get("findings", ())),
        )
        for row in plain["rungs"]
    )
    if not results:
        raise ValueError("no rung ran")
    when = plain.get("when", "")
    if when:
        datetime.datetime.fromisoformat(when)
    return Verification(
        env=str(plain.get("env", "")),
        target=str(plain.get("target", "")),
        results=results,
        advice=tuple(plain.get("advice", ())),
        when=when,
    )
