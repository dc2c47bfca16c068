"""The language of explanations: English or Chinese."""

from __future__ import annotations

import os
import re
import sys
from typing import Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")

# There are no texts in traditional characters, as in Taiwan and Hong Kong.
_CHINESE = re.compile(r"zh(?!.*(TW|HK|MO|Hant))", re.IGNORECASE)
_CHINESE_OF_WINDOWS = (0x0804, 0x1004)  # LANGIDs of mainland China and Singapore
# The order in which POSIX has them decide. LANGUAGE is gettext's, and wins if a locale is set at all.
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


def chosen(option: str | None = None) -> Language:
    """The language of the option, else that of the user's locale, else English.

    Source: POSIX, "Internationalization Variables"; learn.microsoft.com, GetUserDefaultUILanguage
    """
    if option in LANGUAGES:
        return "zh" if option == "zh" else "en"
    locale = next((value for name in _VARIABLES if (value := os.environ.get(name))), "")
    if locale and locale.partition(".")[0] not in ("C", "POSIX"):
        locale = os.environ.get("LANGUAGE", "").partition(":")[0] or locale
        return "zh" if _CHINESE.match(locale) else "en"
    return "en" if locale else _of_windows()


if sys.platform == "win32":

    def _of_windows() -> Language:
        import ctypes

        return "zh" if ctypes.windll.kernel32.GetUserDefaultUILanguage() in _CHINESE_OF_WINDOWS else "en"

else:

    def _of_windows() -> Language:
        return "en"
