"""What `doctor --fix` may do: only what is safe, in rocenv's home or the user's own caches, and asked first.

A fix looks for itself what there is to do, and takes no path from a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import PrefixError, RocenvError
from rocenv.doctor.databases import damaged_databases, set_aside
from rocenv.doctor.words import said
from rocenv.prefix import all_prefixes, prefix_of
from rocenv.system.files import storage_errors
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rocenv.context import Context
    from rocenv.core.language import Language
    from rocenv.doctor.run import Finding
    from rocenv.doctor.scene import Scene
    from rocenv.prefix import Prefix


@dataclass(frozen=True, slots=True)
class Fix:
    """One kind of fix; `words` have a sentence for it under its name."""

    items: Callable[[Scene], Iterable[str]]  # what it would be done to
    apply: Callable[[str, Scene, Context], None]  # does it to one of them


@dataclass(slots=True)
class Outcome:
    """How many fixes were done, declined, and failed."""

    done: int = 0
    left: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who is asked and told."""

    ask: Callable[[str], bool] | None  # None = there is nobody to ask
    tell: Callable[[str], None]
    language: Language


def apply(findings: Iterable[Finding], scene: Scene, context: Context, asking: Asking) -> Outcome:
    """Do what the findings allow, each after a yes, and tell what was done and what was not.

    Raises:
        RocenvError: It is not this machine that was examined.
    """
    if scene.elsewhere:
        raise RocenvError(
            "what was examined is a copy of a machine, so nothing can be fixed on it",
            hints=("rocenv doctor --fix   # on that machine",),
            code="fix-elsewhere",
        )
    outcome, known = Outcome(), [finding for finding in findings if finding.fix in FIXES]
    if not known:
        asking.tell(said("nothing", asking.language))
    elif asking.ask is None:
        asking.tell(said("no-terminal", asking.language))
        outcome.left = len(known)
    else:
        _apply_each(known, scene, context, asking, outcome)
    return outcome


def _apply_each(
    findings: list[Finding], scene: Scene, context: Context, asking: Asking, outcome: Outcome
) -> None:
    assert asking.ask is not None
    answered: set[tuple[str, str]] = set()
    for finding in findings:
        items = list(FIXES[finding.fix].items(scene))
        fresh = [item for item in items if (finding.fix, item) not in answered]
        if not items and not any(name == finding.fix for name, _ in answered):
            asking.tell(said("gone", asking.language).format(title=finding.title))
        for item in fresh:
            answered.add((finding.fix, item))
            what = said(finding.fix, asking.language).format(item=item)
            if asking.ask(said("ask", asking.language).format(title=finding.title, what=what)):
                _apply_one(finding.fix, item, what, (scene, context, asking, outcome))
            else:
                outcome.left += 1
                asking.tell(said("left", asking.language).format(what=what))


def _apply_one(name: str, item: str, what: str, within: tuple[Scene, Context, Asking, Outcome]) -> None:
    scene, workshop, asking, outcome = within
    try:
        FIXES[name].apply(item, scene, workshop)
    except (RocenvError, OSError) as error:
        outcome.failed += 1
        why = error.message if isinstance(error, RocenvError) else error.strerror or str(error)
        asking.tell(said("failed", asking.language).format(what=what, why=why))
        for hint in error.hints if isinstance(error, RocenvError) else ():
            asking.tell(hint)
    else:
        outcome.done += 1
        asking.tell(said("done", asking.language).format(what=what))


def _to_repair(scene: Scene) -> list[str]:
    """Return the env that was named, or else those that were moved to another name."""
    if scene.asked is not None:
        return [scene.asked.name]
    return [prefix.name for prefix in _prefixes(scene) if prefix.state == "complete" and _moved(prefix)]


def _prefixes(scene: Scene) -> list[Prefix]:
    """Return the envs' folders, or what there is of the one that was named."""
    name = scene.named.name if scene.named else ""
    return [prefix for prefix in all_prefixes(scene.home) if name in ("", prefix.name)]


def _moved(prefix: Prefix) -> bool:
    try:
        prefix.record()
    except PrefixError as error:
        return error.code == "env-moved"
    except RocenvError:
        return False
    return False


def _repair(name: str, scene: Scene, context: Context) -> None:
    from rocenv.install.change import repair

    repair(name, context)


def _incomplete(scene: Scene) -> list[str]:
    return list(dict.fromkeys(each.name for each in _prefixes(scene) if each.state == "incomplete"))


def _remove_incomplete(name: str, scene: Scene, context: Context) -> None:
    """Remove what an interrupted `create` left; a `create` that goes on now is waited for, and kept."""
    with storage_errors(scene.home.path), locked(scene.home.lock("env", name)):
        if prefix_of(scene.home, name).state == "complete":
            raise PrefixError(f"env `{name}` is complete now", code="env-complete")
        for prefix in all_prefixes(scene.home):
            if prefix.name == name and prefix.state == "incomplete":
                prefix.wipe()


def _databases(scene: Scene) -> list[str]:
    return [str(path) for path in damaged_databases(scene.environ)]


def _set_aside(path: str, scene: Scene, context: Context) -> None:
    if path in _databases(scene):  # still
        set_aside(Path(path))


FIXES: Mapping[str, Fix] = {
    "repair": Fix(_to_repair, _repair),
    "remove-incomplete": Fix(_incomplete, _remove_incomplete),
    "miopen-database": Fix(_databases, _set_aside),
}
