"""`rocenv create`: resolve, plan, download, install, and verify."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocenv.commands.build_env import build_env
from rocenv.commands.options import json_option, offline_option, yes_option
from rocenv.commands.output import can_ask, note, print_json, print_text, require_yes, silent
from rocenv.commands.plan_view import plan_json, plan_text
from rocenv.commands.resolve import plan_for, request_options, requirements
from rocenv.commands.verify import print_rung, verdict_text
from rocenv.context import Context
from rocenv.core.codec import verification_to_plain
from rocenv.core.errors import OnlyFallback, ResolutionImpossible, RocenvError
from rocenv.core.lock import read_lock
from rocenv.core.model import VENV, Machine, Request, series
from rocenv.install.fetch import bytes_to_come, require_room
from rocenv.prefix import prefix_of
from rocenv.system import WINDOWS
from rocenv.system.files import storage_errors
from rocenv.system.machine import cloud_folder
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocenv.core.model import Lock, Verification
    from rocenv.install.bundle import Bundle
    from rocenv.prefix import Prefix
    from rocenv.request import CompleteRequest
    from rocenv.sources.lock_review import Review

_ACCEPT = "to install it: add `--accept-fallback`"
_MAX_LINES = 5  # when reviewing a lock; `--dry-run` shows them all


@click.command()
@click.argument("name", required=False)
@request_options
@click.option(
    "--from",
    "lock_file",
    metavar="LOCK|BUNDLE",
    type=click.Path(path_type=Path),
    help="Install exactly the set in a lock or bundle.",
)
@click.option(
    "--trust-lock",
    is_flag=True,
    help="Install a lock even if it contains unknown servers or settings.",
)
@offline_option
@click.option("--no-verify", is_flag=True, help="Do not verify the new env.")
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option(
    "--accept-fallback",
    is_flag=True,
    help="Accept a worse set if the best one cannot be downloaded.",
)
@yes_option
@json_option
def command(
    name: str | None,
    request: Request,
    lock_file: Path | None,
    trust_lock: bool,
    offline: bool,
    no_verify: bool,
    dry_run: bool,
    accept_fallback: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Create the env NAME with a set of matching releases, and verify as much as possible on this machine.

    Without --rocm, rocenv chooses the best set for the GPU. Without NAME, the env is named after --app, or
    `default`. Without arguments on a terminal, rocenv offers the sets that make sense on this machine.
    """
    from rocenv.commands.activate import activation_line, example_line
    from rocenv.request import CompleteRequest, complete_request

    _require_compatible(request, lock_file, trust_lock=trust_lock, accept_fallback=accept_fallback)
    context = Context(offline=offline)
    guided = name is None and request == Request(platform="") and lock_file is None and not yes and can_ask()
    if guided:
        name, request = _choose(context)
    name = name or request.app.lower() or "default"
    prefix = prefix_of(context.home, name)
    _check_place(prefix, context, changes=not dry_run)
    may_ask = not (yes or dry_run) and can_ask()
    review: Review | None = None
    bundle: Bundle | None = None
    worse: OnlyFallback | None = None
    with storage_errors(context.home.path):
        if lock_file:
            complete = CompleteRequest(request=request, machine=Machine())
            lock, review, bundle = _read_set(lock_file, name, request.target, context)
        else:
            # The guide has already shown the notes.
            complete = complete_request(request, context, silent if guided else note)
            with _suggesting(f"rocenv create {shell_join(name)}", has_target=bool(request.target)):
                lock, worse = _plan(complete, context, fallback=accept_fallback, may_ask=may_ask)
    notes = (
        *(review.lines if review else ()),
        *requirements(lock, complete, context, f"rocenv create {shell_join(name)}"),
    )
    to_come = bytes_to_come(lock, context.home, context.bundled)
    text = plan_text(lock, notes, of_lock=lock_file is not None, to_come=to_come)
    if dry_run:
        if not as_json:
            print_text(text)
        require_installable(lock)
        require_room(lock, context.home, context.bundled)
        if as_json:
            print_json(plan_json(lock, notes, review))
        return 0
    note(text)
    if lock_file is not None:
        _warn_if_known_broken(lock, name, context)
    require_installable(lock)
    require_room(lock, context.home, context.bundled)
    if lock_file is not None and review is not None and review.is_foreign and not trust_lock:
        _confirm_trust(name, lock_file, review, yes=yes)
    elif worse is not None or (not yes and can_ask() and (lock.warnings or not guided)):
        _confirm(lock, worse)
    again = partial(_plan_again, complete, lock, context, fallback=accept_fallback, may_ask=may_ask)
    with storage_errors(context.home.path):
        _take_extras(bundle, lock, context)
        record = build_env(name, lock, context, None if lock_file else again)
    verdict = None if no_verify else verify_env(prefix, context)
    if as_json:
        print_json(
            {
                "env": name,
                "prefix": str(prefix.path),
                "plan": plan_json(record.lock, notes, review),
                "verify": verification_to_plain(verdict) if verdict else None,
            }
        )
    note(f"\nactivate it:  {activation_line(prefix, record.lock.platform)}", verbatim=True)
    note(f"or run one command:  {example_line(name)}", verbatim=True)
    return 1 if verdict is not None and verdict.broken else 0


def _choose(context: Context) -> tuple[str, Request]:
    from rocenv.commands.guide import choose_request

    request = choose_request(context)
    return context.home.unused_name(request.app or "default"), request


def _require_compatible(
    request: Request, lock_file: Path | None, *, trust_lock: bool, accept_fallback: bool
) -> None:
    if lock_file and (accept_fallback or request != Request(platform="", target=request.target)):
        raise click.UsageError("--from specifies the whole set; omit the options that change it")
    if trust_lock and not lock_file:
        raise click.UsageError("--trust-lock needs --from")


@contextlib.contextmanager
def _suggesting(create: str, *, has_target: bool) -> Iterator[None]:
    """Replace `rocenv resolve` in an error's suggestions with `rocenv create`.

    Commands for other systems are left unchanged, because sets for those systems can only be planned here.
    If `has_target` is false, the target was detected on this machine, so the commands do not need it.
    """
    try:
        yield
    except ResolutionImpossible as error:
        for each in error.suggestions:
            if "--platform" in each.command:
                continue
            command = each.command.replace("rocenv resolve", create)
            if not has_target:
                command = re.sub(r" --target \S+", "", command)
            error.hints = tuple(hint.replace(each.command, command) for hint in error.hints)
        raise


def _plan(
    complete: CompleteRequest, context: Context, *, fallback: bool, may_ask: bool
) -> tuple[Lock, OnlyFallback | None]:
    """Plan a request.

    If only a fallback is available, also return the reason, so that the user can decide.
    """
    try:
        return plan_for(complete, context, fallback=fallback), None
    except OnlyFallback as error:
        if not may_ask:
            error.hints += (_ACCEPT,)
            raise
        return error.lock, error


def _plan_again(
    complete: CompleteRequest, lock: Lock, context: Context, *, fallback: bool, may_ask: bool
) -> Lock:
    """Plan again with fresh package lists, because the mirror no longer has one of the set's files.

    The new set is a fallback if its release series differ from those that the user accepted.
    """
    fresh, worse = _plan(complete, context.refreshing(), fallback=fallback, may_ask=may_ask)
    if worse is None and not fallback and _releases(fresh, series) != _releases(lock, series):
        gone, found = (" with ".join(_releases(each, str)) for each in (lock, fresh))
        worse = OnlyFallback(f"{gone} is no longer complete; only {found} can be installed", lock=fresh)
        if not may_ask:
            worse.hints = (_ACCEPT,)
            raise worse
    if worse is not None and fresh.components != lock.components:
        _confirm(fresh, worse)
    return fresh


def _releases(lock: Lock, spelled: Callable[[str], str]) -> list[str]:
    """List the versions by which users choose a set."""
    titles = {"rocm": "ROCm", "torch": "torch", "zluda": "ZLUDA"}
    return [f"{titles[part.kind]} {spelled(part.version)}" for part in lock.components if part.kind in titles]


def _check_place(prefix: Prefix, context: Context, *, changes: bool) -> None:
    """Reject a location where envs cannot work, and warn about one that OneDrive uploads."""
    from rocenv.install.build import require_free, require_place

    if not changes:
        require_free(prefix)
        return
    require_place(prefix, context)
    if cloud := cloud_folder(context.home.path):
        note(f"`{context.home.path}` is in `{cloud}`: OneDrive would upload gigabytes")
        note(r"to avoid this, run `setx ROCENV_HOME C:\rocenv`, then open a new window")


def _confirm(lock: Lock, worse: OnlyFallback | None) -> None:
    """Ask whether to install a set. The default is yes only if the set fully supports the GPU."""
    if worse is None:
        require_yes("Continue?", default=not lock.warnings)
        return
    note("\n".join((f"warning: {worse.message}", *(f"  - {text}" for text in worse.hints))))
    require_yes("Install this set instead?")


def _read_set(path: Path, name: str, target: str, context: Context) -> tuple[Lock, Review, Bundle | None]:
    """Read a lock from a lock file or a bundle, and adapt it; a bundle also provides the files.

    `target` selects some of the set's targets, as `--target` does, or all if it is "".
    """
    from rocenv.install.bundle import proven_files

    bundle = _bundle_in(path)
    if bundle is None:
        return *_adapted(_part_for(target, read_lock(path), context), context), None
    given = _part_for(target, bundle.lock(name), context)
    context.bundled = bundle.artifacts(given)
    context.proven = proven_files(bundle, given, context)
    lock, review = _adapted(given, context)
    return lock, replace(review, files=(*review.files, *bundle.extras)), bundle


def _part_for(target: str, lock: Lock, context: Context) -> Lock:
    from rocenv.request import targets_meant
    from rocenv.sources.rocm_wheels import for_targets

    return for_targets(lock, targets_meant(target, context.matrix), context.matrix) if target else lock


def _bundle_in(path: Path) -> Bundle | None:
    """Open a bundle, or return None if the file is not a bundle or cannot be read."""
    from rocenv.install.bundle import is_bundle, open_bundle

    with contextlib.suppress(OSError):  # reported when the file is read as a lock
        if is_bundle(path):
            return open_bundle(path)
    return None


def _take_extras(bundle: Bundle | None, lock: Lock, context: Context) -> None:
    """Install a bundle's Python if this machine needs it, and add its kernels to the cache."""
    if bundle is None:
        return
    from rocenv.install.bundle import provide_python
    from rocenv.kernels.cache import import_bundled

    provide_python(bundle, lock, context)
    import_bundled(bundle, context)


def _adapted(lock: Lock, context: Context) -> tuple[Lock, Review]:
    """Adapt a lock to this machine, and review the parts that are not from rocenv's data."""
    from rocenv.core.lock import for_this_machine
    from rocenv.data.environment import changes_on_wsl, machine_variables
    from rocenv.host import detect
    from rocenv.request import visible_gpus
    from rocenv.sources.lock_review import review

    lock, reviewed = review(lock, context)
    host = detect(context.matrix)
    is_here = host.platform == lock.platform
    changes = visible_gpus(host, lock.targets, note) if is_here else ()
    for row in changes_on_wsl(lock.components, context.matrix) if is_here and host.driver.wsl else ():
        note(row.note)
        changes += (row.change,)
    return for_this_machine(lock, changes, machine_variables(context.matrix)), reviewed


def _warn_if_known_broken(lock: Lock, name: str, context: Context) -> None:
    """Warn about a set that is known to fail: resolution never chooses one, but a lock may contain one."""
    from rocenv.resolve.suggest import suggest_env
    from rocenv.resolve.verdicts import known_broken

    for row in known_broken(lock, context.matrix)[:1]:
        note(f"warning: this set is known to fail: {row.what} [{row.source.partition(';')[0].strip()}]")
        if command := suggest_env(lock, context.matrix, Machine(platform=lock.platform), name=name):
            note(f"A set without this problem: `{command}`")


def require_installable(lock: Lock) -> None:
    """Raise RocenvError if a set is for another system or a newer glibc, or contains an unknown file."""
    from rocenv.resolve.request import resolve_command
    from rocenv.sources import c_library

    here = "windows" if WINDOWS else "linux"
    plan = f"see the plan: `{resolve_command(lock.request, here)}`"
    if lock.platform != here:
        system = lock.platform.capitalize()
        raise RocenvError(
            f"rocenv can plan a set for {system} on this machine, but it can install it only on {system}",
            hints=(plan,),
            code="not-installable",
        )
    for part in lock.components:
        if part.glibc and not part.loader and c_library.is_needed(part.glibc):
            raise c_library.too_old(part.name, part.glibc)
        # ROCm in a venv may have no files of its own, because PyTorch's wheels can bundle it.
        if not part.artifacts and not (part.kind == "rocm" and part.into == VENV):
            raise RocenvError(
                f"rocenv does not know which file contains {part.name} {part.version} from {part.channel}",
                hints=(*(note for note in lock.notes if f"/{part.channel}/" in note), plan),
                code="not-installable",
            )


def _confirm_trust(name: str, lock_file: Path, review: Review, *, yes: bool) -> None:
    """Ask whether to install a lock with unknown servers or settings; raise Declined if the user says no.

    Raises:
        RocenvError: There is no terminal; `--yes` does not apply to this question.
    """
    from rocenv.resolve.request import rebuild_command

    lines = review.lines[:_MAX_LINES]
    more = f"; and {len(review.lines) - len(lines)} more" if len(review.lines) > len(lines) else ""
    if not yes and can_ask():
        # Repeat this, because an attacker may have made the plan above long.
        note(f"`{lock_file.name}` {'; it '.join(lines)}{more}.")
        require_yes("Do you trust the lock's author?")
        return
    command = rebuild_command(name, str(lock_file))
    raise RocenvError(
        f"`{lock_file}` needs your approval: it {'; it '.join(lines)}{more}",
        hints=(f"review the plan: `{command} --dry-run`", f"to build it anyway: `{command} --trust-lock`"),
        code="lock-untrusted",
    )


def verify_env(prefix: Prefix, context: Context) -> Verification:
    """Verify an env, and print each rung and the result to stderr."""
    from rocenv.verify import verify

    note("")
    verdict = verify(
        prefix, context.matrix, context.progress, report=lambda result: print_rung(result, err=True)
    )
    note(verdict_text(verdict))
    return verdict
