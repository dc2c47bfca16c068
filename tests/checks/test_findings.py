"""Commands in findings: each value is quoted as one shell word, or the command is omitted."""

from __future__ import annotations

import re
import shlex

import pytest

from rocenv.data.load import load
from rocenv.findings import quoted
from rocenv.host.gpu import printable


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
def test_a_value_is_quoted_as_one_word_on_windows(value: str, word: str, strange: bool) -> None:
    """The quoting works in both cmd and PowerShell."""
    assert quoted(value, "windows", untrusted=strange) == word


@pytest.mark.parametrize("value", ["my env", "it's", "$(reboot)", "a;b", "/data/a b"])
def test_a_value_is_quoted_as_one_word_on_linux(value: str) -> None:
    assert shlex.split(quoted(value, "linux", untrusted=False)) == [value]
    from_others = quoted(value, "linux", untrusted=True)
    assert from_others in ("", f"'{value}'")
    assert bool(from_others) == (value in ("my env", "/data/a b"))


def test_a_tilde_is_not_quoted() -> None:
    assert quoted("~/my cache", "linux", untrusted=False) == "~/'my cache'"


def test_both_languages_in_each_row_have_the_same_placeholders() -> None:
    place = re.compile(r"\{(\w+)(?:\|[^{}]*)?\}")
    for row in load().advice:
        for text in (row.title, row.detail, *(step.text for step in row.remedy)):
            assert set(place.findall(text.en)) == set(place.findall(text.zh)), row.name
            assert re.search("[一-龥]", text.zh) or text.zh == text.en == "{instead}", row.name


def test_a_long_line_is_truncated_at_a_word_boundary() -> None:
    line = "`librocblas.so.0` is missing " * 20
    assert printable(line[:200]) == line[:200].strip()
    assert re.fullmatch(r"(`librocblas\.so\.0` is missing )+(`librocblas\.so\.0` )?(is )?…", printable(line))
    assert printable("x" * 1000).endswith("xxx …")
