"""Commands that manage existing envs: list, show, remove, rename, clone, lock, repair and shim."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.options import env_argument, json_option, yes_option
from rocenv.commands.output import can_ask, columns, fields, note, print_json, require_yes
from rocenv.context import Context
from rocenv.core.errors import RocenvError, WrongUsage
from rocenv.core.progress import sanitized, size_text
from rocenv.prefix import all_prefixes, prefix_of
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.core.model import Component
    from rocenv.prefix import Prefix

_SHOWN = 10


def summary(prefix: Prefix) -> dict[str, Any]:
    """Convert an env to JSON, as `list --json` prints it; an env that is not `complete` has fewer keys."""
    answer: dict[str, Any] = {"name": prefix.name, "state": prefix.state, "prefix": str(prefix.path)}
    if prefix.state != "complete":
        return answer
    try:
        record = prefix.record()
    except RocenvError as error:
        return answer | {"state": "damaged", "message": error.message}
    answer |= {"platform": record.lock.platform, "target": record.lock.target, "created": record.created}
    if record.lock.request.more_targets:
        answer["targets"] = list(record.lock.targets)
    answer["components"] = [fields(part, "kind", "version", "channel") for part in record.lock.components]
    last = prefix.verification()
    answer["verified"] = last.level if last else ""
    return answer


@click.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the envs with their components and the last check that passed."""
    found = [summary(prefix) for prefix in all_prefixes(Context().home)]
    if as_json:
        print_json({"envs": found})
        return
    if not found:
        note("there are no envs yet; create one: `rocenv create --torch`")
        return
    rows: list[tuple[str, ...]] = [("NAME", "TARGET", "VERIFIED", "COMPONENTS")]
    for env in found:
        parts = ", ".join(f"{part['kind']} {part['version']}" for part in env.get("components", []))
        foreign = f"(not an env: `rocenv show {shell_join(env['name'])}`)"
        state = {"complete": "", "foreign": foreign}.get(env["state"], f"({env['state']})")
        targets = ", ".join(env.get("targets", [env.get("target", "")]))
        rows.append((env["name"], targets, env.get("verified", "") or "-", parts or state))
    click.echo(columns(rows))


@click.command()
@env_argument
@json_option
def show(name: str, as_json: bool) -> None:
    """Show the parts of the env NAME and why each was chosen, its variables, and what was verified."""
    from rocenv.activate import changes as rules
    from rocenv.activate.env import changes_for_user
    from rocenv.preload import shims_of

    context = Context()
    prefix = prefix_of(context.home, name)
    record = prefix.record()
    lock, files = record.lock, prefix.files(record)
    changes = changes_for_user(lock, str(prefix.path), os.environ)
    answer: dict[str, Any] = summary(prefix) | {
        "files": len(files),
        "size_bytes": sum(entry.size_bytes for entry in files.values()),
        "app": lock.request.app or None,
        "own_loader": record.loader,
        "rocenv_version": record.rocenv_version,
        "environment": rules.apply(changes, {}, lock.platform),
        "notes": [*lock.warnings, *lock.local_notes, *lock.notes],
    }
    shims = shims_of(lock, in_torch=record.shims_in_torch)
    if as_json:
        answer["packages"] = [
            {"kind": each.kind, "name": each.name, "version": each.version}
            for part in lock.components
            for each in part.artifacts
        ]
        answer["shims"] = [
            {"path": each.path, "is": each.source, "original": each.original or None} for each in shims
        ]
        print_json(answer)
        return
    rows: list[tuple[str, ...]] = [
        ("name", name),
        ("prefix", str(prefix.path)),
        ("target", ", ".join(filter(None, lock.targets)) or "any that its compiler supports"),
    ]
    if lock.request.app:
        rows.append(("app", _app_title(lock.request.app, context)))
    for part in lock.components:
        rows.append((part.kind, f"{part.version} from {part.channel}, {_origin(part)}: {part.why}"))
    rows += [
        (
            "files",
            f"{len(files)}, {size_text(answer['size_bytes'])}, shared with envs that use the same packages",
        ),
        ("C library", "its own, with its own loader" if record.loader else "the machine's"),
        ("created", f"{record.created} by rocenv {record.rocenv_version}"),
        ("verified", _verified(prefix)),
    ]
    rows += [
        ("shim", " ".join(filter(None, (f"{each.path} is {each.source}", _backup(each.original)))))
        for each in shims
    ]
    rows += [
        ("" if number else "variables", text)
        for number, text in enumerate(rules.lines(changes, lock.platform))
    ]
    rows += [("warning", text) for text in lock.warnings]
    rows += [("note", text) for text in (*lock.local_notes, *lock.notes)]
    click.echo(sanitized(columns(rows)))


def _verified(prefix: Prefix) -> str:
    last, command = prefix.verification(), f"`rocenv verify {shell_join(prefix.name)}`"
    if last is None:
        return f"not yet: {command}"
    failed = f"; `{last.broken[0].rung}` failed: {command}" if last.broken else ""
    return (f"up to `{last.level}`" if last.level else "nothing passed") + failed


def _origin(part: Component) -> str:
    if part.artifacts and part.artifacts[0].kind == "folder":
        return f"copied from {part.artifacts[0].path}"
    return f"{len(part.artifacts)} package{'s' * (len(part.artifacts) != 1)}"


def _app_title(key: str, context: Context) -> str:
    """Return an app's title, or its key if the data does not contain the app."""
    title = next((row.title for row in context.matrix.launcher if row.key == key), "")
    return f"{title} ({key})" if title and title != key else key


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=candidates.env_names)
@yes_option
def remove(names: tuple[str, ...], yes: bool) -> None:
    """Remove envs and everything in their folders. Files that other envs share are kept."""
    from rocenv.install import change

    context = Context()
    home = context.home
    prefixes = [prefix_of(home, name) for name in dict.fromkeys(names)]
    for prefix in prefixes:
        if prefix.state == "absent":
            prefix.require_complete()
    whole = [prefix for prefix in prefixes if prefix.state == "complete"]
    if whole and not yes:
        if not can_ask():
            raise WrongUsage(
                "without a terminal, `remove` needs `-y`",
                hints=(shell_join("rocenv", "remove", "-y", *names),),
            )
        links = [f"the link `{prefix.path}`" for prefix in whole if prefix.is_link]
        folders = [f"`{prefix.path}` and everything in it" for prefix in whole if not prefix.is_link]
        require_yes(f"Remove {', '.join((*links, *folders))}?")
    for prefix in prefixes:
        linked_folder = prefix.path.resolve() if prefix.is_link else None
        with context.progress.wait(f"Removing env `{prefix.name}`", closing=False):
            change.remove(home, prefix.name)
        if linked_folder is not None:
            note(f"removed the link `{prefix.path}`; `{linked_folder}` still exists")
        else:
            note(f"removed env `{prefix.name}`; `rocenv gc` deletes the packages that no other env needs")


@click.command()
@click.argument("old", shell_complete=candidates.env_names)
@click.argument("new")
def rename(old: str, new: str) -> None:
    """Rename the env OLD to NEW. Shells in which it is active must reactivate it."""
    from rocenv.install import change

    change.rename(Context().home, old, new)
    note(f"renamed env `{old}` to `{new}`")


@click.command()
@click.argument("old", shell_complete=candidates.env_names)
@click.argument("new")
def clone(old: str, new: str) -> None:
    """Create the env NEW with the same set as OLD, but without the packages that you added to OLD."""
    from rocenv.install.build import build
    from rocenv.install.change import move_shims

    context = Context()
    record = prefix_of(context.home, old).record_wherever_made()
    build(prefix_of(context.home, new).name, record.lock, context)
    if record.shims_in_torch:
        move_shims(context.home, new, in_torch=True)
    note(f"created env `{new}` with the set of `{old}`; verify it: `rocenv verify {shell_join(new)}`")


@click.command()
@env_argument
@click.option("-o", "output", metavar="FILE", type=click.Path(path_type=Path), help="Write the lock to FILE.")
@click.option("--json", is_flag=True, expose_value=False, help="Also print errors as JSON.")
def lock(name: str, output: Path | None) -> None:
    """Print the lock of the env NAME: every file with its URL, sha256 and size."""
    from rocenv.core.lock import lock_text
    from rocenv.resolve.request import rebuild_command
    from rocenv.system.files import write_atomic

    text = lock_text(prefix_of(Context().home, name).record_wherever_made().lock)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        if output.exists() and not output.is_file():
            output.write_text(text)  # a pipe or a device, such as `/dev/stdout`
        else:
            write_atomic(output.resolve(), text.encode())
    except OSError as error:
        raise RocenvError(f"cannot write `{output}`: {error.strerror}") from error
    note(f"to create the same set elsewhere: `{rebuild_command(name, str(output))}`")


@click.command()
@env_argument
@json_option
def repair(name: str, as_json: bool) -> None:
    """Restore all missing or changed files of the env NAME. Added files are kept."""
    from rocenv.install import change

    restored = change.repair(name, Context())
    if as_json:
        print_json(
            {"env": name, "repaired": [{"path": path, "what": what} for path, what in restored.items()]}
        )
    for path, what in list(restored.items())[:_SHOWN]:
        note(f"restored {path} (was {what})")
    if len(restored) > _SHOWN:
        note(f"restored {len(restored) - _SHOWN} more files; use `--json` to list them all")
    note(f"env `{name}` matches its record" + ("" if restored else "; there was nothing to restore"))


@click.command()
@env_argument
@click.option(
    "--in-torch",
    is_flag=True,
    help="Replace PyTorch's own files, for apps that load CUDA libraries by path; keep a backup.",
)
@click.option("--undo", is_flag=True, help="Restore PyTorch's own files.")
@json_option
def shim(name: str, in_torch: bool, undo: bool, as_json: bool) -> None:
    """Show which files in the env NAME replace CUDA libraries, or move them.

    By default, they are next to ZLUDA's files, and the env's Python loads them before PyTorch.
    """
    from rocenv.install.change import move_shims
    from rocenv.preload import shims_of

    if in_torch and undo:
        raise click.UsageError("--in-torch and --undo cannot be used together")
    home = Context().home
    prefix = prefix_of(home, name)
    if in_torch or undo:
        changed = move_shims(home, name, in_torch=in_torch)
        place = (
            "replace PyTorch's own files" if in_torch else "are next to ZLUDA's files; PyTorch is unchanged"
        )
        note(f"the shims in env `{name}` {place}" + ("" if changed else " (as before)"))
    record = prefix.record()
    shims = shims_of(record.lock, in_torch=record.shims_in_torch)
    if as_json:
        listed = [
            {"path": s.path, "is": s.source, "stands_for": s.stands_for, "original": s.original or None}
            for s in shims
        ]
        print_json({"env": name, "in_torch": record.shims_in_torch, "shims": listed})
    elif shims:
        click.echo(columns([(s.path, f"is {s.source}", _backup(s.original)) for s in shims]))
    else:
        note(f"env `{name}` has no shims; only ZLUDA envs have them")


def _backup(original: str) -> str:
    return f"(PyTorch's own: {original})" if original else ""
