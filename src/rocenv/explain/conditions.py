"""Phrases for remedies' conditions: `On Linux, for gfx1031 or gfx1032: ...`.

The `conditions` topic in the `messages` table has a phrase for each fact that readers know without a log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.data.remedies import compiled, filled
from rocenv.data.rules import OPERATORS
from rocenv.explain.phrases import either, in_order, range_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.core.language import Language
    from rocenv.data.rows import Matrix
    from rocenv.data.rules import Text

CONTINUES = ("Or", "Also", "Then")  # the first words of remedies that refer to the previous one
_APPS = {
    "pytorch": "PyTorch",
    "tensorflow": "TensorFlow",
    "ollama": "Ollama",
    "webui": "stable-diffusion-webui",
    "redshift": "Redshift",
    "octane": "Octane",
    "julia": "Julia",
}
_DISTRIBUTIONS = {
    "debian": "Debian",
    "ubuntu": "Ubuntu",
    "fedora": "Fedora",
    "rhel": "RHEL",
    "arch": "Arch Linux",
    "opensuse": "openSUSE",
    "pop": "Pop!_OS",
}


@dataclass(frozen=True, slots=True)
class Conditions:
    """Renders conditions in the user's language."""

    matrix: Matrix
    language: Language

    def __call__(self, when: Mapping[str, str]) -> str | None:
        """Render a condition. Return "" if it is always or usually true, and None if it depends on a log."""
        texts = next(row.texts for row in self.matrix.messages if row.topic == "conditions")
        found = []
        for name, wanted in sorted(when.items(), key=lambda each: each[0] != "platform"):
            value = self._value(name, wanted, texts.get(name))
            if value is None:
                return None
            if value:
                found.append(filled(texts[name], {"value": value}, self.language) or "")
        return ("，" if self.language == "zh" else ", ").join(found)

    def applied(self, when: str, text: str, found_by: str = "") -> str:
        """Prefix a sentence with a condition and the problem that a check finds."""
        if self.language == "zh":
            start = f"{found_by}（{when}）" if found_by and when else found_by or when
            return f"{start}：{text}" if start else text
        start = f"{found_by} ({when})" if found_by and when else found_by or when
        if not start:
            return text
        if text.split(maxsplit=1)[0].rstrip(",") in CONTINUES:
            text = text[0].lower() + text[1:]
        return f"{start[0].upper()}{start[1:]}: {text}"

    def _value(self, name: str, wanted: str, text: Text | None) -> str | None:
        """Render the values that satisfy a condition; "" if all or most do, None if that is unclear."""
        if name == "create":  # usually, there is a set that works
            return "" if wanted else None
        if not wanted:
            return ""
        if text is None:
            return None
        has_value = "{value}" in text.en
        if wanted in ("*", "yes"):
            return "" if has_value else "yes"
        if wanted.startswith(OPERATORS):
            shown = wanted.replace(",", " 且 ") if self.language == "zh" else range_in_words(wanted)
            return shown if has_value else None
        known = self._known(name)
        met = [title for value, title in known.items() if compiled(wanted).fullmatch(value)]
        if not met:
            return None
        if len(met) > len(known) // 2 and name != "platform":
            return ""
        return (
            either(met).replace(", ", "、").replace(" or ", " 或 ") if self.language == "zh" else either(met)
        )

    def _known(self, name: str) -> dict[str, str]:
        """Map each known value of a fact to the name that users see."""
        if name == "platform":
            return {"linux": "Linux", "windows": "Windows"}
        if name == "distro":
            return _DISTRIBUTIONS
        if name != "app":
            return {each: each for each in in_order(self.matrix.targets)}
        titles = {row.value: row.value for row in self.matrix.extractor if row.fact == "app"}
        titles |= {row.key: row.title for row in self.matrix.launcher if row.programs or row.signs}
        return {value: _APPS.get(value, title) for value, title in titles.items() if value != "yes"}
