"""Apptainer definitions, which add an env's files and environment to a distribution's image.

Source: apptainer.org/docs, "Definition Files"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.activate.env import OF_USERS, fill
from rocenv.activate.scripts import unusable
from rocenv.activate.shells.posix import quote
from rocenv.core.errors import DataError

if TYPE_CHECKING:
    from rocenv.activate.env import Env, Surroundings
    from rocenv.core.model import EnvChange

# `%files` splits at spaces and expands patterns, and its escapes differ between versions.
_PLAIN = re.compile(r"[A-Za-z0-9/._+~@-]+")
# A line that begins with `%` starts a section, even within quotes; double braces enclose build arguments.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f]|\{\{")


def render(env: Env, surroundings: Surroundings) -> str:
    """Render the definition.

    Raises:
        PrefixError: The env's path is not allowed in a definition.
        DataError: A value is not allowed in a definition, because it could start a section that runs during
          the build.
    """
    for change in env.changes:
        if _UNSAFE.search(change.value):
            raise DataError(
                f"the value of `{change.name}` contains a control character or `{{{{`, which cannot be "
                "quoted in an Apptainer definition"
            )
    folders = (env.prefix, *surroundings.folders)
    for folder in folders:
        if not _PLAIN.fullmatch(folder):
            raise unusable(
                folder, "an Apptainer definition allows only letters, digits, and `._+~@-` in paths"
            )
    program = env.path("bin", "rocm-exec") if surroundings.has_loader else ""
    words = {
        "BASE": surroundings.base,
        "LABEL": env.label.replace(" ", "_"),
        "FILES": "\n".join(f"    {folder} {folder}" for folder in folders),
        "UNWANTED": " ".join(env.path(name) for name in OF_USERS),
        "IDENT": env.ident,
        "ENVIRONMENT": "\n".join(f"    {_change(env, change)}" for change in env.changes),
        "ROCM_EXEC": quote(program) + " " if program else "",
    }
    return fill("apptainer.def", words)


def _change(env: Env, change: EnvChange) -> str:
    if change.action == "unset":
        return f"unset {change.name}"
    value, rest = quote(change.value), env.cached(change)
    if change.action == "prepend":
        value += f'"${{{change.name}:+:${change.name}}}"'
    if rest is not None:
        value = f'"$_ROCENV_CACHE"{quote(rest)}'
    return f"export {change.name}={value}"
