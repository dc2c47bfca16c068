"""`rocenv mirror`: fill a folder that a web server can serve to machines without internet access."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import click

from rocenv.commands.options import FOLDER, json_option
from rocenv.commands.output import note, print_json
from rocenv.context import Context
from rocenv.core.errors import PrefixError
from rocenv.core.progress import size_text
from rocenv.prefix import all_prefixes
from rocenv.sources.general_index import GENERAL
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("folder", metavar="DIR", type=FOLDER)
@json_option
def command(folder: Path, as_json: bool) -> None:
    """Copy all packages and wheels of the envs in this home to DIR, for a web server.

    Run it again after you create or upgrade an env: it adds new files and does not remove any. It prints the
    settings for the machines that use the mirror.
    """
    from rocenv.install.mirror import update_mirror
    from rocenv.install.upgrade import NEWER, OLDER

    context = Context()
    envs = [each for each in all_prefixes(context.home) if each.state == "complete"]
    locks = {each.name: each.record().lock for each in envs if not each.name.endswith((NEWER, OLDER))}
    if not locks:
        raise PrefixError(
            "there are no envs to mirror",
            hints=("create an env with the set that the other machines need: `rocenv create`",),
            code="env-missing",
        )
    done = update_mirror(folder, locks, context)
    # The server's port and path are unknown, so assume the root of a server on this machine.
    base = f"http://{platform.node()}"
    settings = {prefix: f"{base}/{below}/" for prefix, below in sorted(done.settings.items())}
    if as_json:
        print_json(
            {
                "path": str(folder),
                "added": [{"path": path, "size_bytes": size} for path, size in done.added.items()],
                "mirrors": [
                    {"prefix": prefix, "folder": below} for prefix, below in sorted(done.settings.items())
                ],
                "problems": done.problems,
            }
        )
        return
    for problem in done.problems:
        note(f"warning: {problem}")
    note(f"added {len(done.added)} files, {size_text(sum(done.added.values()))}, to `{folder}`")
    note(f"settings for machines that use the mirror, if `{base}/` serves `{folder}`:")
    for prefix, url in settings.items():
        click.echo(shell_join("rocenv", "config", "set", f"mirrors.{prefix}", url))
    if GENERAL in done.settings:
        note("`create` accepts wheels only from https servers; locks and bundles also work with http")
