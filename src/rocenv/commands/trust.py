"""`rocenv trust`: let the `.rocenv` file of a folder choose the env of a shell in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from rocenv.commands.output import columns, json_option, note, print_json
from rocenv.context import Context
from rocenv.core.errors import RocenvError
from rocenv.system.quoting import as_typed

if TYPE_CHECKING:
    from rocenv.home import Home


@click.command()
@click.argument("folder", required=False, type=click.Path(file_okay=False, readable=False))
@click.option("--forget", "mode", flag_value="forget", help="Trust it no more.")
@click.option("--check", "mode", flag_value="check", help="Print the env's name if it may be activated.")
@click.option("--list", "mode", flag_value="list", help="List the folders that are trusted.")
@json_option
def command(folder: str | None, mode: str | None, as_json: bool) -> int:
    """Trust the `.rocenv` file of FOLDER as it is now. Default: this folder's, or the nearest above.

    The file holds the name of an env. A shell with the hook (`rocenv hook`) activates that env on entering
    the folder, and leaves it with the folder. A file that was changed has to be trusted again.
    """
    home = Context().home
    if folder == "":
        raise click.UsageError("FOLDER is empty; leave it out to mean this folder")
    if mode == "list":
        if folder is not None:
            raise click.UsageError("--list goes with no FOLDER")
        _list(home, as_json)
        return 0
    from rocenv import trust

    chosen = folder or trust.nearest(_here()) or _here()
    if mode == "check":
        return _check(chosen, home, as_json)
    if mode == "forget":
        path = trust.shown(os.path.realpath(chosen))
        forgotten = trust.forget(chosen, home)
        note(f"`{path}` is trusted no more" if forgotten else f"`{path}` was not trusted")
        if as_json:
            print_json({"folder": os.path.realpath(chosen), "forgotten": forgotten})
        return 0
    wish = trust.wish_of(chosen, home)
    file = trust.shown(os.path.join(wish.folder, trust.FILE))
    trust.remember(wish, home)
    note(f"trusted: `{file}`, which asks for env `{wish.prefix.name}`")
    if wish.prefix.state != "complete":
        note(f"there is no such env yet: `rocenv create {as_typed(wish.prefix.name)} --rocm VERSION`")
    if as_json:
        print_json({"folder": wish.folder, "env": wish.prefix.name})
    return 0


def _here() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise RocenvError(f"the current folder cannot be found: {error.strerror}") from error


def _check(folder: str, home: Home, as_json: bool) -> int:
    from rocenv.trust import trusted_wish

    try:
        wish = trusted_wish(folder, home)
    except RocenvError as error:
        if as_json:
            raise
        # At a prompt, where two lines are enough.
        note("\n  ".join((f"rocenv: {error.message}", *error.hints[:1])))
        return 1
    if as_json:
        print_json({"folder": wish.folder, "env": wish.prefix.name})
    else:
        click.echo(os.fsencode(wish.prefix.name))
    return 0


def _list(home: Home, as_json: bool) -> None:
    from rocenv import config
    from rocenv.trust import folder_of, shown, wish_of

    told: list[dict[str, str | None]] = []
    for key, sha256 in sorted(config.load(home.config_file).trusted.items()):
        folder = folder_of(key)
        try:
            wish = wish_of(folder, home)
        except RocenvError:
            told.append({"folder": folder, "state": "gone", "env": None})
        else:
            state = "trusted" if wish.sha256 == sha256 else "changed"
            told.append({"folder": folder, "state": state, "env": wish.prefix.name})
    if as_json:
        print_json({"trusted": told})
    elif told:
        rows: list[tuple[str, ...]] = [("ENV", "STATE", "FOLDER")]
        rows += [(each["env"] or "-", str(each["state"]), shown(str(each["folder"]))) for each in told]
        click.echo(columns(rows))
    else:
        note("no folder is trusted")
