"""What goes into a pack: the answers of a machine, without names and without what no check looks at."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv import __version__
from rocenv.doctor import pack_file
from rocenv.doctor.nameless import Nameless
from rocenv.doctor.pack_file import Copy, Manifest, Noted, Tried, error_name
from rocenv.doctor.people import names_to_hide, own_users
from rocenv.doctor.places import SYSTEM, Places, needed_rows, needed_variables
from rocenv.doctor.reduced import GPU_FILE, Reduced, log_words, private_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rocenv.data.rows import Matrix
    from rocenv.system.machine import Answers

# Variables that are there for a check that goes through all; one that it asks for by name always is.
_SHOWN = re.compile(
    r"(HIP_PATH|HSA_OVERRIDE_GFX_VERSION)(_[0-9]+)?|(ROCM|HIP)_(PATH|HOME)|(HIP|ROCR|CUDA)_VISIBLE_DEVICES"
    r"|ROCENV_(HOME|TARGET)|XDG_(CACHE|CONFIG|DATA)_HOME|OneDrive(Consumer|Commercial)?"
    r"|PROGRAMFILES|PATH|HOME|USER|LOGNAME|USERNAME|USERPROFILE|LD_LIBRARY_PATH|LD_PRELOAD|(LOCAL)?APPDATA|TEMP"
    r"|TMP|TMPDIR|SYSTEMROOT|LANG",
    re.IGNORECASE,
)
_SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_NOT_SECRET = re.compile(
    r"HIP_PATH(_[0-9]+)?|LongPathsEnabled|DisableRealtimeMonitoring|\w+\.dll", re.IGNORECASE
)
_FIXED = re.compile(r"/(?:sys|proc|dev|etc|usr|opt/rocm)(?:/|$)|/(?:windows|wsl)/")
_PATH = re.compile(r"(?<![\w:/\\.-])(?:/|[A-Za-z]:\\)[^\s:;,\"'`<>|()]+")
_REGISTRY = "/windows/registry.json"
_LONGEST = 8 << 20  # characters of one text
_MADE_HERE = "create"  # a whole command: whoever opens the pack would have to believe it


def shown(matrix: Matrix) -> Callable[[str], bool]:
    """Return what tells whether a variable is there for a check that goes through all."""
    known = {name for row in matrix.variable for name in re.findall(r"[A-Z][A-Z0-9_]{2,}", row.name)}
    known |= {row.change.name for row in matrix.environment} | {row.name for row in matrix.watched}
    return lambda name: bool(_SHOWN.fullmatch(name) or name in known) and not _SECRET.search(name)


def is_shown_row(path: str, name: str) -> bool:
    """Tell whether a value of a copy may be in a pack, by its name."""
    return path != _REGISTRY or bool(_NOT_SECRET.fullmatch(name))


@dataclass(frozen=True, slots=True)
class Hiding:
    """Takes out of the answers of one machine what is private."""

    answers: Answers
    home: str
    variables: dict[str, str]
    rows: dict[str, dict[str, object]]
    reduced: Reduced
    text: Callable[[str], str]


def hiding(answers: Answers, home: str, noted: Iterable[Noted] = (), envs: Iterable[str] = ()) -> Hiding:
    """Return what takes the private out of the answers of this machine.

    Args:
        answers: Of the machine.
        home: Where rocenv's own things lie.
        noted: What checks saw.
        envs: Their names.
    """
    variables = {
        name: value
        for name, value in needed_variables(answers, home, GPU_FILE).items()
        if not _SECRET.search(name) and name != "ROCENV_SYSROOT"
    }
    rows = {path: _needed_row(answers, path) for path in answers.rows}
    asked = (*answers.files, *answers.folders, *answers.opened, *answers.reached)
    fixed = {word for path in asked if _FIXED.match(path) for word in re.split(r"[^\w-]+", path) if word}
    keys = {part for key in rows.get(_REGISTRY, ()) for part in key.split("\\")}
    fixed = {word.casefold() for word in fixed | keys} | log_words()
    names = private_words(answers.files) | names_to_hide(os.environ)
    nameless = Nameless(names, fixed)
    paths = [*asked, home, *answers.real, *answers.real.values(), *(f"{home}/envs/{name}" for name in envs)]
    paths += (*_told_paths(answers, noted), *_paths(variables, rows, ";" if answers.windows else ":"))
    places = Places((path for path in paths if "/" in path or "\\" in path), names, fixed)

    def text(text: str) -> str:
        return nameless.text(places.text(text))

    real = answers.real | {home: home}
    return Hiding(answers, home, variables, rows, Reduced(own_users(os.environ), real, text), text)


def _paths(variables: dict[str, str], rows: dict[str, dict[str, object]], between: str) -> Iterable[str]:
    for value in variables.values():
        yield from (each.strip().strip('"') for each in value.split(between))
    for path, row in rows.items():
        if path != _REGISTRY:
            yield from row
        for each in row.values():
            if isinstance(each, dict):  # a key of the registry: values, and excluded folders by their names
                yield from each
                yield from filter(lambda value: isinstance(value, str), each.values())


def _told_paths(answers: Answers, noted: Iterable[Noted]) -> Iterable[str]:
    """Yield the paths of tries, those that the loader's settings name, and those in what checks saw."""
    yield from (about for _what, about in answers.tried)
    for path, (text, _error) in answers.files.items():
        if path.startswith("/etc/ld.so.conf"):
            yield from (line.strip() for line in text.splitlines() if line.startswith("/"))
    for each in noted:
        for text in (*each.values.values(), *each.evidence):
            yield from (path for path in _PATH.findall(text) if not SYSTEM.match(path))


def _needed_row(answers: Answers, path: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, row in needed_rows(answers, path, answers.rows[path]).items():
        if isinstance(row, dict) and "Exclusions" not in key:
            row = {name: value for name, value in row.items() if is_shown_row(path, str(name))}
        found[key] = row
    return found


def packed(hide: Hiding, platform: str, noted: Iterable[Noted]) -> tuple[Manifest, dict[str, str]]:
    """Return the manifest of a pack, and the texts by where they lie in it."""
    answers, text, reduced = hide.answers, hide.text, hide.reduced
    rows = {
        copy: json.dumps(row, indent=1, default=str, ensure_ascii=False) for copy, row in hide.rows.items()
    }
    read = {path: got for path, (got, error) in answers.files.items() if not error} | rows
    texts = {text(path): reduced.file(path, got[:_LONGEST]) for path, got in read.items()}
    places = pack_file.members(texts)
    failed = [(path, error) for path, (_, error) in answers.files.items() if error and path not in read]
    failed += [(path, error) for path, (_, error) in answers.folders.items() if error]
    manifest = Manifest(
        schema=pack_file.SCHEMA,
        rocenv=__version__,
        platform="windows" if platform == "windows" else "linux",
        home=text(hide.home),
        variables={name: text(value) for name, value in hide.variables.items()},
        files=tuple(Copy(path=path, member=places[path]) for path in sorted(texts)),
        errors={
            text(path): error_name(error) for path, error in sorted(failed) if error_name(error) != "ENOENT"
        },
        folders=_folders(hide),
        opened={text(path): error_name(error) for path, error in sorted(answers.opened.items())},
        reached={text(path): error_name(error) for path, error in sorted(answers.reached.items())},
        real={text(path): text(real) for path, real in sorted(answers.real.items())},
        tried=tuple(
            Tried(what=what, about=text(about), answer=text(json.dumps(answer, ensure_ascii=False)))
            for (what, about), answer in sorted(answers.tried.items())
        ),
        seen=tuple(_nameless(each, text) for each in noted),
    )
    return manifest, {places[path]: got for path, got in texts.items()}


def _folders(hide: Hiding) -> dict[str, tuple[str, ...]]:
    """Return the names in folders, as many as whoever opens the pack takes."""
    found: dict[str, tuple[str, ...]] = {}
    left = pack_file.MOST_NAMES
    for path, (names, error) in sorted(hide.answers.folders.items()):
        if not error and len(found) < pack_file.MOST_ROWS:
            found[hide.text(path)] = shown = hide.reduced.folder(path, names)[:left]
            left -= len(shown)
    return found


def _nameless(noted: Noted, text: Callable[[str], str]) -> Noted:
    return Noted(
        check=noted.check,
        tells=noted.tells,
        values={name: text(value) for name, value in noted.values.items() if name != _MADE_HERE},
        evidence=tuple(map(text, noted.evidence))[: pack_file.MOST_EVIDENCE],
        grave=noted.grave,
    )
