"""What the profiles of apps add: patterns of causes in the app's logs, and what to try first. Pure."""

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

# Too little to hide consequences, or to be a second finding: rules know more about a line.
_WEIGHT = 0.45


def app_patterns(matrix: Matrix) -> Mapping[str, tuple[Pattern, ...]]:
    """Map codes of causes to patterns, from the failures that profiles list."""
    found: dict[str, list[Pattern]] = {}
    for launcher in matrix.launcher:
        for failure in launcher.failures:
            if failure.code:
                pattern = Pattern(text=(failure.text,), when=_condition(launcher), weight=_WEIGHT)
                found.setdefault(failure.code, []).append(pattern)
    return {code: tuple(patterns) for code, patterns in found.items()}


def _condition(launcher: Launcher) -> dict[str, str]:
    """Restrict a failure to logs of its app; those of a generic profile count in any log of `launch`."""
    is_generic = not (launcher.command or launcher.entries or launcher.programs)
    return {**({"launched": "*"} if is_generic else {"app": re.escape(launcher.key)}), "nvidia": ""}


def app_steps(
    matrix: Matrix, facts: Facts, code: str, values: Mapping[str, str], language: Language
) -> tuple[Step, ...]:
    """List what the profile of the log's app says to try for a cause, in its order."""
    profiles = (row for app in facts.get("app", ()) for row in matrix.launcher if row.key == app)
    fallbacks = ([row for row in profile.fallbacks if row.code == code] for profile in profiles)
    env, target = values.get("env", ""), values.get("gfx", "")
    # Only the machine that runs the command knows which names are free.
    known = {"name": env, "another": f"{env}2" if env else "", "target": target, "code_target": target}
    words = {place: plain_word(value) for place, value in known.items()}
    filled_rows = (
        (filled(row.text, words, language), fill_all(row.command, words))
        for row in next(filter(None, fallbacks), ())
    )
    return tuple(
        Step(text=text, commands=(command,) if command else ()) for text, command in filled_rows if text
    )
