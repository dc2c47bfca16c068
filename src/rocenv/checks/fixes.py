"""Fixes for `doctor --fix`: safe changes to rocenv's home or the user's caches, each after confirmation.

Each fix determines for itself what to change; it never takes a path from a finding's text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.checks.caches import damaged_databases, set_aside
from rocenv.checks.run import observe
from rocenv.checks.table import CHECKS
from rocenv.core.errors import PrefixError, RocenvError
from rocenv.prefix import all_prefixes, prefix_of
from rocenv.system.files import storage_errors
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rocenv.checks.context import CheckContext
    from rocenv.context import Context
    from rocenv.data.remedies import Texts
    from rocenv.findings import Finding
    from rocenv.prefix import Prefix


@dataclass(frozen=True, slots=True)
class Fix:
    """A fix, described by the message of the same name."""

    items: Callable[[CheckContext], Iterable[str]]  # the names or paths that need the fix
    apply: Callable[[str, CheckContext, Context], None]  # fixes one of them


@dataclass(slots=True)
class Outcome:
    """How many fixes were applied, skipped, or failed."""

    done: int = 0
    left: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialog:
    """Callbacks for communicating with the user."""

    ask: Callable[[str], bool] | None  # None without a terminal
    report: Callable[[str], None]
    texts: Texts

    def say(self, name: str, **values: str) -> None:
        """Report a message."""
        self.report(self.texts(name, **values))


def apply(findings: Iterable[Finding], checked: CheckContext, context: Context, dialog: Dialog) -> Outcome:
    """Offer the findings' fixes, and apply those that the user accepts.

    Raises:
        RocenvError: The findings are about another machine.
    """
    if checked.elsewhere:
        raise RocenvError(
            "cannot fix a snapshot of a machine",
            hints=("rocenv doctor --fix   # on that machine",),
            code="fix-elsewhere",
        )
    findings = list(findings)
    fixable = [finding for finding in findings if finding.fix in FIXES]
    if findings and not fixable:
        dialog.say("fix_nothing")
    if fixable and dialog.ask is None:
        dialog.say("fix_no_terminal")
        return Outcome(left=len(fixable))
    outcome = Outcome()
    offered: set[tuple[str, str]] = set()
    for finding in fixable:
        items = list(FIXES[finding.fix].items(checked))
        if not items and not any(fix == finding.fix for fix, _ in offered):
            dialog.say("fix_gone", title=finding.title)
        for item in items:
            if (finding.fix, item) not in offered:
                offered.add((finding.fix, item))
                _offer(finding, item, (checked, context), dialog, outcome)
    return outcome


def _offer(
    finding: Finding, item: str, contexts: tuple[CheckContext, Context], dialog: Dialog, outcome: Outcome
) -> None:
    what = dialog.texts(finding.fix, item=item)
    assert dialog.ask is not None
    if not dialog.ask(dialog.texts("fix_ask", title=finding.title, what=what)):
        dialog.say("fix_left", what=what)
        outcome.left += 1
        return
    try:
        FIXES[finding.fix].apply(item, *contexts)
    except RocenvError as error:
        outcome.failed += 1
        dialog.say("fix_failed", what=what, why=error.message)
        for hint in error.hints:
            dialog.report(hint)
    except OSError as error:
        outcome.failed += 1
        dialog.say("fix_failed", what=what, why=error.strerror or str(error))
    else:
        outcome.done += 1
        dialog.say("fix_done", what=what)


def _envs_to_repair(checked: CheckContext) -> list[str]:
    """The env to check, or else every env that was renamed by hand or has a fault that `repair` corrects."""
    if checked.env is not None:
        return [checked.env.name]
    moved = [prefix.name for prefix in _prefixes(checked) if prefix.state == "complete" and _is_moved(prefix)]
    return moved + [env.name for env in checked.envs if _is_faulty(replace(checked, env=env))]


def _is_faulty(checked: CheckContext) -> bool:
    fixed = {row.name for row in checked.matrix.advice if row.fix == "repair"}
    return any(
        observation.row in fixed
        for check in CHECKS
        if check.each_env
        for observation in observe(check, checked)
    )


def _prefixes(checked: CheckContext) -> list[Prefix]:
    name = checked.broken.name if checked.broken else ""
    return [prefix for prefix in all_prefixes(checked.home) if name in ("", prefix.name)]


def _is_moved(prefix: Prefix) -> bool:
    try:
        prefix.record()
    except PrefixError as error:
        return error.code == "env-moved"
    except RocenvError:
        return False
    return False


def _repair(name: str, _checked: CheckContext, context: Context) -> None:
    from rocenv.install.change import repair

    repair(name, context)


def _incomplete(checked: CheckContext) -> list[str]:
    return list(dict.fromkeys(each.name for each in _prefixes(checked) if each.state == "incomplete"))


def _remove_incomplete(name: str, checked: CheckContext, _context: Context) -> None:
    """Wait for a running `create` to finish, and remove the env if it is still incomplete."""
    with storage_errors(checked.home.path), locked(checked.home.lock("env", name)):
        if prefix_of(checked.home, name).state == "complete":
            raise PrefixError(f"env `{name}` is complete now", code="env-complete")
        for prefix in all_prefixes(checked.home):
            if prefix.name == name and prefix.state == "incomplete":
                prefix.wipe()


def _databases(checked: CheckContext) -> list[str]:
    return [str(path) for path in damaged_databases(checked.environ)]


def _set_aside(path: str, checked: CheckContext, _context: Context) -> None:
    if path in _databases(checked):  # still damaged
        set_aside(Path(path))


FIXES: Mapping[str, Fix] = {
    "repair": Fix(_envs_to_repair, _repair),
    "remove-incomplete": Fix(_incomplete, _remove_incomplete),
    "miopen-database": Fix(_databases, _set_aside),
}
