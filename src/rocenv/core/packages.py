"""Check the project and version in the file names of Python packages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from rocenv.core.versions import version_of

if TYPE_CHECKING:
    from rocenv.core.model import Artifact


def wheel_file_name(url: str) -> str:
    """Return the file name in a URL; a percent-encoded slash is also a separator."""
    return re.split(r"[/\\:]", unquote(url.partition("#")[0]))[-1]


def is_named_right(artifact: Artifact) -> bool:
    """Whether the file name in a wheel's or sdist's URL matches its project and version."""
    parse = parse_wheel_filename if artifact.kind == "wheel" else parse_sdist_filename
    try:
        name, version = parse(wheel_file_name(artifact.url))[:2]
        return (name, version) == (canonicalize_name(artifact.name), version_of(artifact.version))
    except ValueError:  # not a wheel or sdist file name, or an invalid version
        return False
