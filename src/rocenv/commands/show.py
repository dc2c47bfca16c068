"""`rocenv show`: one env."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.list_envs import summary
from rocenv.commands.output import columns, json_option, print_json
from rocenv.commands.shim import kept_text
from rocenv.context import Context
from rocenv.core.progress import sanitized
from rocenv.prefix import prefix_of
from rocenv.preload import shims_of
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.core.model import Component


def _parts(part: Component) -> str:
    if part.artifacts and part.artifacts[0].kind == "folder":
        return f"copied from {part.artifacts[0].path}"
    return f"{len(part.artifacts)} package{'s' * (len(part.artifacts) != 1)}"


def _app(key: str, context: Context) -> str:
    """Return an app as people call it; a lock may name one that is not known here."""
    title = next((row.title for row in context.matrix.launcher if row.key == key), "")
    return f"{title} ({key})" if title and title != key else key


@click.command()
@click.argument("name", shell_complete=candidates.env_names)
@json_option
def command(name: str, as_json: bool) -> None:
    """Show what the env NAME consists of, why each part was taken, and how far it was proved."""
    from rocenv.core.progress import size_text

    context = Context()
    prefix = prefix_of(context.home, name)
    record = prefix.record()
    files = prefix.files(record)
    told: dict[str, Any] = summary(prefix) | {
        "files": len(files),
        "size_bytes": sum(entry.size_bytes for entry in files.values()),
        "app": record.lock.request.app or None,
        "own_loader": record.loader,
        "rocenv_version": record.rocenv_version,
        "notes": list(record.lock.notes),
    }
    shims = shims_of(record.lock, in_torch=record.shims_in_torch)
    if as_json:
        packages = [
            {"kind": artifact.kind, "name": artifact.name, "version": artifact.version}
            for part in record.lock.components
            for artifact in part.artifacts
        ]
        shown = [{"path": each.path, "is": each.source, "original": each.original or None} for each in shims]
        print_json(told | {"packages": packages, "shims": shown})
        return
    rows: list[tuple[str, ...]] = [
        ("name", name),
        ("prefix", str(prefix.path)),
        ("target", ", ".join(filter(None, record.lock.targets)) or "any that its compiler knows"),
    ]
    if record.lock.request.app:
        rows.append(("app", _app(record.lock.request.app, context)))
    for part in record.lock.components:
        rows.append((part.kind, f"{part.version} from {part.channel}, {_parts(part)}: {part.why}"))
    rows += [
        (
            "files",
            f"{len(files)}, {size_text(told['size_bytes'])}, shared with other envs of the same packages",
        ),
        ("C library", "its own, through its own loader" if record.loader else "the machine's"),
        ("created", f"{record.created} by rocenv {record.rocenv_version}"),
        ("verified", told["verified"] or f"not yet: `rocenv verify {shell_join(name)}`"),
    ]
    rows += [
        ("shim", " ".join(filter(None, (f"{each.path} is {each.source}", kept_text(each.original)))))
        for each in shims
    ]
    rows += [("note", text) for text in record.lock.notes]
    click.echo(sanitized(columns(rows)))
