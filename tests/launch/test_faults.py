"""What Windows has noted of crashes."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import pytest

from rocenv.host.faults import fault_of, parse_faults

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
    """Return an event as newer systems write it."""
    return NAMED.format(pid=pid, program=program, when=when)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROCENV_SYSROOT", str(tmp_path))
    path = tmp_path / "windows" / "application_errors.xml"
    path.parent.mkdir()
    return path


class TestParse:
    def test_with_names(self) -> None:
        (fault,) = parse_faults("\ufeff<?xml version='1.0' encoding='utf-8'?>\n" + event(77))
        assert (fault.program, fault.module, fault.exception) == ("python.exe", "rocblas.dll", "0xc0000005")
        assert (fault.pid, fault.path) == (77, "C:\\sd\\rocm\\6.1\\bin\\rocblas.dll")
        assert fault.when == datetime.datetime(2026, 11, 20, 12, 30, 0, 123456, datetime.timezone.utc)

    def test_by_place(self) -> None:
        (fault,) = parse_faults(PLACED)
        assert (fault.module, fault.pid) == ("amdhip64.dll", 0x1A2C)

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
    def test_what_is_none_is_none(self, text: str) -> None:
        assert parse_faults(text) == ()

    def test_odd_values_do_no_harm(self) -> None:
        odd = event(1, when="never").replace("0x1<", "zz<").replace("rocblas.dll", "\x1b[31mrocblas", 1)
        assert parse_faults(odd) == (), "a control character is no XML"
        (fault,) = parse_faults(event(1, when="never").replace("0x1</Data>", "zz</Data>", 1))
        assert (fault.pid, fault.when) == (None, None)


class TestWhich:
    def test_the_process_itself_before_its_like(self, stand_in: Path) -> None:
        stand_in.write_text(event(5, "python.exe").replace("rocblas.dll", "other.dll") + event(7, "odd.exe"))
        fault = fault_of(7, frozenset({"python.exe"}), NOON)
        assert fault is not None
        assert fault.pid == 7

    def test_a_python_that_a_batch_file_started(self, stand_in: Path) -> None:
        stand_in.write_text(event(5, "winword.exe") + event(6, "Python.exe"))
        fault = fault_of(99, frozenset({"python.exe"}), NOON)
        assert fault is not None
        assert fault.pid == 6

    def test_not_one_of_yesterday(self, stand_in: Path) -> None:
        stand_in.write_text(event(7, when="2026-11-19T12:30:00Z"))
        assert fault_of(7, frozenset({"python.exe"}), NOON) is None

    def test_no_log_no_fault(self, stand_in: Path) -> None:
        assert fault_of(7, frozenset({"python.exe"}), NOON) is None
