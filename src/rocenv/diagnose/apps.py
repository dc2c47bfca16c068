"""Failure patterns from app profiles, and steps that fix the failures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.core.template import fill_all
from rocenv.data.remedies import Step, filled, plain_word
from rocenv.data.rules import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.core.language import Language
    from rocenv.data.apps import Launcher
    from rocenv.data.rows import Matrix
    from rocenv.diagnose.facts import Facts

# Rules are more specific, so app patterns must not hide their findings or be listed next to them.
_WEIGHT = 0.45
_OPTION = re.compile(r" --[\w-]+ \{(\w+)\}")


def app_patterns(matrix: Matrix) -> Mapping[str, tuple[Pattern, ...]]:
    """Map cause codes to patterns for the failures in app profiles."""
    found: dict[str, list[Pattern]] = {}
    for launcher in matrix.launcher:
        for failure in launcher.failures:
            if failure.code:
                pattern = Pattern(text=(failure.text,), when=_condition(launcher), weight=_WEIGHT)
                found.setdefault(failure.code, []).append(pattern)
    return {code: tuple(patterns) for code, patterns in found.items()}


def _condition(launcher: Launcher) -> dict[str, str]:
    """Restrict a failure to its app's logs; a generic profile's failures apply to any log from `launch`."""
    is_generic = not (launcher.command or launcher.entries or launcher.programs)
    return {**({"launched": "*"} if is_generic else {"app": re.escape(launcher.key)}), "nvidia": ""}


def app_steps(
    matrix: Matrix, facts: Facts, code: str, values: Mapping[str, str], language: Language
) -> tuple[Step, ...]:
    """List the steps that the app's profile suggests for a cause, in profile order.

    A command omits options whose values are unknown; their defaults depend on the machine that runs it.
    """
    profiles = (row for app in facts.get("app", ()) for row in matrix.launcher if row.key == app)
    fallbacks = ([row for row in profile.fallbacks if row.code == code] for profile in profiles)
    env, target = plain_word(values.get("env", "")), plain_word(values.get("gfx", ""))
    known = {"name": env or "demo", "another": plain_word(values["another"])}
    known |= {"target": target, "code_target": target} if target else {}

    def command(template: str) -> str | None:
        return fill_all(_OPTION.sub(lambda option: option[0] if option[1] in known else "", template), known)

    return tuple(
        Step(text=text, commands=tuple(filter(None, (command(row.command),))))
        for row in next(filter(None, fallbacks), ())
        if (text := filled(row.text, known, language)) is not None
    )
