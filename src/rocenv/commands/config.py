"""`rocenv config`: read and edit `config.toml` without losing its comments."""

from __future__ import annotations

import json

import click

from rocenv.commands import candidates, mirrors
from rocenv.commands.output import json_option, note, print_json
from rocenv.context import Context
from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.system.quoting import shell_join


@click.group()
def command() -> None:
    """Read and edit the settings.

    KEY is `mirrors.PREFIX` (a URL prefix; its value is a mirror or a list of mirrors), `defaults.NAME` (an
    option of `create`), or `home.shared` (true if several users share the home).
    """


@command.command()
@click.argument("key", shell_complete=candidates.setting_keys)
@json_option
def get(key: str, as_json: bool) -> None:
    """Print the value of KEY."""
    from rocenv.config import lookup, parse_key

    value = lookup(Context().home.config_file, parse_key(key))
    if value is None:
        raise RocenvError(
            f"`{key}` is not set", hints=("what you can set: `rocenv help config`",), code="config-unset"
        )
    if as_json:
        print_json({"key": key, "value": value})
        return
    click.echo(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


@command.command(name="set", short_help="Set KEY to VALUE.")
@click.argument("key", shell_complete=candidates.setting_keys)
@click.argument("value")
def set_(key: str, value: str) -> None:
    """Set KEY to VALUE: true, false, a number, a list such as '["a", "b"]', or text.

    A mirror of a server: `rocenv config set mirrors.https://repo.radeon.com/ https://mirror.example/radeon/`
    """
    from rocenv.config import DEFAULTS, KNOWN, assign, parse_key, parse_value

    first, *rest = parts = parse_key(key)
    if first not in KNOWN:
        raise WrongUsage(f"`{key}` is not a setting", hints=("what you can set: `rocenv help config`",))
    if first == "defaults" and rest and rest[0] not in DEFAULTS:
        raise WrongUsage(
            f"`{key}` is not a setting",
            hints=(f"choose from {', '.join(f'`defaults.{name}`' for name in DEFAULTS)}",),
        )
    if first == "mirrors" and rest and "://" not in rest[0] and not rest[0].endswith(":"):
        hint = shell_join("rocenv", "config", "set", f"mirrors.{rest[0]}:", value)
        raise WrongUsage(f"`{rest[0]}` is not the beginning of a URL", hints=(hint,))
    path = Context().home.config_file
    assign(path, parts, parse_value(value))
    note(f"set `{key}` in {path}")


@command.command()
@click.argument("key", shell_complete=candidates.setting_keys)
def unset(key: str) -> None:
    """Remove KEY from the settings."""
    from rocenv.config import parse_key, unset

    path = Context().home.config_file
    was_set = unset(path, parse_key(key))
    note(f"removed `{key}` from {path}" if was_set else f"`{key}` was not set in {path}")


@command.command()
def path() -> None:
    """Print the path of the settings file, which may not exist yet."""
    click.echo(Context().home.config_file)


command.add_command(mirrors.command, "mirrors")
