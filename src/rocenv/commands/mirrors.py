"""`rocenv config mirrors`: known public mirrors, their speed, and setting one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from rocenv.commands import candidates
from rocenv.commands.output import colour, json_option, note, print_json
from rocenv.context import Context
from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.progress import sanitized, size_text
from rocenv.core.wrap import reading_width, wrapped
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.data.mirrors import Mirror, Origin
    from rocenv.data.rows import Matrix
    from rocenv.net.speed import Speed

_TRUST = (
    "rocenv uses a mirror only if you set it{example}. It checks signatures and hashes of files from "
    "mirrors, too. The hashes of wheels come from an index, so use an index only from a mirror that you "
    "trust."
)


@click.command()
@click.argument("names", metavar="[ORIGIN]...", nargs=-1, shell_complete=candidates.origins)
@click.option("--test", is_flag=True, help="Measure their speed: read up to 1 MB from each, all at once.")
@click.option(
    "--use", metavar="NAME", shell_complete=candidates.mirrors, help="Set this mirror in the settings."
)
@json_option
def command(names: tuple[str, ...], test: bool, use: str | None, as_json: bool) -> None:
    """List known public mirrors, test them, or set one.

    ORIGIN limits the list to mirrors of one download source, such as pytorch or debian. To use your own
    mirror, set a name shown below the origin's title: `rocenv config set mirrors.NAME https://MIRROR/`.
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
        click.echo("\n".join(([""] if number else []) + list(_lines(origin, context, speeds))))
    note("")
    working = {address for address, speed in speeds.items() if not speed.error}
    if speeds:
        none = f"none of the {len(speeds)} addresses works: check your network, VPN and proxy"
        note(f"{len(working)} of {len(speeds)} addresses work" if working else none)
    listed = [row for origin in origins for row in _fastest_first(_mirrors(origin, context.matrix), speeds)]
    usable = next((row.name for row in listed if not speeds or row.address in working), "")
    example = f", for example: `rocenv config mirrors --use {usable}`" if usable else ""
    for line in wrapped(_TRUST.format(example=example), reading_width()):
        note(line)


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
            f"no mirror is named `{name}`",
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
    """Measure the origins and their mirrors: URL -> speed."""
    from rocenv.net.speed import measure

    tested = {
        address: f"{address.rstrip('/')}/{origin.sample}"
        for origin in origins
        if origin.sample
        for address in (*_own(origin), *(row.address for row in _mirrors(origin, context.matrix)))
    }
    note(f"Testing {len(tested)} addresses, for a few seconds…")
    return dict(zip(tested, measure(list(tested.values()), context.network), strict=True))


def _mirrors(origin: Origin, matrix: Matrix) -> list[Mirror]:
    from rocenv.data.mirrors import mirrors_of

    return mirrors_of(origin, matrix)


def _own(origin: Origin) -> list[str]:
    """Return the origin's own URL, if it has one."""
    return [each for each in origin.prefixes[:1] if each.startswith("https://")]


def _fastest_first(rows: Sequence[Mirror], speeds: Mapping[str, Speed]) -> list[Mirror]:
    return sorted(rows, key=lambda row: -speeds[row.address].bytes_per_s if row.address in speeds else 0)


def _lines(origin: Origin, context: Context, speeds: Mapping[str, Speed]) -> Iterator[str]:
    width = reading_width()
    yield colour(f"{origin.name}: {origin.title}", "cyan")
    yield from (f"  {prefix}" for prefix in origin.prefixes)
    if origin.note:
        yield from wrapped(f"({origin.note})", width, "  ", "   ")
    rows = _fastest_first(_mirrors(origin, context.matrix), speeds)
    indent = " " * (2 + max((len(row.name) for row in rows), default=0) + 2)
    for address in _own(origin):
        if address in speeds:
            yield from wrapped(_speed_text(speeds[address]), width, "  itself".ljust(len(indent)), indent)
    for row in rows:
        is_set = row.address in _set_addresses(origin, context)
        yield f"  {row.name}".ljust(len(indent)) + row.address + (" (set)" if is_set else "")
        about = f"{row.operator} ({row.region})" + (f"; {row.note}" if row.note else "")
        yield from wrapped(about, width, indent, indent)
        if row.address in speeds:
            yield from wrapped(_speed_text(speeds[row.address]), width, indent, indent)


def _set_addresses(origin: Origin, context: Context) -> set[str]:
    return {
        address
        for prefix, addresses in context.config.mirrors
        for address in addresses
        if prefix in origin.prefixes
    }


def _speed_text(speed: Speed) -> str:
    if speed.error:
        return colour(sanitized(speed.error), "yellow")
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
            for row in _fastest_first(_mirrors(origin, context.matrix), speeds)
        ],
    }


def _speed_json(speed: Speed | None) -> dict[str, Any] | None:
    """Return a result of `--test`; None = not tested."""
    if speed is None:
        return None
    if speed.error:
        return {"error": speed.error}
    return {
        "first_byte_s": round(speed.first_byte_s, 3),
        "bytes_per_s": round(speed.bytes_per_s),
        "redirected_to": speed.redirected_to or None,
    }
