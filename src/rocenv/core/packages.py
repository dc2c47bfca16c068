"""Names of files of Python packages: what project and version they state."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from rocenv.core.versions import version_of

if TYPE_CHECKING:
    from rocenv.core.model import Artifact


def wheel_file_name(url: str) -> str:
    """Take the file name out of an address, without any slash that the address may hide in it."""
    return re.split(r"[/\\:]", unquote(url.partition("#")[0]))[-1]


def is_named_right(artifact: Artifact) -> bool:
    """Whether the address of a wheel or a source archive ends in a file name of its project and version."""
    parse = parse_wheel_filename if artifact.kind == "wheel" else parse_sdist_filename
    try:
        name, version = parse(wheel_file_name(artifact.url))[:2]
        return (name, version) == (canonicalize_name(artifact.name), version_of(artifact.version))
    except ValueError:  # no name of such a file, or no version
        return False
