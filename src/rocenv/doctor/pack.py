"""Packs: what the examination of a machine reads, as one file for somebody else to examine.

A pack holds no names of people or machines and no serial numbers (`nameless`), of some files only what is
needed (`reduced`), and each text so that its owner can read it before sending it.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from rocenv import __version__
from rocenv.doctor import pack_file
from rocenv.doctor.nameless import Nameless
from rocenv.doctor.pack_file import Copy, Manifest, Noted, Tried, error_name, error_number
from rocenv.doctor.people import names_to_hide, own_users
from rocenv.doctor.reduced import Reduced, private_words
from rocenv.doctor.run import SEVERITIES, applying, look, told
from rocenv.doctor.scene import scene_of
from rocenv.doctor.seen import Seen
from rocenv.doctor.words import said
from rocenv.errors import RocenvError
from rocenv.home import Home
from rocenv.progress import size_text
from rocenv.system import WINDOWS
from rocenv.system.answers import Answers
from rocenv.system.command_lines import as_typed
from rocenv.system.machine import answering, environment, recording

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.doctor.checks import Check
    from rocenv.doctor.run import Finding
    from rocenv.doctor.scene import Scene
    from rocenv.language import Language
    from rocenv.matrix.rows import Matrix

# Variables that are there for a check that goes through all; one that it asks for by name always is.
_SHOWN = re.compile(
    r"(HIP|HSA|ROC|ROCR|AMD|GPU|CUDA|MIOPEN|ZLUDA|TORCH|PYTORCH|TENSILE|XDG|OneDrive|PROGRAMFILES)\w*|PATH|HOME|USER"
    r"|LOGNAME|USERNAME|USERPROFILE|LD_LIBRARY_PATH|LD_PRELOAD|(LOCAL)?APPDATA|TEMP|TMP|TMPDIR|SYSTEMROOT|LANG",
    re.IGNORECASE,
)
_SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_FIXED = re.compile(r"/(?:sys|proc|dev|etc|usr|opt/rocm)(?:/|$)|/windows/")
_LONGEST = 8 << 20  # characters of one text


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A pack that stands in for a machine."""

    home: Home  # where rocenv kept its things there
    rocenv: str  # the version that made it
    seen: tuple[Noted, ...]  # what the checks saw there


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What checks found, and in what."""

    scene: Scene
    findings: tuple[Finding, ...]
    checks: int


def collect(file: Path, home: Home, matrix: Matrix, language: Language) -> Examined:
    """Examine this machine, and write what was read for that to a file that is not there yet.

    Raises:
        RocenvError: The file is there, or cannot be written.
    """
    _require_new(file)
    noted: list[Noted] = []
    with recording(lambda name: bool(_SHOWN.fullmatch(name)) and not _SECRET.search(name)) as answers:
        scene = scene_of(home, matrix, environ=environment())
        checks = applying(scene)
        findings = look(scene, [_noting(check, noted) for check in checks], language)
    reduced, nameless = _hiding(answers, home)
    manifest, texts = _packed(answers, scene, reduced, nameless)
    manifest = replace(manifest, home=nameless.text(str(home.path)), seen=tuple(_nameless(noted, nameless)))
    readme = "\n".join(said("readme", each).format(count=len(texts)) for each in ("en", "zh"))
    try:
        pack_file.write(file, manifest, texts, readme)
    except FileExistsError:
        _require_new(file)
        raise
    except OSError as error:
        raise RocenvError(
            f"cannot write `{file}`: {error.strerror}",
            hints=("name a file in a folder of your own",),
            code="pack-unwritable",
        ) from error
    return Examined(scene=scene, findings=tuple(findings), checks=len(checks))


def about(file: Path, language: Language) -> tuple[str, ...]:
    """Return what to say of a pack to whoever may send it: what is in it, and how to look into it."""
    manifest, texts = pack_file.read(file)
    typed = as_typed(str(file))
    names = ", ".join(manifest.variables)
    command = f"tar -xOf {typed} | more" if WINDOWS else f"unzip -c {typed} | less"
    lines = [
        said("collected", language).format(file=file, size=size_text(file.stat().st_size), count=len(texts)),
        said("variables", language).format(names=names) if names else "",
        said("look", language).format(command=command),
        said("examine", language).format(command=f"rocenv doctor --from {typed}"),
    ]
    return tuple(filter(None, lines))


@contextmanager
def opened(file: Path) -> Iterator[Opened]:
    """Have a pack stand in for the machine.

    Raises:
        RocenvError: It is not there, or no pack.
    """
    manifest, texts = pack_file.read(file)
    is_windows = manifest.platform == "windows"
    answers = Answers(
        windows=is_windows,
        folders={path: (names, 0) for path, names in manifest.folders.items()},
        opened={path: error_number(name) for path, name in manifest.opened.items()},
        reached={path: error_number(name) for path, name in manifest.reached.items()},
        real=manifest.real,
        variables=manifest.variables,
        tried={(each.what, each.about): _answer(each.answer) for each in manifest.tried},
    )
    for path, name in manifest.errors.items():
        answers.folders.setdefault(path, ((), error_number(name)))
        answers.files[path] = ("", error_number(name))
    answers.files |= {path: (text, 0) for path, text in texts.items()}
    home: Any = (PureWindowsPath if is_windows else PurePosixPath)(manifest.home)
    with answering(answers):
        yield Opened(home=Home(Path(home)), rocenv=manifest.rocenv, seen=manifest.seen)


def examine(file: Path, matrix: Matrix, language: Language, names: Sequence[str] = ()) -> Examined:
    """Return what checks find on the machine of a pack, and what could be seen only there.

    Args:
        file: The pack.
        matrix: What is known.
        language: Of the texts.
        names: Of the checks that are wanted; () = all.

    Raises:
        RocenvError: There is no such file, it is no pack, or there is no such check.
    """
    with opened(file) as pack:
        scene = scene_of(pack.home, matrix, environ=environment())
        checks = applying(scene, names)
        found = {finding.check: finding for finding in look(scene, checks, language)}
        wanted = {check.name for check in checks}
        for noted in pack.seen:
            finding = _as_there(noted, scene, language) if noted.check in wanted else None
            # The machine itself told more than a copy can, where it is the same trouble.
            if finding and found.get(noted.check, finding).code == finding.code:
                found[noted.check] = finding
    findings = sorted(found.values(), key=lambda finding: SEVERITIES.index(finding.severity))
    return Examined(scene=scene, findings=tuple(findings), checks=len(checks))


def _as_there(noted: Noted, scene: Scene, language: Language) -> Finding | None:
    try:
        return told(noted.check, Seen(noted.tells, noted.values, noted.evidence), scene, language)
    except RocenvError:
        return None  # another version of rocenv saw it, and calls it something else


def _require_new(file: Path) -> None:
    if file.exists() or file.is_symlink():
        raise RocenvError(
            f"`{file}` is there already",
            hints=("name a file that is not there yet, or remove this one first",),
            code="pack-exists",
        )


def _noting(check: Check, noted: list[Noted]) -> Check:
    """Return a check that also notes what it sees."""

    def looked(scene: Scene) -> Seen | None:
        seen = check.look(scene)
        if seen is not None:
            values = {name: str(value) for name, value in seen.values.items()}
            noted.append(
                Noted(check=check.name, tells=seen.tells, values=values, evidence=tuple(seen.evidence))
            )
        return seen

    return replace(check, look=looked)


def _nameless(noted: list[Noted], nameless: Nameless) -> Iterator[Noted]:
    for each in noted:
        values = {name: nameless.text(value) for name, value in each.values.items()}
        yield replace(each, values=values, evidence=tuple(map(nameless.text, each.evidence)))


def _hiding(answers: Answers, home: Home) -> tuple[Reduced, Nameless]:
    asked = (*answers.files, *answers.folders, *answers.opened, *answers.reached)
    fixed = {word for path in asked if _FIXED.match(path) for word in re.split(r"[^\w-]+", path) if word}
    nameless = Nameless(private_words(answers.files) | names_to_hide(os.environ), fixed)
    real = answers.real | {str(home.path): str(home.path)}
    return Reduced(own_users(os.environ), real, nameless.text), nameless


def _packed(
    answers: Answers, scene: Scene, reduced: Reduced, nameless: Nameless
) -> tuple[Manifest, dict[str, str]]:
    """Return the answers without names: the manifest, and the texts by where they lie in the pack."""
    text = nameless.text
    rows = {copy: json.dumps(row, indent=1, default=str) for copy, row in answers.rows.items()}
    read = {path: got for path, (got, error) in answers.files.items() if not error} | rows
    shown = {text(path): reduced.file(path, got[:_LONGEST]) for path, got in read.items()}
    places = pack_file.members(shown)
    failed = [(path, error) for path, (_, error) in answers.files.items() if error and path not in read]
    failed += [(path, error) for path, (_, error) in answers.folders.items() if error]
    manifest = Manifest(
        schema=pack_file.SCHEMA,
        rocenv=__version__,
        platform="windows" if scene.platform == "windows" else "linux",
        home="",
        variables={
            name: text(value)
            for name, value in sorted(answers.variables.items())
            if not _SECRET.search(name) and name != "ROCENV_SYSROOT"
        },
        files=tuple(Copy(path=path, member=places[path]) for path in sorted(shown)),
        errors={
            text(path): error_name(error) for path, error in sorted(failed) if error_name(error) != "ENOENT"
        },
        folders={
            text(path): reduced.folder(path, names)
            for path, (names, error) in sorted(answers.folders.items())
            if not error
        },
        opened={text(path): error_name(error) for path, error in sorted(answers.opened.items())},
        reached={text(path): error_name(error) for path, error in sorted(answers.reached.items())},
        real={text(path): text(real) for path, real in sorted(answers.real.items())},
        tried=tuple(
            Tried(what=what, about=text(about), answer=text(json.dumps(answer)))
            for (what, about), answer in sorted(answers.tried.items())
        ),
    )
    return manifest, {places[path]: got for path, got in shown.items()}


def _answer(text: str) -> str | int | bool | None:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, (str, int)) else None
