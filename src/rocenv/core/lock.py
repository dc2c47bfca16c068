"""Lock files, which list every artifact in a set so that any machine can build the same env.

Locks are untrusted: every name, path and hash is validated before use.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import DataError
from rocenv.core.foreign import parse_json, read_file
from rocenv.core.logins import shown
from rocenv.core.model import VENV, Lock, venv_layout
from rocenv.core.progress import sanitized

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from rocenv.core.model import Artifact, Component, EnvChange, Layout, Program

    Fault = tuple[str, str]  # subject and problem: "`../x`", "points outside the env"

LOCK_SCHEMA = 2
MAX_LOCK_BYTES = 16 << 20  # the largest real locks are about 200 kB
WRAPPERS = ("rocm-exec", "python3", "python")  # wrappers that an env with its own C library adds to its `bin`
_MAKE_ONE = ("use `rocenv lock` to write an env's lock",)
_FOLDERS = ("rocm", "zluda", VENV)  # folders in a prefix that can contain components
_NAMED_BY_PEOPLE = ("archive", "installer", "folder")
_NAME_BY_PEOPLE = re.compile("[A-Za-z0-9.+:~!_/ -]+")
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9.+:~!_-]*")  # cannot be mistaken for a command-line option
_PATTERN = re.compile(r"[*?\[]")
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_PYTHON = re.compile(r"([0-9]+(\.[0-9]+){1,2})?")
_GLIBC = re.compile(r"([0-9]+(\.[0-9]+)*)?")
_APP = re.compile("[A-Za-z0-9._+-]{0,64}")
_TARGET = re.compile("[A-Za-z0-9:+-]{0,64}")  # also used in file names
_PROGRAM = re.compile("[A-Za-z0-9_+][A-Za-z0-9._+-]*")
_LONGEST_PROGRAM = 128  # file names are limited to 255 bytes, and temporary files have longer names
# In bytes. Systems allow 255 for a name and 4096 for a path, which includes the env's own path.
_LONGEST_NAME, _LONGEST_PLACE = 255, 2048


def read_lock(path: Path) -> Lock:
    """Read and validate a lock file; raise DataError if it is invalid or unsafe to build."""
    try:
        return parse_lock(read_file(path, MAX_LOCK_BYTES), str(path))
    except OSError as error:
        raise DataError(f"cannot read the lock `{path}`: {error.strerror}", hints=_MAKE_ONE) from error


def parse_lock(content: bytes, where: str) -> Lock:
    """Parse and validate the content of a lock file, as `read_lock` does; errors mention `where`."""
    try:
        plain = parse_json(content, where)
    except DataError as error:
        hint = "copy the file again, or write it again with `rocenv lock` or `rocenv bundle`"
        raise DataError(f"{error.message}; it is neither a lock nor a bundle", hints=(hint,)) from error
    for text in _texts(plain):
        if not text.isprintable():
            fault = "contains a control or unprintable character"
            raise DataError(f"{text[:_LONGEST_NAME]!r} in `{where}` {fault}", hints=_MAKE_ONE)
    schema = plain.pop("schema", None) if isinstance(plain, dict) else None
    if isinstance(schema, int) and schema > LOCK_SCHEMA:
        raise DataError(
            f"a newer rocenv wrote the lock `{where}` (schema {schema}; this version reads {LOCK_SCHEMA})",
            hints=("upgrade rocenv", "or run the env's `rocenv create` command again"),
        )
    if schema not in (1, LOCK_SCHEMA):
        raise DataError(f"`{where}` is not a rocenv lock", hints=_MAKE_ONE)
    lock = from_plain(Lock, plain, where)
    if schema == 1:
        lock = from_schema_1(lock)
    for what, fault in _faults(lock):
        raise DataError(f"{what} in `{where}` {fault}", hints=_MAKE_ONE)
    return lock


def lock_text(lock: Lock) -> str:
    """Serialize a lock for any machine, without passwords in URLs; equal locks produce identical text.

    Remarks may quote servers and the user's rows; characters that `parse_lock` rejects are replaced.
    """
    cleaned = replace(
        lock,
        components=tuple(replace(part, why=_one_line(part.why)) for part in lock.components),
        warnings=tuple(map(_one_line, lock.warnings)),
        notes=tuple(map(_one_line, lock.notes)),
        local_notes=(),
    )
    plain = to_plain(cleaned)
    for part in plain["components"]:
        for artifact in part.get("artifacts", ()):
            artifact["url"] = shown(artifact["url"])
    return json.dumps({"schema": LOCK_SCHEMA, **plain}, indent=1) + "\n"


def _one_line(text: str) -> str:
    return sanitized(" ".join(text.split()))


def from_schema_1(lock: Lock) -> Lock:
    """Convert a schema 1 lock, in which paths are relative to the `rocm` folder."""
    parts = []
    for part in lock.components:
        if part.kind == "torch":
            part = replace(part, into=VENV, layout=venv_layout(part.python, lock.platform))
        else:
            layout = part.layout.below("rocm") if part.layout is not None else None
            part = replace(part, into=part.into or "rocm", layout=layout)
        parts.append(part)
    return replace(lock, components=tuple(parts))


def for_this_machine(lock: Lock, changes: Sequence[EnvChange], variables: Collection[str]) -> Lock:
    """Replace a lock's machine-specific variables with the ones that this machine needs.

    Args:
        lock: A lock from any machine.
        changes: The changes for this machine.
        variables: The names of all machine-specific variables.
    """
    kept = tuple(each for each in lock.environment if each.name not in variables or each.action != "set")
    dropped = [each.name for each in lock.environment if each not in kept]
    own = {change.name for change in changes}
    watched = tuple(name for name in dict.fromkeys((*lock.watched, *dropped)) if name not in own)
    return replace(lock, environment=(*kept, *changes), watched=watched, local_notes=())


def why_no_name(name: str) -> str:
    """Explain why an env's program cannot have this name, or return "" if it can."""
    if _PROGRAM.fullmatch(name) is None:
        return f"{name!r} is not a valid program name"
    if len(name) > _LONGEST_PROGRAM:
        return f"`{name[:20]}...` is not a valid program name: it has {len(name)} characters"
    if name in WRAPPERS:
        return f"`{name}` is a reserved program name: envs have a wrapper with that name"
    return ""


def _texts(plain: Any) -> Iterator[str]:
    """Yield all strings in parsed JSON."""
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, dict):
        yield from plain
        for each in plain.values():
            yield from _texts(each)
    elif isinstance(plain, list):
        for each in plain:
            yield from _texts(each)


def _faults(lock: Lock) -> Iterator[Fault]:
    programs = [each for part in lock.components if part.layout for each in part.layout.programs]
    yield from _faults_of_variables(lock, programs)
    yield from _faults_of_artifacts(lock)
    if _APP.fullmatch(lock.request.app) is None:
        yield f"`{lock.request.app}`", "is not a valid app name"
    for target in (lock.target, lock.runs_as, *lock.request.more_targets):
        if _TARGET.fullmatch(target) is None:
            yield repr(target), "is not a target"
    for program in programs:
        yield from _faults_of_program(program)
    for part in lock.components:
        yield from _faults_of_component(part)
    yield from _faults_of_venvs([part for part in lock.components if part.is_wheels])


def _faults_of_variables(lock: Lock, programs: Sequence[Program]) -> Iterator[Fault]:
    changed = (change.name for change in lock.environment)
    for name in (*changed, *lock.watched, *(name for each in programs for name in each.environment)):
        if _VARIABLE.fullmatch(name) is None:
            yield f"`{name}`", "is not a valid variable name"


def _faults_of_artifacts(lock: Lock) -> Iterator[Fault]:
    # Check every component's artifacts, because `lock.artifacts` omits duplicate hashes.
    for artifact in (each for part in lock.components for each in part.artifacts):
        if re.fullmatch("[0-9a-f]{64}", artifact.sha256) is None:
            yield f"the sha256 of `{artifact.name}`", f"is `{artifact.sha256}`"
        allowed = _NAME_BY_PEOPLE if artifact.kind in _NAMED_BY_PEOPLE else _NAME
        for text in (artifact.name, artifact.version):
            if allowed.fullmatch(text) is None:
                yield f"`{text}`", "is not a valid package name or version"
        if min(artifact.size_bytes, artifact.installed_bytes) < 0:
            yield f"the size of `{artifact.name}`", "is negative"
        if artifact.kind != "folder" and ".." in re.split(r"[/\\]", artifact.path):
            yield f"`{artifact.path}`", "points outside its repository"
        yield from _faults_of_package(artifact)


def _faults_of_package(artifact: Artifact) -> Iterator[Fault]:
    from rocenv.core.packages import is_named_right, wheel_file_name

    if artifact.kind not in ("wheel", "sdist"):
        return
    if not is_named_right(artifact):
        what = "wheel" if artifact.kind == "wheel" else "source archive"
        yield (
            f"the URL of `{artifact.name}`",
            f"ends in {wheel_file_name(artifact.url)!r}, which is not a valid {what} name for "
            f"{artifact.name} {artifact.version}",
        )
    if artifact.name.lower() == "pip":
        yield (
            f"`{artifact.name}`",
            "cannot be a wheel in a set, because envs use the pip that comes with their Python",
        )


def _faults_of_program(program: Program) -> Iterator[Fault]:
    for name in program.names:
        if fault := why_no_name(name):
            yield "a name", f"cannot be used: {fault}"
    if program.names and _PATTERN.search(program.path):
        yield f"`{program.path}`", "matches several programs, so it cannot be renamed"


def _faults_of_component(part: Component) -> Iterator[Fault]:
    if _PYTHON.fullmatch(part.python) is None:
        yield f"`{part.python}`", "is not a valid Python version"
    if _GLIBC.fullmatch(part.glibc) is None:
        yield repr(part.glibc), "is not a valid glibc version"
    # Without a folder, file paths would start with `/` and point outside the env.
    if (part.into or part.artifacts) and part.into.split("/")[0] not in _FOLDERS:
        yield f"`{part.into}`", "is not a valid component folder"
    inside = _layout_places(part.layout)
    for place in (*_other_places(part), *inside):
        yield from _faults_of_place(place)
    for place in inside:
        if place and not f"{place}/".startswith(f"{part.into}/"):
            yield f"`{place}`", f"is outside the component's folder `{part.into}`"


def _faults_of_venvs(parts: Sequence[Component]) -> Iterator[Fault]:
    for part in parts:
        if part.layout is None or not part.layout.site_packages:
            yield f"the component `{part.kind}`", "has wheels but no folder to install them into"
    venvs = {(part.into, part.python, part.layout and part.layout.site_packages): part for part in parts}
    if len(venvs) > 1:
        shown = (f"{part.kind} for Python {part.python} in `{part.into}`" for part in venvs.values())
        yield "the wheels", f"are for more than one venv: {', '.join(shown)}"


def _faults_of_place(place: str) -> Iterator[Fault]:
    if place.startswith("/") or ".." in place.split("/") or "\\" in place or ":" in place:
        yield f"`{place}`", "points outside the env"
    longest_name = max(len(name.encode()) for name in place.split("/"))
    if longest_name > _LONGEST_NAME or len(place.encode()) > _LONGEST_PLACE:
        yield f"`{place[:40]}...`", "is too long for a file path"


def _layout_places(layout: Layout | None) -> tuple[str, ...]:
    if layout is None:
        return ()
    return (
        layout.root,
        layout.bin,
        layout.device_libs,
        *layout.library_dirs,
        *(program.path for program in layout.programs),
        *layout.links,
        *layout.links.values(),
        *layout.names,
        *layout.names.values(),
        layout.python,
        layout.site_packages,
    )


def _other_places(part: Component) -> tuple[str, ...]:
    """List a component's file names, and its paths that are not relative to the prefix."""
    libraries = part.layout.libraries.values() if part.layout else ()
    places = (part.loader, part.into, part.anchor, *part.places.values(), *libraries)
    shims = part.shims
    if shims is None:
        return places
    files = (name for file in shims.files for name in (file.file, file.stands_for))
    return (*places, *shims.runtime, *shims.driver, *shims.behind, shims.original, *files)
