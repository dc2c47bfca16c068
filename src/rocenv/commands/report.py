"""What is written when rocenv itself is at fault: a file that is a ready-made bug report."""

from __future__ import annotations

import datetime
import platform
import sys
import tempfile
import traceback
from pathlib import Path

from rocenv import __version__
from rocenv.core.logins import mask_logins


def write_report(error: BaseException, argv: list[str]) -> str:
    """Write a report about an unexpected error, and return the text for the user, which names the file."""
    now = datetime.datetime.now(datetime.timezone.utc)
    text = "\n".join(
        (
            "## What I did",
            f"`rocenv {' '.join(argv)}`",
            "",
            "## What happened",
            "```",
            "".join(traceback.format_exception(error)).rstrip(),
            "```",
            "",
            "## Versions",
            f"- rocenv {__version__}",
            f"- Python {sys.version.splitlines()[0]}",
            f"- {platform.platform()}",
            f"- {now.isoformat(timespec='seconds')}",
            "",
        )
    )
    text = mask_logins(text)
    summary = f"error: rocenv failed unexpectedly: {type(error).__name__}: {mask_logins(str(error))}\n\n"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="rocenv-report-", suffix=".md", delete=False, encoding="utf-8"
        ) as out:
            out.write(text)
        return f"{summary}hint: this is a defect of rocenv; please send `{Path(out.name)}` to its makers\n"
    except OSError:
        return summary + text
