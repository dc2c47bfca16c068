"""`rocenv upgrade`: build the newest set for an env's request, verify it, and replace the env's set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rocenv.commands.build_env import build_env
from rocenv.commands.create import require_installable, verify_env
from rocenv.commands.options import env_argument, json_option, offline_option, yes_option
from rocenv.commands.output import can_ask, note, print_json, print_text, require_yes
from rocenv.commands.plan_view import plan_json
from rocenv.commands.resolve import plan_for
from rocenv.context import Context
from rocenv.core.codec import verification_to_plain
from rocenv.core.errors import RocenvError
from rocenv.install.fetch import require_room
from rocenv.prefix import prefix_of
from rocenv.system.files import storage_errors
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.model import Component, Lock, Request, Verification
    from rocenv.prefix import Prefix

_SHOWN = 8


@click.command()
@env_argument
@click.option("--rollback", is_flag=True, help="Go back to the set from before the last upgrade.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@offline_option
@click.option("--no-verify", is_flag=True, help="Do not verify the new set.")
@yes_option
@json_option
def command(
    name: str, rollback: bool, dry_run: bool, offline: bool, no_verify: bool, yes: bool, as_json: bool
) -> int:
    """Upgrade the env NAME to the newest set that meets the request from which it was created.

    The new set is built and verified first, and only then replaces the old one. The old set is kept as
    `NAME~old` until the next upgrade, and --rollback goes back to it.
    """
    from rocenv.install import upgrade
    from rocenv.request import complete_request

    if rollback and (dry_run or offline or no_verify):
        raise click.UsageError("--rollback can be combined only with -y and --json")
    context = Context(offline=offline)
    name = prefix_of(context.home, name).name
    with storage_errors(context.home.path):
        upgrade.settle(context.home, name)
    prefix = prefix_of(context.home, name)
    record = prefix.record()
    if rollback:
        return _roll_back(context, prefix, as_json=as_json)
    complete = complete_request(_request_again(record.lock), context, note)
    with storage_errors(context.home.path):
        lock = plan_for(complete, context, fallback=False)
    changes = list(_changes(record.lock, lock))
    result = {"env": name, "changed": False, "changes": changes, "plan": plan_json(lock)}
    if changes:
        print_text(_text(name, changes, lock), err=not dry_run or as_json)
        if added := upgrade.added_packages(prefix, record):
            note(_about_added(name, added))
    else:
        note(f"env `{name}` already has the newest set for its request")
    if changes:
        require_installable(lock)
        require_room(lock, context.home)
    if changes and not dry_run:
        if not yes and can_ask():
            require_yes("Continue?", default=True)
        verdict = _swap(context, name, lock, verifies=not no_verify)
        plain = verification_to_plain(verdict) if verdict else None
        result = {**result, "changed": True, "verify": plain}
        note(f"upgraded env `{name}`; to undo: `rocenv upgrade {shell_join(name)} --rollback`")
    if as_json:
        print_json(result)
    return 0


def _swap(context: Context, name: str, lock: Lock, *, verifies: bool) -> Verification | None:
    """Build the new set, verify it, and replace the old set with it.

    Raises:
        RocenvError: The new set does not work on this machine, so the env keeps the old one.
    """
    from rocenv.install import upgrade

    new = upgrade.newer(context.home, name)
    with storage_errors(context.home.path):
        _build_beside(new, lock, context)
    verdict = verify_env(new, context) if verifies else None
    if verdict is not None and verdict.broken:
        raise RocenvError(
            f"the new set, env `{new.name}`, does not work on this machine, so env `{name}` is unchanged",
            hints=(
                f"rocenv verify {shell_join(new.name)}",
                f"to remove it: `rocenv remove {shell_join(new.name)}`",
            ),
            code="upgrade-broken",
        )
    with storage_errors(context.home.path):
        upgrade.swap_in(context.home, name)
    return verdict


def _roll_back(context: Context, prefix: Prefix, *, as_json: bool) -> int:
    from rocenv.install.upgrade import roll_back

    before = prefix.record().lock
    with storage_errors(context.home.path):
        roll_back(context.home, prefix.name)
    lock = prefix_of(context.home, prefix.name).record().lock
    changes = list(_changes(before, lock))
    if as_json:
        print_json({"env": prefix.name, "changed": True, "changes": changes, "plan": plan_json(lock)})
    note(_text(prefix.name, changes, None))
    note(f"env `{prefix.name}` is back on its old set; verify it: `rocenv verify {shell_join(prefix.name)}`")
    return 0


def _request_again(lock: Lock) -> Request:
    """Return a lock's request, with only the options that were passed to `create`.

    Raises:
        RocenvError: The lock was not created from a request; for example, it is for a compiler.
    """
    from rocenv.resolve.request import NO_TORCH

    request = lock.request
    if not request.target:
        raise RocenvError(
            "this env was not created from a request, so there is nothing to resolve again",
            hints=("`rocenv list` shows the envs",),
            code="not-upgradable",
        )
    torch = request.torch or (NO_TORCH if request.zluda else "")
    return replace(request, target=",".join(lock.targets), more_targets=(), torch=torch)


def _changes(old: Lock, new: Lock) -> Iterator[dict[str, str | None]]:
    """Yield an entry for each part that differs between two sets."""
    before, after = _by_name(old), _by_name(new)
    for key in dict.fromkeys((*after, *before)):
        was, now = before.get(key), after.get(key)
        if was is None or now is None or not _is_same(was, now):
            yield {
                "part": key,
                "from": f"{was.version} from {was.channel}" if was else None,
                "to": f"{now.version} from {now.channel}" if now else None,
            }


def _by_name(lock: Lock) -> dict[str, Component]:
    return {
        part.kind if part.name in (part.kind, part.channel) else f"{part.kind} {part.name}": part
        for part in lock.components
    }


def _is_same(was: Component, now: Component) -> bool:
    """Whether a planned part is the installed one.

    A plan may lack hashes that the first download records, and it lists AMD's installer even if the
    installed part is a copy of an SDK. In these cases, compare the versions.
    """
    if (was.version, was.channel, was.python) != (now.version, now.channel, now.python):
        return False
    there, planned = ({each.sha256 for each in part.artifacts} for part in (was, now))
    return "" in planned or there == planned


def _text(name: str, changes: list[dict[str, str | None]], lock: Lock | None) -> str:
    lines = [f"Changes to env `{name}`"]
    for each in changes:
        was, now = each["from"] or "none", each["to"] or "removed"
        same = " (the same version; some of its packages are newer)" if was == now else ""
        lines.append(f"  {each['part']}: {was}" + (same or f" -> {now}"))
    for text in (*lock.warnings, *lock.local_notes, *lock.notes) if lock else ():
        lines.append(f"  - {text}")
    return "\n".join(lines)


def _about_added(name: str, added: list[str]) -> str:
    """Report which of the user's packages the new set will lack, and how to list them."""
    from rocenv.core.versions import joined
    from rocenv.install.upgrade import OLDER

    old = shell_join(f"{name}{OLDER}")
    return (
        f"the new set omits {len(added)} packages that you installed in this env: {joined(added, _SHOWN)}; "
        f"after the upgrade, `rocenv run {old} -- python -m pip freeze` lists them"
    )


def _build_beside(new: Prefix, lock: Lock, context: Context) -> None:
    """Build the new set, unless an earlier upgrade already did."""
    from rocenv.install.change import remove

    if new.state == "complete":
        if not list(_changes(new.record().lock, lock)):
            return
        remove(context.home, new.name)
    build_env(new.name, lock, context, None)
