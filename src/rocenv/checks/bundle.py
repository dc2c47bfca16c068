"""Support bundles: JSON files with the facts that checks need, for examining a machine elsewhere.

A bundle contains the files and values that `bundle_fields` allows, and the checks' observations, redacted.
Code that reads a bundle does not trust anything in it, including its size, names and numbers.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Literal

from msgspec import field

from rocenv import __version__
from rocenv.checks import bundle_fields
from rocenv.checks.context import examine_machine
from rocenv.checks.redact import Redactor
from rocenv.checks.run import checks_for, observe, render_in, run
from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import DataError, RocenvError
from rocenv.core.foreign import open_regular, parse_json
from rocenv.core.model import Value
from rocenv.findings import SEVERITIES, Observation, worst_first
from rocenv.home import Home
from rocenv.prefix import all_prefixes
from rocenv.system.machine import Answers, answering, environment, recording
from rocenv.system.private import open_own

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.checks.context import CheckContext
    from rocenv.core.language import Language
    from rocenv.data.rows import Matrix
    from rocenv.findings import Finding

SCHEMA = 2
_MAX_BYTES = 16 << 20
_MAX_ROWS = 5000  # per table
_MAX_NAMES = 20_000  # in all folders
_MAX_EVIDENCE = 50
_MAX_OBSERVED = 10  # per check
_MAX_VALUE = 500  # characters
_HINTS = ("rocenv doctor --collect bundle.json   # on the affected machine, to create a new bundle",)


class Attempt(Value, frozen=True, kw_only=True):
    """The result of an operation that works only on the machine itself."""

    what: str
    about: str
    answer: str | int | bool | None


class BundledObservation(Value, frozen=True, kw_only=True):
    """An `Observation` in a bundle."""

    check: str
    row: str
    values: dict[str, str] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    severity: str = ""


class Bundle(Value, frozen=True, kw_only=True):
    """The contents of a bundle; errors are names from errno.h, or "" for success."""

    schema: int
    rocenv: str
    platform: Literal["linux", "windows"]
    variables: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # path -> text
    errors: dict[str, str] = field(default_factory=dict)  # for files and folders that could not be read
    folders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    opened: dict[str, str] = field(default_factory=dict)
    reached: dict[str, str] = field(default_factory=dict)
    tried: tuple[Attempt, ...] = ()
    observed: tuple[BundledObservation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The findings, and the context and bundle from which they come."""

    context: CheckContext
    findings: tuple[Finding, ...]
    checks: int
    bundle: Bundle


def collect(
    file: Path, home: Home, matrix: Matrix, language: Language, names: Sequence[str] = ()
) -> Examined:
    """Examine this machine with all checks or those in `names`, and write a bundle to a new file.

    Raises:
        RocenvError: The file exists or cannot be written, or there is no such check.
    """
    require_new(file)
    with recording(lambda _name: True) as answers:
        context = examine_machine(home, matrix, environ=environment())
        checks = checks_for(context, names)
        observed = [(check.name, each) for check in checks for each in observe(check, context)]
    findings = worst_first(render_in(context, check, each, language) for check, each in observed)
    envs = {prefix.name: "ENV" for prefix in all_prefixes(home)}
    redact = Redactor(envs).text
    kept = bundle_fields.allowed(answers)
    errors = {path: error for path, (_, error) in (*kept.files.items(), *kept.folders.items()) if error}
    bundle = Bundle(
        schema=SCHEMA,
        rocenv=__version__,
        platform="windows" if context.platform == "windows" else "linux",
        variables=kept.variables,
        files={
            path: redact(text) if path in bundle_fields.FREE_TEXTS else text
            for path, (text, error) in kept.files.items()
            if not error
        },
        errors=_names(errors),
        folders={path: names for path, (names, error) in kept.folders.items() if not error},
        opened=_names(kept.opened),
        reached=_names(kept.reached),
        tried=tuple(
            Attempt(what=what, about=about, answer=answer) for (what, about), answer in kept.tried.items()
        ),
        observed=tuple(
            BundledObservation(
                check=check,
                row=each.row,
                values={name: redact(value) for name, value in each.values.items()},
                evidence=tuple(map(redact, each.evidence[:_MAX_EVIDENCE])),
                severity=each.severity,
            )
            for check, each in observed
        ),
    )
    _write(file, bundle)
    return Examined(context=context, findings=tuple(findings), checks=len(checks), bundle=bundle)


def examine(file: Path, matrix: Matrix, language: Language, names: Sequence[str] = ()) -> Examined:
    """Run all checks or those in `names` on a bundle; observations from the machine take precedence.

    Raises:
        RocenvError: The file does not exist or is not a bundle, or there is no such check.
    """
    with opened(file) as bundle:
        is_windows = bundle.platform == "windows"
        home: Any = PureWindowsPath("C:/rocenv") if is_windows else PurePosixPath("/rocenv")
        context = examine_machine(Home(Path(home)), matrix, environ=environment())
        checks = checks_for(context, names)
        findings: list[Finding] = []
        for check in checks:
            here = run(context, (check,), language)
            there = list(_observed_there(bundle, check.name, context, language))
            # Checks on the machine had more data, so prefer their results if they cover the same problems.
            is_known = bool(there) and {each.code for each in there} >= {each.code for each in here}
            findings += there if is_known else here
    found = tuple(worst_first(findings))
    return Examined(context=context, findings=found, checks=len(checks), bundle=bundle)


@contextmanager
def opened(file: Path) -> Iterator[Bundle]:
    """Answer all queries about the machine from a bundle.

    Raises:
        RocenvError: The file does not exist or is not a bundle.
    """
    bundle = read(file)
    answers = Answers(
        windows=bundle.platform == "windows",
        files={path: (text, 0) for path, text in bundle.files.items()},
        folders={path: (names, 0) for path, names in bundle.folders.items()},
        opened={path: _number(name) for path, name in bundle.opened.items()},
        reached={path: _number(name) for path, name in bundle.reached.items()},
        variables=bundle.variables,
        tried={(each.what, each.about): each.answer for each in bundle.tried},
    )
    for path, name in bundle.errors.items():
        answers.files.setdefault(path, ("", _number(name)))
        answers.folders.setdefault(path, ((), _number(name)))
    with answering(answers):
        yield bundle


def read(file: Path) -> Bundle:
    """Read a bundle.

    Raises:
        RocenvError: The file does not exist or is not a bundle; the message states the reason.
    """
    try:
        with open_regular(file) as stream:
            data = stream.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise RocenvError(f"`{file}` does not exist", hints=_HINTS, code="pack-missing") from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise RocenvError(f"cannot read `{file}`: {why}", hints=_HINTS, code="pack-unreadable") from error
    if len(data) > _MAX_BYTES:
        raise _not_a_bundle(file, f"it is larger than {_MAX_BYTES >> 20} MiB")
    try:
        plain = parse_json(data, "bundle")
        schema = plain.get("schema") if isinstance(plain, dict) else None
        if schema != SCHEMA or type(schema) is not int:
            raise _not_a_bundle(file, f"its schema is {str(schema)[:20]!r}, but rocenv supports {SCHEMA}")
        _require_few(plain, file)
        return from_plain(Bundle, plain, "bundle")
    except DataError as error:
        raise _not_a_bundle(file, error.message) from error
    except RecursionError as error:
        raise _not_a_bundle(file, "it is nested too deeply") from error


def _require_few(plain: dict[str, Any], file: Path) -> None:
    """Reject a bundle with too many rows to process quickly."""
    for name, table in plain.items():
        if isinstance(table, (list, dict)) and len(table) > _MAX_ROWS:
            raise _not_a_bundle(file, f"`{name[:20]}` has more than {_MAX_ROWS} rows")
    folders, observed = plain.get("folders"), plain.get("observed")
    lists = folders.values() if isinstance(folders, dict) else ()
    if sum(len(names) for names in lists if isinstance(names, list)) > _MAX_NAMES:
        raise _not_a_bundle(file, f"its folders have more than {_MAX_NAMES} names")
    for each in observed if isinstance(observed, list) else ():
        evidence = each.get("evidence") if isinstance(each, dict) else None
        if isinstance(evidence, list) and len(evidence) > _MAX_EVIDENCE:
            raise _not_a_bundle(file, f"an observation has more than {_MAX_EVIDENCE} lines of evidence")


def _not_a_bundle(file: Path, why: str) -> RocenvError:
    return RocenvError(f"`{file}` is not a support bundle: {why}", hints=_HINTS, code="pack-invalid")


def _observed_there(
    bundle: Bundle, check: str, context: CheckContext, language: Language
) -> Iterator[Finding]:
    """Render a check's observations from a bundle; skip rows that the check cannot report."""
    rows = {row.name for row in context.matrix.advice if check in row.found_by}
    for each in [each for each in bundle.observed if each.check == check][:_MAX_OBSERVED]:
        if each.row in rows and each.severity in ("", *SEVERITIES):
            values = {name: value[:_MAX_VALUE] for name, value in each.values.items()}
            observation = Observation(each.row, values, each.evidence, each.severity)
            with contextlib.suppress(RocenvError):  # from another version of rocenv
                yield render_in(context, check, observation, language)


def require_new(file: Path) -> None:
    """Raise RocenvError if the output file already exists."""
    if os.path.lexists(file):
        raise RocenvError(
            f"`{file}` already exists",
            hints=("choose a different file name, or delete this file first",),
            code="pack-exists",
        )


def _write(file: Path, bundle: Bundle) -> None:
    text = json.dumps(to_plain(bundle), indent=1, ensure_ascii=False) + "\n"
    try:
        with os.fdopen(open_own(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as out:
            out.write(text.encode("utf-8", "replace"))
    except FileExistsError:
        require_new(file)
        raise
    except OSError as error:
        raise RocenvError(
            f"cannot write `{file}`: {error.strerror}",
            hints=("choose a writable folder",),
            code="pack-unwritable",
        ) from error


def _names(errors: dict[str, int]) -> dict[str, str]:
    """Convert error numbers to names, which are the same on all systems."""
    return {path: errno.errorcode.get(number, "EIO") if number else "" for path, number in errors.items()}


def _number(name: str) -> int:
    number = getattr(errno, name, errno.EIO) if name else 0
    return number if isinstance(number, int) else errno.EIO
