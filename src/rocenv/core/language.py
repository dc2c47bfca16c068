"""The language of what is told about troubles: English or Chinese."""

from __future__ import annotations

import os
import sys
from typing import Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")

_CHINESE = 0x04  # primary language of a Windows LANGID
# The order in which POSIX has them decide. LANGUAGE is gettext's, and wins where a locale is set at all.
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


def chosen(option: str | None = None) -> Language:
    """Return the language that was asked for, or else the one of the user's locale, or else English.

    Source: POSIX, "Internationalization Variables"; learn.microsoft.com, GetUserDefaultUILanguage
    """
    if option in LANGUAGES:
        return "zh" if option == "zh" else "en"
    locale = next((value for name in _VARIABLES if (value := os.environ.get(name))), "")
    if locale and locale.partition(".")[0] not in ("C", "POSIX"):
        preferred = os.environ.get("LANGUAGE", "").partition(":")[0] or locale
        return "zh" if preferred.lower().startswith("zh") else "en"
    return "en" if locale else _of_windows()


if sys.platform == "win32":

    def _of_windows() -> Language:
        import ctypes

        return "zh" if ctypes.windll.kernel32.GetUserDefaultUILanguage() & 0x3FF == _CHINESE else "en"

else:

    def _of_windows() -> Language:
        return "en"
