"""`rocenv diagnose` in Windows Python: logs from PowerShell and old consoles, and output to a pipe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.windows.conftest import show
from tests.windows.lab import Step, windows

if TYPE_CHECKING:
    from tests.windows.lab import Lab

pytestmark = pytest.mark.windows

LINE = (
    "OSError: [WinError 126] 找不到指定的模块。 "
    'Error loading "C:\\app\\.zluda\\nvcuda.dll" or one of its dependencies.'
)
HOME = {"ROCENV_HOME": r"C:\diagnose"}


@pytest.mark.parametrize("encoding", ["utf-16", "cp936", "utf-8"])
def test_diagnose_reads_a_log_in_any_encoding_and_prints_chinese(lab: Lab, encoding: str) -> None:
    """Findings for a Chinese log are in Chinese, whatever the encoding of the pipe."""
    log = lab.folder / f"app {encoding}.log"
    log.write_bytes(f"启动 SD.Next --use-zluda\r\n加载\r\n{LINE}\r\n".encode(encoding))
    step = Step([lab.rocenv, "diagnose", windows(log), "--lang", "zh"], env=HOME)
    as_json = Step([lab.rocenv, "diagnose", windows(log), "--json"], env=HOME)
    text, document = lab.run(step, as_json)
    show(step, text)
    assert (text.code, text.err) == (0, "")
    assert "原因" in text.out
    assert "找不到指定的模块" in text.out
    (finding,) = json.loads(document.out)["findings"]
    assert finding["code"] == "zluda-dll-missing-or-quarantined"
    assert finding["evidence"][0]["line"] == 3
