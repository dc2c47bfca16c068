"""`rocenv config`: read and edit `config.toml`, keeping its comments; list, test and set mirrors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from rocenv.commands import candidates
from rocenv.commands.options import json_option
from rocenv.commands.output import color, note, print_json, print_text
from rocenv.context import Context
from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.progress import sanitized, size_text
from rocenv.core.template import fill
from rocenv.data.mirrors import mirrors_of
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.data.mirrors import Mirror, Origin
    from rocenv.data.rows import Matrix
    from rocenv.net.speed import Speed


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
            f"`{key}` is not set", hints=("list the settings: `rocenv help config`",), code="config-unset"
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
        raise WrongUsage(f"`{key}` is not a setting", hints=("list the settings: `rocenv help config`",))
    if first == "defaults" and rest and rest[0] not in DEFAULTS:
        raise WrongUsage(
            f"`{key}` is not a setting",
            hints=(f"choose from {', '.join(f'`defaults.{name}`' for name in DEFAULTS)}",),
        )
    if first == "mirrors" and rest and "://" not in rest[0] and not rest[0].endswith(":"):
        hint = shell_join("rocenv", "config", "set", f"mirrors.{rest[0]}:", value)
        raise WrongUsage(f"`{rest[0]}` is not a URL prefix", hints=(hint,))
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


_TRUST = (
    "rocenv uses a mirror only if you set it{example}. It checks the signatures and hashes of files from "
    "mirrors, too. The hashes of wheels come from an index, so use an index only from a mirror that you "
    "trust."
)


@command.command()
@click.argument("names", metavar="[ORIGIN]...", nargs=-1, shell_complete=candidates.origins)
@click.option("--test", is_flag=True, help="Measure their speed: read up to 1 MB from each, in parallel.")
@click.option(
    "--use", metavar="NAME", shell_complete=candidates.mirrors, help="Set this mirror in the settings."
)
@json_option
def mirrors(names: tuple[str, ...], test: bool, use: str | None, as_json: bool) -> None:
    """List known public mirrors, test them, or set one.

    ORIGIN limits the list to mirrors of one download source, such as pytorch or debian. To use your own
    mirror, set a prefix that is shown below the origin's title: `rocenv config set mirrors.PREFIX https://MIRROR/`.
    """
    context = Context()
    if use is not None:
        if names or test:
            raise WrongUsage("`--use` sets one mirror and cannot be combined with ORIGIN or `--test`")
        _use(use, context, as_json=as_json)
        return
    origins = _chosen(names, context.matrix)
    speeds = _speeds(origins, context) if test else {}
    if as_json:
        print_json({"origins": [_origin_json(each, context, speeds) for each in origins]})
        return
    for number, origin in enumerate(origins):
        print_text("\n".join(([""] if number else []) + list(_lines(origin, context, speeds))))
    note("")
    working = {address for address, speed in speeds.items() if not speed.error}
    if speeds:
        none = f"none of the {len(speeds)} addresses work: check your network, VPN and proxy"
        note(f"{len(working)} of {len(speeds)} addresses work" if working else none)
    listed = [row for origin in origins for row in _fastest_first(mirrors_of(origin, context.matrix), speeds)]
    usable = next((row.name for row in listed if not speeds or row.address in working), "")
    example = f", for example: `rocenv config mirrors --use {usable}`" if usable else ""
    note(fill(_TRUST, {"example": example}))


def _chosen(names: Sequence[str], matrix: Matrix) -> list[Origin]:
    known = {row.name: row for row in matrix.origin}
    for name in names:
        if name not in known:
            raise WrongUsage(f"there is no origin `{name}`", hints=(f"choose from {', '.join(known)}",))
    return [row for row in known.values() if row.name in names or not names]


def _use(name: str, context: Context, *, as_json: bool) -> None:
    from rocenv.config import assign_all

    matrix = context.matrix
    mirror = next((row for row in matrix.mirror if row.name == name), None)
    if mirror is None:
        raise RocenvError(
            f"there is no mirror `{name}`",
            hints=("list the mirrors: `rocenv config mirrors`",),
            code="mirror-unknown",
        )
    origin = next(row for row in matrix.origin if row.name == mirror.of)
    path = context.home.config_file
    settings = mirror.settings(origin)
    before = {prefix: list(addresses) for prefix, addresses in context.config.mirrors}
    assign_all(path, {("mirrors", prefix): address for prefix, address in settings.items()})
    for prefix, address in settings.items():
        note(f"set `mirrors.{prefix}` to {address} in {path}")
    for prefix in settings:
        old = before.get(prefix)
        value = f"set mirrors.{prefix} {shell_join(json.dumps(old))}" if old else f"unset mirrors.{prefix}"
        note(f"to undo: `rocenv config {value}`")
    if as_json:
        print_json({"set": settings, "path": str(path)})


def _speeds(origins: Sequence[Origin], context: Context) -> dict[str, Speed]:
    """Measure the origins and their mirrors, and return the speed of each URL."""
    from rocenv.net.speed import measure

    tested = {
        address: f"{address.rstrip('/')}/{origin.sample}"
        for origin in origins
        if origin.sample
        for address in (*_own(origin), *(row.address for row in mirrors_of(origin, context.matrix)))
    }
    note(f"Testing {len(tested)} addresses; this takes a few seconds…")
    return dict(zip(tested, measure(list(tested.values()), context.network), strict=True))


def _own(origin: Origin) -> list[str]:
    """Return the origin's own URL, if it has one."""
    return [each for each in origin.prefixes[:1] if each.startswith("https://")]


def _fastest_first(rows: Sequence[Mirror], speeds: Mapping[str, Speed]) -> list[Mirror]:
    return sorted(rows, key=lambda row: -speeds[row.address].bytes_per_s if row.address in speeds else 0)


def _lines(origin: Origin, context: Context, speeds: Mapping[str, Speed]) -> Iterator[str]:
    yield color(f"{origin.name}: {origin.title}", "cyan")
    yield from (f"  {prefix}" for prefix in origin.prefixes)
    if origin.note:
        yield f"  ({origin.note})"
    rows = _fastest_first(mirrors_of(origin, context.matrix), speeds)
    indent = " " * (2 + max((len(row.name) for row in rows), default=0) + 2)
    for address in _own(origin):
        if address in speeds:
            yield "  itself".ljust(len(indent)) + _speed_text(speeds[address])
    for row in rows:
        is_set = row.address in _set_addresses(origin, context)
        yield f"  {row.name}".ljust(len(indent)) + row.address + (" (set)" if is_set else "")
        yield f"{indent}{row.operator} ({row.region})" + (f"; {row.note}" if row.note else "")
        if row.address in speeds:
            yield indent + _speed_text(speeds[row.address])


def _set_addresses(origin: Origin, context: Context) -> set[str]:
    return {
        address
        for prefix, addresses in context.config.mirrors
        for address in addresses
        if prefix in origin.prefixes
    }


def _speed_text(speed: Speed) -> str:
    if speed.error:
        return color(sanitized(speed.error), "yellow")
    redirected = f", redirects to {sanitized(speed.redirected_to)}" if speed.redirected_to else ""
    return f"{size_text(speed.bytes_per_s)}/s, first byte after {speed.first_byte_s:.2f} s{redirected}"


def _origin_json(origin: Origin, context: Context, speeds: Mapping[str, Speed]) -> dict[str, Any]:
    own = next(iter(_own(origin)), "")
    return {
        "name": origin.name,
        "title": origin.title,
        "prefixes": list(origin.prefixes),
        "note": origin.note,
        "speed": _speed_json(speeds.get(own)),
        "mirrors": [
            {
                **{name: value for name, value in structs.asdict(row).items() if name != "of"},
                "set": row.address in _set_addresses(origin, context),
                "speed": _speed_json(speeds.get(row.address)),
            }
            for row in _fastest_first(mirrors_of(origin, context.matrix), speeds)
        ],
    }


def _speed_json(speed: Speed | None) -> dict[str, Any] | None:
    """Convert a `--test` result, or None if there is none, to JSON."""
    if speed is None:
        return None
    if speed.error:
        return {"error": speed.error}
    return {
        "first_byte_s": round(speed.first_byte_s, 3),
        "bytes_per_s": round(speed.bytes_per_s),
        "redirected_to": speed.redirected_to or None,
    }
