"""Packs: what the examination of a machine reads, as one file for somebody else to examine.

A pack holds no names of people or machines and no serial numbers (`nameless`), of some files only what is
needed (`reduced`), and each text so that its owner can read it before sending it.
"""

from __future__ import annotations

import contextlib
import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import DataError, RocenvError
from rocenv.core.foreign import parse_json
from rocenv.core.progress import size_text
from rocenv.doctor import pack_file
from rocenv.doctor.pack_file import Noted, error_number
from rocenv.doctor.packing import hiding, packed, shown
from rocenv.doctor.run import SEVERITIES, applying, look, told
from rocenv.doctor.scene import scene_of
from rocenv.doctor.seen import Seen, all_of
from rocenv.doctor.words import said
from rocenv.home import Home
from rocenv.host.gpu import printable
from rocenv.system import WINDOWS
from rocenv.system.machine import Answers, answering, environment, recording
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rocenv.core.language import Language
    from rocenv.data.rows import Matrix
    from rocenv.doctor.checks import Check
    from rocenv.doctor.run import Finding
    from rocenv.doctor.scene import Scene
    from rocenv.doctor.seen import Found

_ROWS = ("/windows/registry.json", "/windows/folders.json", "/windows/system32.json")
_MOST_SEEN = 10  # of one check
_MOST_VALUE = 500  # characters
# What a check noted may not say: a command would be anybody's, and the platform is known.
_NOT_NOTED = frozenset({"create", "platform"})


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


def collect(
    file: Path, home: Home, matrix: Matrix, language: Language, names: Sequence[str] = ()
) -> Examined:
    """Examine this machine, and write what was read for that to a file that is not there yet.

    Args:
        file: Where to.
        home: Whose envs are meant.
        matrix: What is known.
        language: Of the texts.
        names: Of the checks that are wanted; () = all.

    Raises:
        RocenvError: The file is there, or cannot be written, or there is no such check.
    """
    require_new(file)
    noted: list[Noted] = []
    with recording(shown(matrix)) as answers:
        scene = scene_of(home, matrix, environ=environment())
        checks = applying(scene, names)
        findings = look(scene, [_noting(check, noted) for check in checks], language)
    hide = hiding(answers, str(home.path), noted, [env.name for env in scene.envs])
    manifest, texts = packed(hide, scene.platform, noted)
    readme = "\n".join(said("readme", each).format(count=len(texts)) for each in ("en", "zh"))
    try:
        pack_file.write(file, manifest, texts, readme)
    except FileExistsError:
        require_new(file)
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
    typed = shell_join(str(file))
    names = ", ".join(manifest.variables)
    command = f"tar -xOf {typed} | more" if WINDOWS else f"unzip -c {typed} | less"
    lines = [
        said("collected", language).format(file=file, size=size_text(file.stat().st_size), count=len(texts)),
        said("variables", language).format(names=names) if names else "",
        *_told_of_rows(texts, language),
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
        here, there = (
            _by_check(look(scene, checks, language)),
            _by_check(_told_there(pack, checks, scene, language)),
        )
        for check in (check.name for check in checks if check.name in there):
            # The machine itself told more than a copy can, where it is the same trouble.
            if {each.code for each in there[check]} >= {each.code for each in here.get(check, ())}:
                here[check] = there[check]
    findings = [finding for of_check in here.values() for finding in of_check]
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return Examined(scene=scene, findings=tuple(findings), checks=len(checks))


def _by_check(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.check, []).append(finding)
    return found


def _told_there(pack: Opened, checks: Sequence[Check], scene: Scene, language: Language) -> Iterator[Finding]:
    """Yield what the checks saw on the machine, as far as it is something that they can see."""
    for check in checks:
        noted = [each for each in pack.seen if each.check == check.name][:_MOST_SEEN]
        rows = {row.name for row in scene.matrix.advice if check.name in row.told_by and not check.of_env}
        for each in noted:
            if each.tells in rows:
                values = {name: value[:_MOST_VALUE] for name, value in each.values.items()}
                values = {name: value for name, value in values.items() if name not in _NOT_NOTED}
                seen = Seen(each.tells, values, each.evidence, each.grave)
                with contextlib.suppress(RocenvError):  # another version of rocenv saw it
                    yield told(check.name, seen, scene, language)


def _told_of_rows(texts: Mapping[str, str], language: Language) -> Iterator[str]:
    """Yield what of Windows' registry and folders is in a pack."""
    for path in _ROWS:
        with contextlib.suppress(DataError, AttributeError):
            rows: dict[str, Any] = parse_json(texts.get(path, "{}"), path)
            names = [_row_name(key, row) for key, row in rows.items() if row]
            if names:
                file = path.rpartition("/")[2]
                yield said("rows", language).format(file=file, names="; ".join(map(printable, names)))


def _row_name(key: str, row: object) -> str:
    names = map(str, row) if isinstance(row, dict) else ()
    return ": ".join(filter(None, (key.rpartition("\\")[2], ", ".join(names)))) if names else key


def require_new(file: Path) -> None:
    """Raise RocenvError where something has the name of a file that is to be written."""
    if os.path.lexists(file):
        raise RocenvError(
            f"`{file}` is there already",
            hints=("name a file that is not there yet, or remove this one first",),
            code="pack-exists",
        )


def _noting(check: Check, noted: list[Noted]) -> Check:
    """Return a check that also notes what it sees."""

    def looked(scene: Scene) -> Found:
        found = check.look(scene)
        for seen in all_of(found):
            values = {name: str(value) for name, value in seen.values.items()}
            evidence = tuple(seen.evidence)
            noted.append(
                Noted(check=check.name, tells=seen.tells, values=values, evidence=evidence, grave=seen.grave)
            )
        return found

    return replace(check, look=looked)


def _answer(text: str) -> str | int | bool | None:
    try:
        answer = parse_json(text, "answer")
    except DataError:
        return None
    return answer if isinstance(answer, (str, int)) else None
