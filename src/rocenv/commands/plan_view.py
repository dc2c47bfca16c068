"""A plan as text and as JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rocenv.core.progress import sanitized
from rocenv.core.wrap import reading_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.core.model import Component, Lock
    from rocenv.sources.lock_review import Review

_BLANK = "\0"  # in a command, where a line must not end


def plan_json(lock: Lock, lacking: Sequence[str] = (), found: Review | None = None) -> dict[str, Any]:
    """Return a plan as `resolve --json` prints it.

    Args:
        lock: The plan.
        lacking: What the user has to bring or to judge.
        found: What in a lock of `--from` is foreign.
    """
    from rocenv.activate.changes import apply
    from rocenv.core.codec import to_plain

    return {
        "request": to_plain(lock.request),
        "platform": lock.platform,
        "target": lock.target,
        **({"targets": list(lock.request.targets)} if lock.request.more_targets else {}),
        "runs_as": lock.code_target,
        "components": [
            {
                "kind": part.kind,
                "name": part.name,
                "version": part.version,
                "channel": part.channel,
                "why": part.why,
                "python": part.python,
                "glibc": part.glibc,
                "own_glibc": bool(part.loader),
                "artifacts": [
                    {
                        "name": artifact.name,
                        "version": artifact.version,
                        "url": artifact.url,
                        "sha256": artifact.sha256 or None,
                        "size_bytes": artifact.size_bytes or None,
                    }
                    for artifact in part.artifacts
                ],
            }
            for part in lock.components
        ],
        "environment": apply(lock.environment, {}, lock.platform),
        "notes": [*lacking, *lock.notes],
        **(_review_json(found) if found else {}),
    }


def _review_json(found: Review) -> dict[str, Any]:
    return {
        "foreign_hosts": [{"host": host, "files": list(files)} for host, files in found.hosts.items()],
        "foreign_variables": [
            {"action": each.action, "name": each.name, "value": each.value} for each in found.variables
        ],
        "foreign_commands": list(found.commands),
    }


def plan_text(lock: Lock, lacking: Sequence[str] = (), *, sets_variables: bool = False) -> str:
    """Return a plan for people to read; see `plan_json`. With `sets_variables` it names those."""
    runs_as = f", run as {lock.runs_as}" if lock.runs_as else ""
    of = ", ".join((lock.target, *lock.request.more_targets)) + runs_as if lock.target else "a compiler"
    lines = [f"Plan for {of} on {lock.platform}"]
    for text in lacking:
        lines += _note(text, "  ! ")
    for part in lock.components:
        lines += _part_text(part)
    for text in lock.notes:
        lines += _note(text, "  - ")
    if sets_variables:
        names = dict.fromkeys(change.name for change in lock.environment)
        lines += _note(f"changes these variables in the env: {', '.join(names) or 'none'}", "  - ")
        wheels = sorted(each.name for part in lock.components if part.python for each in part.artifacts)
        lines += _note(f"installs these Python packages: {', '.join(wheels)}", "  - ") if wheels else []
    return sanitized("\n".join(lines))


def _note(text: str, first: str) -> list[str]:
    """Return a note in lines, in which no command is broken: it could not be pasted then."""
    whole = re.sub("`rocenv [^`]*`", lambda found: found[0].replace(" ", _BLANK), text)
    return [line.replace(_BLANK, " ") for line in wrapped(whole, reading_width(), first, "    ")]


def _part_text(part: Component) -> list[str]:
    from rocenv.core.progress import size_text
    from rocenv.core.versions import joined

    name = part.kind if part.name in (part.kind, part.channel) else part.name
    lines = [f"  {name} {part.version} from {part.channel}: {part.why}"]
    if part.python:
        lines.append(f"    for Python {part.python}")
    download = sum(artifact.size_bytes for artifact in part.artifacts)
    if download and len(part.artifacts) > 1:
        installed = sum(artifact.installed_bytes for artifact in part.artifacts)
        size = f"    {len(part.artifacts)} packages, {size_text(download)}"
        lines.append(size + (f", {size_text(installed)} once unpacked" if installed else ""))
    else:
        lines += [f"    {artifact.url}" for artifact in part.artifacts]
    if unknown := [artifact.name for artifact in part.artifacts if not artifact.sha256]:
        known, count = len(part.artifacts) - len(unknown), len(part.artifacts)
        text = f"sha256 known for {known} of {count} files; the first download records the rest: "
        if not known:
            text = "no sha256 is known; the first download records it: "
        lines += _note(text + joined(unknown, 20), "    ")
    return lines
