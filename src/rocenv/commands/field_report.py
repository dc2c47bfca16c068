"""What `verify --report` writes for an issue: a machine, a set, and how far it gets; no names of people."""

from __future__ import annotations

import json
import os
import platform
import re
from typing import TYPE_CHECKING, Any

from rocenv import __version__
from rocenv.commands.gpus import host_json
from rocenv.core.codec import verification_to_plain
from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.logins import mask_logins
from rocenv.data.load import newest_day
from rocenv.doctor.nameless import Nameless
from rocenv.doctor.pack import require_new
from rocenv.doctor.people import names_to_hide
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
_HINTS = ("name a new file in your home: `--report ~/rocenv-report.json`",)
# A path outside the system's folders; its last part is kept. Parts may contain spaces.
_PATH = re.compile(
    r"(?<![\w.\\/~-])(?<!https:)(?<!http:)(?!/(?:sys|proc|dev|etc|usr|lib|lib64|opt|bin|sbin)/)"
    r"(?![A-Z]:[\\/]+(?:Windows|Program Files(?: \(x86\))?)[\\/])"
    r"(?:[A-Z]:)?[\\/]+(?:[^\\/:;,\"'<>|\r\n`]+[\\/]+)+([^\\/\s:;,\"'<>|`]*)",
    re.IGNORECASE,
)
_RATE = re.compile(r"[^,;]*GFLOP/s[^,;]*")
_PRETTY_NAME = re.compile(r'^PRETTY_NAME="?([^"\n]*)', re.MULTILINE)


def require_place(file: Path) -> None:
    """Raise WrongUsage unless a report of this machine can be written to a file."""
    if examined_elsewhere() or "ROCENV_TARGET" in os.environ:
        raise WrongUsage(
            "`--report` is about this machine, and ROCENV_SYSROOT or ROCENV_TARGET stands in for it",
            hints=("unset ROCENV_SYSROOT ROCENV_TARGET",),
        )
    require_new(file)
    folder = file.absolute().parent
    if not os.access(folder, os.W_OK):
        raise WrongUsage(f"cannot write `{file}`: `{folder}` does not exist or is not writable", hints=_HINTS)


def write_report(file: Path, prefix: Prefix, verification: Verification, host: Host) -> None:
    """Write a field report as JSON.

    Raises:
        RocenvError: The file cannot be written or exists, or the env has no record any more.
    """
    document = field_report(prefix, verification, host)
    content = mask_logins(json.dumps(document, indent=1, ensure_ascii=False)) + "\n"
    try:
        with file.open("xb") as out:
            out.write(content.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise RocenvError(f"cannot write the report to `{file}`: {error.strerror}", hints=_HINTS) from error


def field_report(prefix: Prefix, verification: Verification, host: Host) -> dict[str, Any]:
    """Return a field report: only what is listed here, and no text that names a person or a machine."""
    lock = prefix.record().lock
    plain = verification_to_plain(verification)
    hide = _hiding(prefix)
    said = {result.rung: result.stderr_tail for result in verification.results}
    for rung in plain["rungs"]:
        rung |= {"detail": hide(rung["detail"]), "stderr": hide(said[rung["rung"]])}
    newest = newest_day()
    return {
        "schema": SCHEMA,
        "rocenv": __version__,
        "data": newest.isoformat() if newest else None,
        "when": verification.when,
        "machine": _machine(host),
        "set": _set(lock, hide),
        "target": verification.target,
        "level": verification.level,
        "figures": {
            result.rung: [found.strip() for found in _RATE.findall(result.detail)]
            for result in verification.results
            if _RATE.search(result.detail)
        },
        "rungs": plain["rungs"],
        "advice": [hide(each) for each in plain["advice"]],
    }


def _hiding(prefix: Prefix) -> Callable[[str], str]:
    """Return a function that removes names, and folders outside the env, from a text."""
    home = prefix.path.parent.parent
    own = {prefix.name: "ENV", str(prefix.path): "ENV", str(prefix.path.resolve()): "ENV"}
    own |= {str(home): "HOME", str(home.resolve()): "HOME"}
    nameless = Nameless({**own, **names_to_hide(os.environ)})
    return lambda text: _PATH.sub(r"…/\1", nameless.text(text))


def _machine(host: Host) -> dict[str, Any]:
    if WINDOWS:
        system = f"Windows {platform.version()}"
    else:
        found = _PRETTY_NAME.search(read_attribute("/etc/os-release")[0])
        system = found[1] if found else "Linux"
    shown = host_json(host)
    del shown["remedies"]
    return {"system": system, "glibc": glibc_version(), "python": platform.python_version(), **shown}


def _set(lock: Lock, hide: Callable[[str], str]) -> dict[str, Any]:
    return {
        "request": hide(options(lock.request, lock.platform)),
        "target": lock.target,
        "runs_as": lock.runs_as,
        "components": [
            {"kind": part.kind, "name": part.name, "version": part.version, "channel": part.channel}
            for part in lock.components
        ],
        "variables": sorted({change.name for change in lock.environment}),
    }
