"""Arguments in app profiles, where a mistake in a user's row is reported with its location."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import DataError
from rocenv.data.load import load

if TYPE_CHECKING:
    from pathlib import Path

ROW = """schema = 1
[[launcher]]
key = "mine"
title = "Mine"
{what}
status = "tested"
source = "x"
checked = "2026-11-22"
"""


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("flags = [{ words = [] }]", "`words` is empty"),
        ('flags = [{ words = ["-x", "{layer}"] }]', "unknown placeholder `{layer}`"),
        ('renamed = [{ old = [], new = ["-x"] }]', "`renamed`: `old` is empty"),
        ("devices = { arguments = [], pattern = '(?P<device>x)' }", "`devices.arguments` is empty"),
    ],
)
def test_an_error_in_a_users_app_row_is_reported_with_its_location(
    tmp_path: Path, what: str, says: str
) -> None:
    (tmp_path / "mine.toml").write_text(ROW.replace("{what}", what))
    with pytest.raises(DataError, match="mine") as raised:
        load(own=tmp_path)
    assert says in str(raised.value)
