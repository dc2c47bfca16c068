"""Values in commands: one word for the shell whatever they contain, or no command."""

from __future__ import annotations

import shlex

import pytest

from rocenv.findings import quoting


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("C:\\rocenv\\", "C:\\rocenv\\"),
        ("C:\\Program Files\\x\\", '"C:\\Program Files\\x\\\\"'),
        ("C:\\a & calc", ""),
        ("C:\\%PATH%", ""),
        ('a" b', ""),
        ("C:\\\u201c x", ""),
        ("-x y", ""),
        ("", ""),
        ("C:\\" + "long name\\" * 30, ""),
    ],
)
@pytest.mark.parametrize("strange", [True, False])
def test_on_windows(value: str, word: str, strange: bool) -> None:
    """The word works in cmd and in PowerShell."""
    assert quoting("windows", untrusted=strange)(value) == word


@pytest.mark.parametrize("value", ["my env", "it's", "$(reboot)", "a;b", "/data/a b"])
def test_on_linux(value: str) -> None:
    assert shlex.split(quoting("linux", untrusted=False)(value)) == [value]
    from_others = quoting("linux", untrusted=True)(value)
    assert from_others in ("", f"'{value}'")
    assert bool(from_others) == (value in ("my env", "/data/a b"))


def test_a_home_folder_stays_one() -> None:
    assert quoting("linux", untrusted=False)("~/my cache") == "~/'my cache'"
