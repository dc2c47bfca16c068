"""An Apptainer definition: the env's files and environment on top of an image of a distribution.

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
# A line that begins with `%` begins a section, even in quotes; braces are arguments of the build.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f]|\{\{")


def render(env: Env, surroundings: Surroundings) -> str:
    """Render the definition.

    Raises:
        PrefixError: A definition cannot contain the env's path.
        DataError: A definition cannot contain a value: it could begin a section, which runs as the builder.
    """
    for change in env.changes:
        if _UNSAFE.search(change.value):
            raise DataError(
                f"the value of `{change.name}` contains a control character or `{{{{`, which an Apptainer "
                "definition does not quote"
            )
    folders = (env.prefix, *surroundings.folders)
    for folder in folders:
        if not _PLAIN.fullmatch(folder):
            raise unusable(
                folder, "an Apptainer definition accepts only letters, digits and `._+~@-` in paths"
            )
    starter = env.path("bin", "rocm-exec") if surroundings.has_loader else ""
    words = {
        "BASE": surroundings.base,
        "LABEL": env.label.replace(" ", "_"),
        "FILES": "\n".join(f"    {folder} {folder}" for folder in folders),
        "UNWANTED": " ".join(env.path(name) for name in OF_USERS),
        "IDENT": env.ident,
        "ENVIRONMENT": "\n".join(f"    {_change(env, change)}" for change in env.changes),
        "STARTER": quote(starter) + " " if starter else "",
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
