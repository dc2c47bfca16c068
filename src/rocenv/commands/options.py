"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.context import Context

if TYPE_CHECKING:
    from collections.abc import Callable

    _Decorator = Callable[..., Any]

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
PLATFORM = click.Choice(["linux", "windows"])
_MAX_LENGTH = 200


def short_enough(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Reject option values that are longer than any valid name or version range."""
    if value is not None and len(value) > _MAX_LENGTH:
        raise click.BadParameter(f"it is longer than {_MAX_LENGTH} characters")
    return value


def named_target(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Turn the value of `--target`, which may be a product, into a target."""
    if not short_enough(context, parameter, value):
        return value
    from rocenv.host.products import target_meant

    return target_meant(value, Context().matrix)


def text_option(name: str, metavar: str, complete: Any = None, **settings: Any) -> _Decorator:
    """An option whose value is a short string, such as a name or a version; the default is ""."""
    settings = {"default": "", "callback": short_enough, **settings}
    return click.option(name, metavar=metavar, shell_complete=complete, **settings)


def target_option(metavar: str, help: str) -> _Decorator:
    """The `--target` option, which also accepts a product."""
    return text_option("--target", metavar, candidates.targets, callback=named_target, help=help)


env_argument: _Decorator = click.argument("name", shell_complete=candidates.env_names)
active_env_argument: _Decorator = click.argument(
    "name", required=False, default="", shell_complete=candidates.env_names
)
json_option: _Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout."
)
yes_option: _Decorator = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
offline_option: _Decorator = click.option(
    "--offline", is_flag=True, help="Use only files that are already on this machine."
)
