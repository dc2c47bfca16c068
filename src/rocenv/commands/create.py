"""`rocenv create`: resolve, plan, fetch, install, verify."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rocenv.commands.build_windows import build_windows
from rocenv.commands.output import json_option, note, print_json
from rocenv.commands.plan_view import plan_json, plan_text
from rocenv.commands.resolve import Asked, completed, plan_of, request_options, visible_gpus
from rocenv.commands.verify import print_ladder, verdict_text
from rocenv.context import Context
from rocenv.core.codec import verification_to_plain
from rocenv.core.errors import FetchError, RocenvError
from rocenv.core.model import VENV, Machine, Request
from rocenv.core.versions import series
from rocenv.prefix import prefix_of
from rocenv.system import WINDOWS
from rocenv.system.files import storage_errors
from rocenv.system.machine import cloud_folder
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.core.model import Lock, Record, Verification
    from rocenv.prefix import Prefix
    from rocenv.sources.lock_review import Review

_MOST_LINES = 5  # of what is foreign in a lock; `--dry-run` shows all


@click.command()
@click.argument("name")
@request_options
@click.option(
    "--from",
    "lock_file",
    metavar="LOCK",
    type=click.Path(path_type=Path),
    help="Build the set that a lock names.",
)
@click.option(
    "--trust-lock",
    is_flag=True,
    help="Build a lock even if it uses unknown servers or settings.",
)
@click.option("--offline", is_flag=True, help="Use only what was fetched before.")
@click.option("--no-verify", is_flag=True, help="Do not prove the env once it is made.")
@click.option("--dry-run", is_flag=True, help="Stop after showing the plan.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def command(
    name: str,
    request: Request,
    lock_file: Path | None,
    trust_lock: bool,
    offline: bool,
    no_verify: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Make the env NAME: a matched set in a prefix of its own, proved to work as far as this machine can.

    Without --rocm the best set for the target is taken.
    """
    from rocenv.commands.activate import activation_line
    from rocenv.install.build import require_place
    from rocenv.resolve.apps import lacking
    from rocenv.resolve.drivers import lacking_on_wsl

    _require_compatible(request, lock_file, trust_lock=trust_lock)
    context = Context(offline=offline)
    prefix = prefix_of(context.home, name)
    if not dry_run:
        require_place(prefix, context)
        if cloud := cloud_folder(context.home.path):
            note(f"`{context.home.path}` is in `{cloud}`: OneDrive would upload gigabytes")
            note(r"better: `setx ROCENV_HOME C:\rocenv`, and a new window")
    with storage_errors(context.home.path):
        asked = Asked(request=request, machine=Machine()) if lock_file else completed(request, context)
        lock, found = _read(lock_file, context) if lock_file else (plan_of(asked, context), None)
    said = (
        *(found.lines if found else ()),
        *lacking(lock, asked.machine, context.matrix, f"rocenv create {shell_join(name)}"),
        *lacking_on_wsl(lock, asked.machine, context.matrix),
    )
    if dry_run:
        if as_json:
            print_json(plan_json(lock, said, found))
        else:
            click.echo(plan_text(lock, said, sets_variables=lock_file is not None))
        return 0
    note(plan_text(lock, said, sets_variables=lock_file is not None))
    if lock_file is not None:
        _warn_of_known(lock, context)
    require_installable(lock)
    if not _confirm_trust(name, lock_file, found, trusted=trust_lock, yes=yes):
        _confirm(yes)
    with storage_errors(context.home.path):
        if lock.platform == "windows":
            record = build_windows(name, lock, context)
        else:
            record = _build(name, lock, asked, lock_file, context)
    verdict = None if no_verify else _verify(prefix, context)
    if as_json:
        print_json(
            {
                "env": name,
                "prefix": str(prefix.path),
                "plan": plan_json(record.lock, said, found),
                "verify": verification_to_plain(verdict) if verdict else None,
            }
        )
    note(f"\nactivate with:  {activation_line(prefix, record.lock.platform)}")
    note(f"or run one command:  rocenv run {shell_join(name)} -- COMMAND")
    return 1 if verdict is not None and verdict.broken else 0


def _require_compatible(request: Request, lock_file: Path | None, *, trust_lock: bool) -> None:
    if lock_file and request != Request(platform=""):
        raise click.UsageError("--from names the whole set; it goes with no option that asks for another one")
    if trust_lock and not lock_file:
        raise click.UsageError("--trust-lock goes with --from")


def _read(lock_file: Path, context: Context) -> tuple[Lock, Review]:
    """Read a lock for this machine, and tell what in it is not rocenv's own."""
    from rocenv.core.lock import for_this_machine, read_lock
    from rocenv.data.environment import changes_on_wsl, machine_variables
    from rocenv.host import detect
    from rocenv.sources.apt.mirrors import relocated
    from rocenv.sources.lock_review import review

    lock, found = review(relocated(read_lock(lock_file), context), context)
    host = detect(context.matrix)
    is_here = host.platform == lock.platform
    changes = visible_gpus(host, lock.targets) if is_here else ()
    for row in changes_on_wsl(lock.components, context.matrix) if is_here and host.driver.wsl else ():
        note(row.note)
        changes += (row.change,)
    return for_this_machine(lock, changes, machine_variables(context.matrix)), found


def _warn_of_known(lock: Lock, context: Context) -> None:
    """Say that a set is known to fail: a lock may name one that no resolution would."""
    from rocenv.resolve.suggest import suggest_env
    from rocenv.resolve.verdicts import known_broken

    for row in known_broken(lock, context.matrix)[:1]:
        note(f"warning: such a set is known to fail: {row.what} [{row.source.partition(';')[0].strip()}]")
        command = suggest_env(lock, context.matrix, Machine(platform=lock.platform))
        if command:
            note(f"A set without this problem: `{command}`")


def require_installable(lock: Lock) -> None:
    """Raise RocenvError for a set for another system, or with a part whose file only the user can name."""
    from rocenv.resolve.request import resolve_command

    here = "windows" if WINDOWS else "linux"
    plan = f"the plan alone: `{resolve_command(lock.request, here)}`"
    if lock.platform != here:
        raise RocenvError(
            f"rocenv can plan a set for {lock.platform.capitalize()} here, but install it only there",
            hints=(plan,),
            code="not-installable",
        )
    for part in lock.components:
        # PyTorch may bring the libraries of ROCm itself.
        if not part.artifacts and not (part.kind == "rocm" and part.into == VENV):
            raise RocenvError(
                f"rocenv does not know which file is {part.name} {part.version} from {part.channel}",
                hints=(*(note for note in lock.notes if f"/{part.channel}/" in note), plan),
                code="not-installable",
            )


def _confirm(yes: bool) -> None:
    """Ask where somebody is there to answer; a script that calls `create` means it."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not click.confirm("Go on?", default=True, err=True):
        raise click.Abort


def _confirm_trust(
    name: str, lock_file: Path | None, found: Review | None, *, trusted: bool, yes: bool
) -> bool:
    """Ask whether to build a lock with something foreign in it; return whether somebody said yes.

    Raises:
        RocenvError: Nobody is there to ask; `--yes` does not answer this question.
    """
    if lock_file is None or found is None or not found.is_foreign or trusted:
        return False
    most = found.lines[:_MOST_LINES]
    more = f"; and {len(found.lines) - len(most)} more" if len(found.lines) > len(most) else ""
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        note(f"This lock {'; it '.join(most)}{more}.")  # the plan above may be long, by intent
        return click.confirm("Do you trust its author?", default=False, err=True, abort=True)
    command = f"rocenv create {shell_join(name, '--from', str(lock_file))}"
    raise RocenvError(
        f"the lock `{lock_file}` needs your approval: it {'; it '.join(most)}{more}",
        hints=(
            f"review the plan: `{command} --dry-run`",
            f"to build it anyway: `{command} --trust-lock`",
        ),
        code="lock-untrusted",
    )


def _build(name: str, lock: Lock, asked: Asked, lock_file: Path | None, context: Context) -> Record:
    from rocenv.install.build import build

    try:
        return build(name, lock, context)
    except FetchError as error:
        if error.code not in ("gone", "hash-mismatch", "truncated"):
            raise
        if lock_file is not None:
            raise _left_the_mirror(name, lock, error, context) from error
        # The mirror has moved on since its index was read: read it again, once.
        fresh = plan_of(asked, context.refreshing())
        if fresh.components == lock.components:
            raise
        note("the mirror has moved on; the new plan is:")
        note(plan_text(fresh))
        return build(name, fresh, context)


def _left_the_mirror(name: str, lock: Lock, error: FetchError, context: Context) -> FetchError:
    """Return an error that says what a lock names but the mirror has no more, and the nearest set it has."""
    from rocenv.plan import make_plan
    from rocenv.resolve.request import create_command

    hints = ["fetch the package from an archive of the mirror, or keep a copy of the cache folder"]
    rocm = lock.part("rocm")
    if rocm is not None:
        release = series(rocm.version)
        torch = "*" if lock.request.torch else ""
        only_named = {each.name for each in context.matrix.channels.values() if each.only_named}
        channel = rocm.channel if rocm.channel in only_named else ""
        wish = replace(lock.request, rocm=release, target=lock.target, torch=torch, channel=channel)
        try:
            nearest = make_plan(wish, context.refreshing())
        except RocenvError:
            hints.append(f"no other set of ROCm {release} is available for {lock.target} now")
        else:
            found = nearest.components[0]
            command = create_command(name, replace(wish, channel=found.channel))
            hints.insert(
                0, f"the nearest set available now: ROCm {found.version} from {found.channel}: `{command}`"
            )
    return FetchError(
        f"the lock cannot be rebuilt: {error.message}", hints=tuple(hints), code="left-the-mirror"
    )


def _verify(prefix: Prefix, context: Context) -> Verification:
    from rocenv.verify import verify

    note("")
    verdict = verify(
        prefix,
        context.matrix,
        context.progress,
        report=lambda result: print_ladder(result, err=True),
    )
    note(verdict_text(verdict))
    return verdict
