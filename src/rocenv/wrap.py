"""Text in lines of a width, for people."""

from __future__ import annotations


def wrapped(text: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Return a text in lines; what could be pasted, an address or a version, is never broken.

    Args:
        text: One paragraph.
        width: Of the lines, in characters; a longer word stands alone.
        first: Before the first line.
        then: Before the others.
    """
    import textwrap

    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def reading_width() -> int:
    """Return how wide text for people should be here."""
    import shutil

    return max(60, min(120, shutil.get_terminal_size((110, 24)).columns - 1))
