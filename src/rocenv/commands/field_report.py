"""The field report of `verify --report`: the machine, the set and the results, without personal names."""

from __future__ import annotations

import json
import os
import platform
import re
from typing import TYPE_CHECKING, Any

from rocenv import __version__
from rocenv.checks.bundle import require_new
from rocenv.checks.redact import Redactor
from rocenv.commands.gpus import host_json
from rocenv.core.codec import verification_to_plain
from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.logins import mask_logins
from rocenv.data.load import newest_day
from rocenv.resolve.request import options
from rocenv.system import WINDOWS
from rocenv.system.machine import examined_elsewhere, glibc_version, read_attribute

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocenv.core.model import Lock, Verification
    from rocenv.host import Host
    from rocenv.prefix import Prefix

SCHEMA = 1
_HINTS = ("specify a new file in your home directory: `--report ~/rocenv-report.json`",)
_RATE = re.compile(r"[^,;]*GFLOP/s[^,;]*")
_PRETTY_NAME = re.compile(r'^PRETTY_NAME="?([^"\n]*)', re.MULTILINE)


def require_place(file: Path) -> None:
    """Raise WrongUsage unless a report on this machine can be written to `file`."""
    if examined_elsewhere() or "ROCENV_TARGET" in os.environ:
        raise WrongUsage(
            "`--report` describes this machine, but ROCENV_SYSROOT or ROCENV_TARGET simulates another",
            hints=("unset ROCENV_SYSROOT ROCENV_TARGET",),
        )
    require_new(file)
    folder = file.absolute().parent
    if not os.access(folder, os.W_OK):
        raise WrongUsage(f"cannot write `{file}`: `{folder}` does not exist or is not writable", hints=_HINTS)


def write_report(file: Path, prefix: Prefix, verification: Verification, host: Host) -> None:
    """Write a field report as JSON.

    Raises:
        RocenvError: The file exists or cannot be written, or the env's record is missing.
    """
    document = field_report(prefix, verification, host)
    content = mask_logins(json.dumps(document, indent=1, ensure_ascii=False)) + "\n"
    try:
        with file.open("xb") as out:
            out.write(content.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise RocenvError(f"cannot write the report to `{file}`: {error.strerror}", hints=_HINTS) from error


def field_report(prefix: Prefix, verification: Verification, host: Host) -> dict[str, Any]:
    """Return a field report: only the fields listed here, with redacted text."""
    lock = prefix.record().lock
    plain = verification_to_plain(verification)
    redact = _redactor(prefix).text
    stderr = {result.rung: result.stderr_tail for result in verification.results}
    for rung in plain["rungs"]:
        rung |= {"detail": redact(rung["detail"]), "stderr": redact(stderr[rung["rung"]])}
    newest = newest_day()
    return {
        "schema": SCHEMA,
        "rocenv": __version__,
        "data": newest.isoformat() if newest else None,
        "when": verification.when,
        "machine": _machine(host),
        "set": _set(lock, redact),
        "target": verification.target,
        "level": verification.level,
        "figures": {
            result.rung: [found.strip() for found in _RATE.findall(result.detail)]
            for result in verification.results
            if _RATE.search(result.detail)
        },
        "rungs": plain["rungs"],
        "advice": [redact(each) for each in plain["advice"]],
    }


def _redactor(prefix: Prefix) -> Redactor:
    home = prefix.path.parent.parent
    names = {prefix.name: "ENV", str(prefix.path): "ENV", str(prefix.path.resolve()): "ENV"}
    return Redactor(names | {str(home): "HOME", str(home.resolve()): "HOME"})


def _machine(host: Host) -> dict[str, Any]:
    if WINDOWS:
        system = f"Windows {platform.version()}"
    else:
        found = _PRETTY_NAME.search(read_attribute("/etc/os-release")[0])
        system = found[1] if found else "Linux"
    shown = host_json(host)
    del shown["remedies"]
    return {"system": system, "glibc": glibc_version(), "python": platform.python_version(), **shown}


def _set(lock: Lock, redact: Callable[[str], str]) -> dict[str, Any]:
    return {
        "request": redact(options(lock.request, lock.platform)),
        "target": lock.target,
        "runs_as": lock.runs_as,
        "components": [
            {"kind": part.kind, "name": part.name, "version": part.version, "channel": part.channel}
            for part in lock.components
        ],
        "variables": sorted({change.name for change in lock.environment}),
    }
