"""Crashes in the Windows event log."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pytest

from rocenv.host.event_log import Fault, fault_of, faults

if TYPE_CHECKING:
    from pathlib import Path

NAMED = """<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System>
<Provider Name='Application Error'/><EventID>1000</EventID>
<TimeCreated SystemTime='{when}'/></System><EventData>
<Data Name='AppName'>{program}</Data><Data Name='AppVersion'>3.11</Data><Data Name='AppTimeStamp'>6</Data>
<Data Name='ModuleName'>rocblas.dll</Data>
<Data Name='ModuleVersion'>6.1</Data><Data Name='ModuleTimeStamp'>6</Data>
<Data Name='ExceptionCode'>c0000005</Data>
<Data Name='FaultingOffset'>1a</Data><Data Name='ProcessId'>{pid:#x}</Data>
<Data Name='ProcessCreationTime'>0x1</Data><Data Name='AppPath'>C:\\sd\\{program}</Data>
<Data Name='ModulePath'>C:\\sd\\rocm\\6.1\\bin\\rocblas.dll</Data></EventData></Event>"""
PLACED = """<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System>
<TimeCreated SystemTime='2026-11-20T10:09:34.1234567Z'/></System><EventData>
<Data>python.exe</Data><Data>3.10</Data>
<Data>62</Data><Data>amdhip64.dll</Data><Data>5.7</Data><Data>65</Data><Data>c0000005</Data><Data>0</Data>
<Data>1a2c</Data><Data>01d</Data><Data>C:\\p.exe</Data>
<Data>C:\\Windows\\System32\\amdhip64.dll</Data></EventData></Event>"""
NOON = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.timezone.utc)


def event(pid: int, program: str = "python.exe", when: str = "2026-11-20T12:30:00.1234567Z") -> str:
    """Return an event with named data fields, as in the logs of newer Windows versions."""
    return NAMED.format(pid=pid, program=program, when=when)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROCENV_SYSROOT", str(tmp_path))
    path = tmp_path / "windows" / "application_errors.xml"
    path.parent.mkdir()
    return path


def of(pid: int, code: int = 0xC0000005, recent: datetime.datetime = NOON) -> Fault | None:
    return fault_of(pid, frozenset({"python.exe"}), since=NOON, recent=recent, code=code)


class TestParse:
    def test_events_with_named_fields_are_parsed(self, stand_in: Path) -> None:
        stand_in.write_text("\ufeff<?xml version='1.0' encoding='utf-8'?>\n" + event(77))
        (fault,) = faults()
        assert (fault.program, fault.module, fault.exception) == ("python.exe", "rocblas.dll", "0xc0000005")
        assert (fault.pid, fault.path) == (77, "C:\\sd\\rocm\\6.1\\bin\\rocblas.dll")
        assert fault.when == datetime.datetime(2026, 11, 20, 12, 30, 0, 123456, datetime.timezone.utc)

    def test_events_with_unnamed_fields_are_parsed(self, stand_in: Path) -> None:
        stand_in.write_text(PLACED)
        (fault,) = faults()
        assert (fault.module, fault.pid, fault.program) == ("amdhip64.dll", 0x1A2C, "python.exe")

    def test_files_saved_by_the_event_viewer_are_read(self, stand_in: Path) -> None:
        stand_in.write_text(f"<?xml version='1.0'?><Events>{event(7)}{PLACED}</Events>")
        assert [fault.pid for fault in faults()] == [7, 0x1A2C]

    def test_event_ids_are_interpreted_per_provider(self, stand_in: Path) -> None:
        stand_in.write_text(event(7).replace("Application Error", "LoadPerf"))
        assert faults() == ()

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "no xml",
            "<Event>",
            "<Event><EventData/></Event>",
            "<Event><EventData><Data>only.exe</Data></EventData></Event>",
            "<!DOCTYPE x [<!ENTITY a 'b'>]><Event/>",
            "<Event><EventData><Data Name='ModuleName'>x</Data></EventData></Event></all><all>",
        ],
    )
    def test_unrelated_events_are_ignored(self, stand_in: Path, text: str) -> None:
        stand_in.write_text(text)
        assert faults() == ()

    def test_events_with_invalid_values_are_ignored(self, stand_in: Path) -> None:
        stand_in.write_text(event(1).replace("rocblas.dll", "\x1b[31mrocblas", 1))
        assert faults() == (), "control characters are invalid in XML"
        stand_in.write_text(event(1, when="never").replace("0x1</Data>", "zz</Data>", 1))
        (fault,) = faults()
        assert (fault.pid, fault.when) == (None, None)


class TestWhich:
    def test_an_event_for_the_launched_process_takes_precedence(self, stand_in: Path) -> None:
        stand_in.write_text(event(5, "python.exe").replace("rocblas.dll", "other.dll") + event(7, "odd.exe"))
        fault = of(7)
        assert fault is not None
        assert fault.pid == 7

    def test_an_event_for_a_python_process_started_by_a_batch_file_is_found(self, stand_in: Path) -> None:
        stand_in.write_text(event(5, "winword.exe") + event(6, "Python.exe"))
        fault = of(99)
        assert fault is not None
        assert fault.pid == 6

    def test_an_event_matched_by_program_name_alone_must_be_recent(self, stand_in: Path) -> None:
        """While an app runs for hours, an unrelated Python process may crash."""
        stand_in.write_text(event(6))
        later = NOON + datetime.timedelta(hours=3)
        assert of(99, code=0xC0000409, recent=later) is None
        assert of(99, code=1, recent=later) is None
        assert of(99, code=0xC0000005, recent=later) is not None, "the exit code matches the exception"
        assert of(99, code=1, recent=NOON) is not None, "the event is recent"
        assert of(6, code=1, recent=later) is not None, "the event is about the process itself"

    def test_old_events_are_ignored(self, stand_in: Path) -> None:
        stand_in.write_text(event(7, when="2026-11-19T12:30:00Z"))
        assert of(7) is None

    def test_a_missing_event_log_is_tolerated(self, stand_in: Path) -> None:
        assert of(7) is None
