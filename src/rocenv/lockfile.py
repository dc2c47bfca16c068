"""Locks as files: a set with every artifact, to build the same anywhere."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.activate.starters import why_no_name
from rocenv.core.codec import from_plain, load_json, to_plain
from rocenv.core.errors import DataError
from rocenv.core.model import VISIBLE, Lock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocenv.core.model import Artifact, Component, EnvChange, Program

LOCK_SCHEMA = 1
_FOLDERS = ("rocm", "zluda")
_BY_PEOPLE = ("archive", "installer", "folder")
_PATTERN = re.compile(r"[*?\[]")
# Bytes; systems take 255 and 4096, of which the env's own place is a part.
_LONGEST_NAME, _LONGEST_PLACE = 255, 2048


def read_lock(path: Path) -> Lock:
    """Return the set that a lock file names; raise DataError where it is none, or an unsafe one."""
    try:
        plain = load_json(path)
    except OSError as error:
        raise DataError(
            f"cannot read the lock `{path}`: {error.strerror}",
            hints=("make one: `rocenv lock NAME -o FILE`",),
        ) from error
    schema = plain.pop("schema", None) if isinstance(plain, dict) else None
    if isinstance(schema, int) and schema > LOCK_SCHEMA:
        raise DataError(
            f"the lock `{path}` is of a newer rocenv: it has schema {schema}, this one reads {LOCK_SCHEMA}",
            hints=("upgrade rocenv: `python -m pip install --upgrade rocenv`",),
        )
    if schema != LOCK_SCHEMA:
        raise DataError(
            f"`{path}` is no lock that rocenv has written", hints=("make one: `rocenv lock NAME -o FILE`",)
        )
    lock = from_plain(Lock, plain, str(path))
    _check_names(lock, path)
    return lock


def _check_names(lock: Lock, path: Path) -> None:
    """Raise DataError for names that would be more than names: a lock may come from anywhere."""
    programs = [each for part in lock.components if part.layout for each in part.layout.programs]
    set_by = [name for each in programs for name in each.environment]
    for variable in (*(change.name for change in lock.environment), *lock.watched, *set_by):
        if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", variable) is None:
            raise DataError(f"`{variable}` in `{path}` cannot be the name of a variable")
    for artifact in artifacts_of(lock):
        if re.fullmatch("[0-9a-f]{64}", artifact.sha256) is None:
            raise DataError(f"the sha256 of `{artifact.name}` in `{path}` is `{artifact.sha256}`")
        # Archives have names that people gave them.
        allowed = "[A-Za-z0-9.+:~!_/ -]+" if artifact.kind in _BY_PEOPLE else "[A-Za-z0-9.+:~!_-]+"
        for text in (artifact.name, artifact.version):
            if re.fullmatch(allowed, text) is None:
                raise DataError(f"`{text}` in `{path}` is no name or version of a package")
    _check_parts(lock, path)
    _check_programs(lock, programs, path)
    for place in [place for component in lock.components for place in _places(component)]:
        _require_printable(place, path)
        if place.startswith("/") or ".." in place.split("/") or "\\" in place or ":" in place:
            raise DataError(f"`{place}` in `{path}` leads out of the env")
        longest_name = max(len(name.encode()) for name in place.split("/"))
        if longest_name > _LONGEST_NAME or len(place.encode()) > _LONGEST_PLACE:
            raise DataError(f"`{place[:40]}...` in `{path}` is longer than the path of a file can be")


def _check_parts(lock: Lock, path: Path) -> None:
    for component in lock.components:
        if re.fullmatch(r"[0-9]+(\.[0-9]+){1,2}|", component.python) is None:
            raise DataError(f"`{component.python}` in `{path}` is no version of Python")
        if component.into and component.into.split("/")[0] not in _FOLDERS:
            raise DataError(f"`{component.into}` in `{path}` is no place for a part of a set")


def _check_programs(lock: Lock, programs: Sequence[Program], path: Path) -> None:
    if re.fullmatch("[A-Za-z0-9._+-]{0,64}", lock.request.app) is None:
        raise DataError(f"`{lock.request.app}` in `{path}` is no name of an app")
    for program in programs:
        for name in program.names:
            if fault := why_no_name(name):
                raise DataError(f"in `{path}`: {fault}")
        if program.names and _PATTERN.search(program.path):
            raise DataError(f"`{program.path}` in `{path}` may be several programs, and has a name for one")
        for text in (*program.environment.values(), *program.arguments, program.not_before):
            _require_printable(text, path)


def _require_printable(text: str, path: Path) -> None:
    if not text.isprintable():
        raise DataError(f"{text!r} in `{path}` holds a control character, or one that cannot be shown")


def _places(component: Component) -> list[str]:
    layout, shims = component.layout, component.shims
    named = [component.loader, component.into, component.anchor, *component.places.values()]
    if shims is not None:
        named += [*shims.runtime, *shims.driver, *shims.behind, shims.original]
        named += [name for file in shims.files for name in (file.file, file.stands_for)]
    if layout is not None:
        named += [
            layout.root,
            layout.bin,
            layout.device_libs,
            *layout.library_dirs,
            *layout.libraries.values(),
            *(program.path for program in layout.programs),
            *layout.links,
            *layout.links.values(),
        ]
    return named


def lock_text(lock: Lock) -> str:
    """Return the text of a lock file; the same lock gives the same text."""
    return json.dumps({"schema": LOCK_SCHEMA, **to_plain(lock)}, indent=1) + "\n"


def on_this_machine(lock: Lock, changes: Sequence[EnvChange]) -> Lock:
    """Return a lock with what this machine needs in the environment, not what the one it comes from did."""
    kept = tuple(change for change in lock.environment if change.name != VISIBLE or change.action != "set")
    dropped = (VISIBLE,) if kept != lock.environment else ()
    own = {change.name for change in changes}
    watched = tuple(name for name in dict.fromkeys((*lock.watched, *dropped)) if name not in own)
    return replace(lock, environment=(*kept, *changes), watched=watched)


def artifacts_of(lock: Lock) -> tuple[Artifact, ...]:
    """Return every file of a set once."""
    by_hash = {artifact.sha256: artifact for part in lock.components for artifact in part.artifacts}
    return tuple(by_hash.values())
