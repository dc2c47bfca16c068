"""Choose the language for explanations: English or Chinese."""

from __future__ import annotations

import os
import re
import sys
from typing import Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")

# Traditional Chinese locales (Taiwan, Hong Kong, Macau) get English because there are no messages for them.
_CHINESE = re.compile(r"zh(?!.*(TW|HK|MO|Hant))", re.IGNORECASE)
_CHINESE_LANGIDS = (0x0804, 0x1004)  # LANGIDs for mainland China and Singapore
# In order of precedence (POSIX). gettext's LANGUAGE overrides them if any locale is set.
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


def chosen(option: str | None = None) -> Language:
    """Return the requested language, or else the language of the user's locale, or else English.

    Source: POSIX, "Internationalization Variables"; learn.microsoft.com, GetUserDefaultUILanguage
    """
    if option in LANGUAGES:
        return "zh" if option == "zh" else "en"
    locale = next((value for name in _VARIABLES if (value := os.environ.get(name))), "")
    if locale and locale.partition(".")[0] not in ("C", "POSIX"):
        locale = os.environ.get("LANGUAGE", "").partition(":")[0] or locale
        return "zh" if _CHINESE.match(locale) else "en"
    return "en" if locale else _windows_language()


if sys.platform == "win32":

    def _windows_language() -> Language:
        import ctypes

        return "zh" if ctypes.windll.kernel32.GetUserDefaultUILanguage() in _CHINESE_LANGIDS else "en"

else:

    def _windows_language() -> Language:
        return "en"
