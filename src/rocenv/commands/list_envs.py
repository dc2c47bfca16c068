"""`rocenv list`: the envs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.output import columns, json_option, note, print_json
from rocenv.context import Context
from rocenv.core.errors import RocenvError

if TYPE_CHECKING:
    from rocenv.prefix import Prefix


def summary(prefix: Prefix) -> dict[str, Any]:
    """Return what is known about an env in a few words; `state` says where that is not all."""
    told: dict[str, Any] = {"name": prefix.name, "state": prefix.state, "prefix": str(prefix.path)}
    if prefix.state != "complete":
        return told
    try:
        record = prefix.record()
    except RocenvError as error:
        return told | {"state": "damaged", "message": error.message}
    told |= {"platform": record.lock.platform, "target": record.lock.target, "created": record.created}
    if record.lock.request.more_targets:
        told["targets"] = list(record.lock.targets)
    told["components"] = [
        {"kind": part.kind, "version": part.version, "channel": part.channel}
        for part in record.lock.components
    ]
    last = prefix.verification()
    told["verified"] = last.level if last else ""
    return told


@click.command()
@json_option
def command(as_json: bool) -> None:
    """List the envs, what they are made of, and how far each was proved."""
    from rocenv.prefix import all_prefixes

    context = Context()
    found = [summary(prefix) for prefix in all_prefixes(context.home)]
    if as_json:
        print_json({"envs": found})
        return
    if not found:
        note("no envs yet; `rocenv create NAME --rocm VERSION` makes one")
        return
    rows: list[tuple[str, ...]] = [("NAME", "TARGET", "COMPONENTS", "VERIFIED")]
    for env in found:
        parts = ", ".join(f"{part['kind']} {part['version']}" for part in env.get("components", []))
        state = "" if env["state"] == "complete" else f"({env['state']})"
        targets = ", ".join(env.get("targets", [env.get("target", "")]))
        rows.append((env["name"], targets, parts or state, env.get("verified", "") or "-"))
    click.echo(columns(rows))
