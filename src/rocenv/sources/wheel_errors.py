"""What goes wrong with wheels, in the same words whichever tool found it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError, FetchError, PrefixError, ResolutionImpossible
from rocenv.net.errors import shown

if TYPE_CHECKING:
    from collections.abc import Sequence


def index_name(index_url: str) -> str:
    """Return an index in words, without what signs in there."""
    return shown(index_url) if index_url else "the package index of this machine"


def other_pythons(index_url: str, project: str, pythons: Sequence[str], python: str) -> ResolutionImpossible:
    """Return the error for an index whose wheels are for other Pythons."""
    return ResolutionImpossible(
        f"{index_name(index_url)} has `{project}` for Python {', '.join(pythons)}, not for {python}",
        hints=(f"--python {pythons[-1]}",),
    )


def not_in_index(
    index_url: str, what: str, python: str, reason: str, *, is_empty: bool
) -> ResolutionImpossible:
    """Return the error for an index that cannot give `what`; `is_empty`: as if it were no index at all."""
    name = index_name(index_url)
    hint = f"look at {name}: a proxy's or provider's page may stand in its place"
    return ResolutionImpossible(
        f"{name} cannot give `{what}` for Python {python}: {reason}", hints=(hint,) if is_empty else ()
    )


def not_promised(reason: str) -> FetchError:
    """Return the error for a wheel whose hash is another."""
    return FetchError(
        f"a fetched wheel is not the promised one: {reason}",
        hints=("rocenv cache clear artifacts wheels", "and repeat the command: it fetches them anew"),
        code="hash-mismatch",
    )


def damaged(reason: str) -> ArchiveError:
    """Return the error for what is no whole wheel."""
    return ArchiveError(f"a wheel is damaged: {reason}")


def in_use(reason: str) -> PrefixError:
    """Return the error for a file that Windows does not let go because a program has it open."""
    return PrefixError(
        f"cannot replace a file of the env: {reason}",
        hints=("end the programs that were started from this env, and repeat the command",),
        code="in-use",
    )


def foreign_wheel(project: str, pythons: Sequence[str]) -> PrefixError:
    """Return the error for a locked wheel that the venv's Python cannot use."""
    return PrefixError(
        f"the wheel of {project} is for Python {', '.join(pythons)}, not for that of the venv",
        hints=(f"--python {pythons[-1]}",),
        code="venv",
    )
