"""Check the age of rocenv's own data."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import date
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from rocenv.data.load import newest_day, profiles_folder
from rocenv.findings import Observation

if TYPE_CHECKING:
    from rocenv.checks.context import CheckContext


def data_old(context: CheckContext) -> Observation | None:
    """The data was last compared with its sources months ago."""
    newest = None if context.elsewhere else newest_day()
    if newest is None:
        return None
    age = (date.today() - newest).days
    if age <= context.limit("data_days"):
        return None
    clone, is_editable = _clone()
    values = {"age": str(age), "day": newest.isoformat()}
    if clone is not None:
        values["clone"] = str(clone)
        if not is_editable and util.find_spec("pip"):
            values["python"] = sys.executable
    return Observation("data_old", values, (f"{profiles_folder()}: newest row checked on {newest}",))


def _clone() -> tuple[Path | None, bool]:
    """The git clone that rocenv was installed from, and whether the installation is editable.

    Source: PEP 610, direct_url.json.
    """
    with suppress(metadata.PackageNotFoundError, ValueError, KeyError, AttributeError, TypeError):
        origin: Any = json.loads(metadata.distribution("rocenv").read_text("direct_url.json") or "{}")
        url = urlsplit(origin["url"])
        clone = Path(url2pathname(url.path))
        if url.scheme == "file" and (clone / ".git").exists():
            return clone, bool(origin.get("dir_info", {}).get("editable"))
    return None, False
