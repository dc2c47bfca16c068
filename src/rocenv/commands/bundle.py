"""`rocenv bundle`: write envs with all their files to one file, for machines without a network."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import click

from rocenv import __version__
from rocenv.commands import candidates
from rocenv.commands.options import FILE, json_option
from rocenv.commands.output import note, print_json
from rocenv.context import Context
from rocenv.core.errors import FetchError
from rocenv.core.progress import size_text
from rocenv.prefix import prefix_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rocenv.core.model import Lock
    from rocenv.home import Home
    from rocenv.sources.apt.signed import SignedIndex


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=candidates.env_names)
@click.option(
    "-o",
    "output",
    metavar="FILE",
    required=True,
    type=FILE,
    help="Write the bundle to FILE.",
)
@json_option
def command(names: tuple[str, ...], output: Path, as_json: bool) -> None:
    """Write the envs NAME... with all their files to one file, for machines without a network.

    The bundle is a plain tar file with the locks, every package and wheel, and a Python for the wheels. Files
    that are no longer in the cache are downloaded.
    """
    from rocenv.install.bundle_writer import write_bundle
    from rocenv.kernels.cache import export
    from rocenv.resolve.request import rebuild_command

    context = Context()
    home = context.home
    locks = {name: prefix_of(home, name).record().lock for name in dict.fromkeys(names)}
    left_out = sorted(
        {each.path for lock in locks.values() for each in lock.artifacts if each.kind == "folder"}
    )
    for path in left_out:
        note(f"the bundle omits the HIP SDK from `{path}`; the other machine needs the same SDK installed")
    others: dict[str, bytes | Path] = {"data.json": _data(home)}
    for lock in locks.values():
        others |= export(home, lock.request.app, lock.targets)
    others |= _indexes(locks.values(), context)
    written = write_bundle(output.absolute(), locks, others, context)
    if as_json:
        print_json(
            {
                "path": str(output),
                "sha256": written.sha256,
                "size_bytes": written.size_bytes,
                "envs": list(locks),
                "artifacts": written.artifacts,
                "pythons": list(written.pythons),
                "kernels": sum(name.endswith("/kernel") for name in others),
                "left_out": left_out,
            }
        )
    note(f"wrote `{output}`: {size_text(written.size_bytes)}, {written.artifacts} packages and wheels")
    note(f"sha256 {written.sha256}", verbatim=True)
    note(f"on the other machine: `{rebuild_command(next(iter(locks)), output.name)}`")


def _indexes(locks: Iterable[Lock], context: Context) -> dict[str, bytes | Path]:
    """Return the signed indexes for the locks' packages; print a note if they are missing."""
    from rocenv.sources.apt.signed import signed_indices

    found: dict[Path, SignedIndex] = {}
    problems: set[str] = set()
    for lock in locks:
        try:
            for each in signed_indices(lock, context, math.inf):
                found[each.release] = each
        except FetchError as error:
            problems.add(error.message)
    for problem in sorted(problems):
        note(f"the bundle cannot prove the origin of all its packages: {problem}")
    members: dict[str, bytes | Path] = {}
    for number, release in enumerate(sorted(found)):
        members |= found[release].members(number)
    return members


def _data(home: Home) -> bytes:
    """Return the version of the data from which the locks were resolved, and the user's own rows."""
    from rocenv.data.load import data_files, newest_day

    day = newest_day()
    folder = home.own_profiles
    own = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in data_files(folder)
    }
    plain = {"rocenv": __version__, "checked": day.isoformat() if day else None, "own_profiles": own}
    return (json.dumps(plain, indent=1) + "\n").encode()
