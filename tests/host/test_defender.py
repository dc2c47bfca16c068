"""Defender's log in a snapshot of another machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rocenv.host.defender import quarantined
from rocenv.host.event_log import events

if TYPE_CHECKING:
    from pathlib import Path

EVENT = """<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System><EventID>1117</EventID>
<TimeCreated SystemTime='{when}'/></System><EventData><Data Name='Threat Name'>{threat}</Data>
<Data Name='Path'>{path}</Data></EventData></Event>"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROCENV_SYSROOT", str(tmp_path))
    (tmp_path / "windows").mkdir()
    return tmp_path / "windows" / "defender.xml"


def test_quarantined_files_are_found(machine: Path) -> None:
    path = os.path.join("envs", "sd", "zluda", "nccl.dll")
    newer = EVENT.format(
        when="2026-11-20T10:00:00.1Z", threat="Trojan:A", path=f"containerfile:_x; file:_{path}"
    )
    older = EVENT.format(when="2026-01-01T10:00:00Z", threat="Trojan:B", path=f"file:_{path}")
    machine.write_text("\ufeff" + newer + older, encoding="utf-8")
    [found] = quarantined([path, "another.dll"])
    assert (found.path, found.threat, found.when) == (path, "Trojan:A", "2026-11-20T10:00:00")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<Event",
        "<!DOCTYPE x [<!ENTITY a 'aaaa'>]><Event/>",
        "<Event><EventData><Data/></EventData></Event>",
        "no XML at all & more",
    ],
)
def test_an_invalid_log_is_ignored(machine: Path, text: str) -> None:
    machine.write_text(text)
    assert quarantined(["a.dll"]) == ()


def test_a_missing_log_is_distinguished_from_an_empty_one(machine: Path) -> None:
    assert events("Application", (1000,), "application_errors.xml") is None
    machine.write_text("")
    assert events("x", (1,), "defender.xml") == []
