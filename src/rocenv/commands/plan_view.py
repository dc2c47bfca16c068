"""A plan as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocenv.commands.output import fields, fields_or_none
from rocenv.core.progress import sanitized, size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.core.model import Component, Lock
    from rocenv.sources.lock_review import Review


def plan_json(lock: Lock, missing: Sequence[str] = (), review: Review | None = None) -> dict[str, Any]:
    """Convert a plan to JSON, as `resolve --json` prints it.

    Args:
        lock: The plan.
        missing: What the user must provide or decide.
        review: The parts of a `--from` lock that are not from rocenv's data.
    """
    from rocenv.activate.changes import apply
    from rocenv.core.codec import to_plain

    answer: dict[str, Any] = {
        "request": to_plain(lock.request),
        "platform": lock.platform,
        "target": lock.target,
        **({"targets": list(lock.request.targets)} if lock.request.more_targets else {}),
        "runs_as": lock.code_target,
        "components": [_part_json(part) for part in lock.components],
        "environment": apply(lock.environment, {}, lock.platform),
        "warnings": list(lock.warnings),
        "notes": [*missing, *lock.warnings, *lock.local_notes, *lock.notes],
    }
    if review is not None:
        answer["foreign_hosts"] = [
            {"host": host, "files": list(files)} for host, files in review.hosts.items()
        ]
        answer["foreign_variables"] = [fields(each, "action", "name", "value") for each in review.variables]
        answer["foreign_commands"] = list(review.commands)
        answer["foreign_files"] = list(review.files)
    return answer


def _part_json(part: Component) -> dict[str, Any]:
    return {
        **fields(part, "kind", "name", "version", "channel", "why", "python", "glibc"),
        "own_glibc": bool(part.loader),
        "artifacts": [
            {**fields(each, "name", "version", "url"), **fields_or_none(each, "sha256", "size_bytes")}
            for each in part.artifacts
        ],
    }


def plan_text(
    lock: Lock,
    missing: Sequence[str] = (),
    *,
    of_lock: bool = False,
    to_come: tuple[int, int] | None = None,
) -> str:
    """Render a plan as text.

    Args:
        lock: The plan.
        missing: What the user must provide or decide.
        of_lock: Include the parts that a malicious lock could abuse.
        to_come: Bytes to download and to unpack on this machine, or None if nothing will be installed.
    """
    runs_as = f", run as {lock.runs_as}" if lock.runs_as else ""
    what = ", ".join((lock.target, *lock.request.more_targets)) + runs_as if lock.target else "a compiler"
    lines = [f"warning: {text}" for text in lock.warnings]
    lines += [f"Plan for {what} on {lock.platform.capitalize()}"]
    lines += [f"  ! {text}" for text in missing]
    for part in lock.components:
        lines += _part_lines(part)
    lines += [f"  - {text}" for text in (*lock.local_notes, *lock.notes)]
    if of_lock:
        names = dict.fromkeys(change.name for change in lock.environment)
        lines.append(f"  - changes these variables in the env: {', '.join(names) or 'none'}")
        wheels = sorted(each.name for part in lock.components if part.python for each in part.artifacts)
        lines += [f"  - installs these Python packages: {', '.join(wheels)}"] if wheels else []
    if to_come is not None and lock.artifacts:
        lines.append(_size_line(lock, *to_come))
    return sanitized("\n".join(lines))


def _size_line(lock: Lock, download: int, unpacked: int) -> str:
    """Summarize what to download, and the disk space that the installation needs."""
    if not download and not unpacked:
        return "  everything is already on this machine"
    total = sum(artifact.size_bytes for artifact in lock.artifacts)
    cached = f" ({size_text(total - download)} already cached)" if 0 < download < total else ""
    return f"  download {size_text(download)}{cached}, disk space {size_text(download + unpacked)}"


def _part_lines(part: Component) -> list[str]:
    from rocenv.core.versions import joined

    name = part.kind if part.name in (part.kind, part.channel) else part.name
    lines = [f"  {name} {part.version} from {part.channel}: {part.why}"]
    if part.python:
        lines.append(f"    for Python {part.python}")
    download = sum(artifact.size_bytes for artifact in part.artifacts)
    if download and len(part.artifacts) > 1:
        unpacked = sum(artifact.installed_bytes for artifact in part.artifacts)
        size = f"    {len(part.artifacts)} packages, {size_text(download)}"
        lines.append(size + (f", {size_text(unpacked)} when unpacked" if unpacked else ""))
    else:
        lines += [f"    {artifact.url}" for artifact in part.artifacts]
    if unknown := [artifact.name for artifact in part.artifacts if not artifact.sha256]:
        count = len(part.artifacts)
        text = (
            f"sha256 known for {count - len(unknown)} of {count} files; the first download records the rest: "
        )
        if len(unknown) == count:
            text = "no sha256 is known; the first download records it: "
        lines.append(f"    {text}{joined(unknown, 20)}")
    return lines
