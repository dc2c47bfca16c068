"""What the profiles of apps say about a log: texts that show a cause, and what to try at it. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.core.template import fill
from rocenv.data.rules import Sign
from rocenv.diagnose.texts import Step, plain_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.core.language import Language
    from rocenv.data.apps import Fallback, Launcher
    from rocenv.data.rows import Matrix
    from rocenv.diagnose.facts import Facts

# Less than a cause needs to speak for its consequences, or to be told beside another: what a rule says of a
# line and of what stands around it counts for more.
_WEIGHT = 0.45
_UNKNOWN = {
    "name": "NAME",
    "another": "NAME2",
    "target": "TARGET",
    "code_target": "TARGET",
    "program": "PROGRAM",
}


def signs_of_apps(matrix: Matrix) -> Mapping[str, tuple[Sign, ...]]:
    """Return code -> signs of it in logs of apps, from the failures in their profiles."""
    found: dict[str, list[Sign]] = {}
    for launcher in matrix.launcher:
        for failure in launcher.failures:
            if failure.code:
                sign = Sign(text=(failure.text,), when=_condition(launcher), weight=_WEIGHT)
                found.setdefault(failure.code, []).append(sign)
    return {code: tuple(signs) for code, signs in found.items()}


def _condition(launcher: Launcher) -> dict[str, str]:
    """Return in which logs a failure counts: in the app's; in any that `launch` kept, for any program's."""
    is_any = not (launcher.command or launcher.entries or launcher.programs)
    return {**({"launched": "*"} if is_any else {"app": re.escape(launcher.key)}), "nvidia": ""}


def steps_of_apps(
    matrix: Matrix, facts: Facts, code: str, values: Mapping[str, str], language: Language
) -> tuple[Step, ...]:
    """Return what the app that a log is of says to try at a cause, in its order."""
    rows = next((rows for rows in _fallbacks(matrix, facts, code) if rows), ())
    env, target = values.get("env", ""), values.get("gfx", "")
    # Which names are free is known where it is typed.
    another = f"{env}2" if env else ""
    known = {"name": env, "another": another, "target": target, "code_target": target}
    places = {place: plain_word(known.get(place, "")) or word for place, word in _UNKNOWN.items()}
    return tuple(
        Step(
            text=fill(row.zh if language == "zh" else row.text, places),
            commands=(fill(row.command, places),) if row.command else (),
        )
        for row in rows
    )


def _fallbacks(matrix: Matrix, facts: Facts, code: str) -> Iterator[Sequence[Fallback]]:
    for app in facts.get("app", ()):
        for launcher in matrix.launcher:
            if launcher.key == app:
                yield [row for row in launcher.fallbacks if row.code == code]
