"""Invalid data files, whose error messages name the file, the row and the key."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.core.errors import DataError
from rocenv.data.load import MAX_BYTES, TABLES, load
from tests.data.data import BASE, KNOWN, example, loaded, text, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mini import Mini


def refusal(folder: Path, table: str, row: dict[str, Any]) -> str:
    """Return the error message for a row in `1.toml`, or "" if the row loads."""
    try:
        loaded(folder, (table, row))
    except DataError as error:
        return error.message
    return ""


def without(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != key}


@pytest.mark.parametrize("table", TABLES)
def test_every_table_requires_source_date_and_status(table: str, tmp_path: Path) -> None:
    row = example(table)
    in_base = sum(each == table for each, _ in BASE)
    assert len(getattr(loaded(tmp_path, (table, row)), table)) == in_base + 1
    where = f"`{tmp_path / '1.toml'}: {table}[0]`"
    cases = {
        **{f"no {key}": (without(row, key), f"key `{key}` is missing in {where}") for key in KNOWN},
        "blank source": ({**row, "source": " \n"}, f"{where} has no source"),
        "no such day": (
            {**row, "checked": "2026-11-31"},
            f"`checked` in {where} is '2026-11-31', not a date such as `2026-11-20`",
        ),
        "unknown key": ({**row, "sourcs": "x"}, f"unknown key `sourcs` in {where}"),
    }
    assert {case: refusal(tmp_path, table, bad) for case, (bad, _) in cases.items()} == {
        case: message for case, (_, message) in cases.items()
    }


@pytest.mark.parametrize("day", ["", " ", "today", "20.11.2026", "2026-11-31"])
def test_an_invalid_date_is_rejected(day: str, tmp_path: Path) -> None:
    assert "not a date such as" in refusal(tmp_path, "pci", example("pci", checked=day))


@pytest.mark.parametrize(
    ("table", "values", "said"),
    [
        ("pci", {"status": "hearsay"}, r"`status` in `.*` is 'hearsay', not one of inferred, maker"),
        ("pci", {"device": 7}, r"`device` in `.*`: expected `str`, got `int`"),
        ("pci", {"products": "RX 6800"}, r"`products` in `.*`: expected `array`, got `str`"),
        ("pci", {"products": ["RX 6800", 7]}, r"`products\[1\]` in `.*`: expected `str`, got `int`"),
        ("target", {"wave": 16}, r"`wave` in `.*` is 16, not one of 32, 64"),
        ("target", {"wave": "64"}, r"`wave` in `.*`: expected `int`, got `str`"),
        ("release", {"parts": ["hip"]}, r"`parts` in `.*`: expected `object`, got `array`"),
        ("release", {"parts": {"hip": 6}}, r"`parts\[...\]` in `.*`: expected `str`, got `int`"),
        ("zluda", {"assets": [{}]}, r"key `assets\[0\]\.name` is missing in `"),
        ("zluda", {"assets": [{"name": "x", "sha": "y"}]}, r"unknown key `assets\[0\]\.sha` in `"),
        ("rocm", {"layout": {}}, r"key `layout\.root` is missing in `"),
        (
            "verdict",
            {"verdict": "slow"},
            r"`verdict` in `.*` is 'slow', not one of broken, work",
        ),
        ("environment", {"change": {"action": "add", "name": "X"}}, r"`change\.action` in `.*` is 'add'"),
    ],
)
def test_a_value_of_the_wrong_type_is_rejected(
    table: str, values: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=said) as caught:
        loaded(tmp_path, (table, example(table, **values)))
    assert f"{tmp_path / '1.toml'}: {table}[0]" in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema = 1", "schema = 2", r"1\.toml` has schema 2; this rocenv reads schema 1"),
        ("schema = 1", 'schema = "1"', r"1\.toml` has schema '1'"),
        ("schema = 1", "", r"1\.toml` has schema None"),
        ("schema = 1", "schema = true", r"1\.toml` has schema True"),
        ("schema = 1", f"schema = 0x{'f' * 5000}", r"cannot read `.*1\.toml`"),
        ("[[pci]]", "a = " + "[" * 100_000, r"cannot read `.*1\.toml`: it is nested too deeply"),
        ("[[pci]]", "[[pc]]", r"unknown table `pc` in `.*1\.toml`"),
        ("[[pci]]", "[pci]", r"`pci` in `.*1\.toml` is not an array of tables"),
        ("[[pci]]", "pci = [7]\n[[watched]]", r"1\.toml: pci\[0\]`: expected `object`, got `int`"),
        ("[[pci]]", "[[pci]\n", r"cannot read `.*1\.toml`"),
        ("[[pci]]", "\x00", r"cannot read `.*1\.toml`"),
        ('"2026-11-20"', "2026-11-20", r"`checked` in `.*1\.toml: pci\[0\]`: expected `str`, got `date`"),
    ],
)
def test_a_file_that_is_not_a_data_file_is_rejected(old: str, new: str, said: str, tmp_path: Path) -> None:
    write(tmp_path, BASE)
    whole = text([("pci", example("pci"))])
    assert old in whole
    (tmp_path / "1.toml").write_text(whole.replace(old, new, 1))
    with pytest.raises(DataError, match=said):
        load(tmp_path)


def test_a_newer_schema_suggests_an_upgrade(tmp_path: Path) -> None:
    (tmp_path / "newer.toml").write_text('schema = 2\n[[what_is_not_thought_of_yet]]\nname = "x"\n')
    with pytest.raises(DataError, match=r"newer\.toml` has schema 2") as caught:
        load(tmp_path)
    assert "upgrade" in caught.value.hints[0]


def test_data_files_written_on_windows_are_read(tmp_path: Path) -> None:
    """Windows editors add a byte order mark and CRLF line endings."""
    whole = text([("pci", example("pci"))]).replace("\n", "\r\n")
    (write(tmp_path, BASE) / "notepad.toml").write_bytes(b"\xef\xbb\xbf" + whole.encode())
    assert len(load(tmp_path).pci) == 1


@pytest.mark.parametrize("leads_to", ["loop.toml", "nowhere.toml"])
def test_a_data_file_that_is_a_broken_link_is_an_error(leads_to: str, tmp_path: Path) -> None:
    (write(tmp_path, BASE) / "loop.toml").symlink_to(leads_to)
    with pytest.raises(
        DataError, match=r"cannot read `.*loop\.toml`: it is not a file, or it is a broken link"
    ) as caught:
        load(tmp_path)
    assert "remove the file" in caught.value.hints[0], "the error must suggest a next step"


def test_pipes_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(write(tmp_path, BASE) / "pipe.toml")
    with pytest.raises(DataError, match=r"cannot read `.*pipe\.toml`"):
        load(tmp_path)


def test_a_data_file_that_is_too_large_is_an_error(tmp_path: Path) -> None:
    with (write(tmp_path, BASE) / "long.toml").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(DataError, match=r"cannot read `.*long\.toml`: it is larger than"):
        load(tmp_path)


def test_folders_named_like_files_are_read_and_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "mine.toml", BASE)
    (tmp_path / "round").symlink_to(tmp_path)
    assert len(load(tmp_path).channels) == 1


def test_a_data_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("schema = 1")
    with pytest.raises(DataError, match=r"cannot list the data files in `.*own`"):
        load(write(tmp_path / "shipped", BASE), tmp_path / "own")


def test_a_data_file_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    (write(tmp_path, BASE) / "latin.toml").write_bytes("# für alle\nschema = 1\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"cannot read `.*latin\.toml`"):
        load(tmp_path)


def test_only_toml_files_are_read_including_those_in_subfolders(tmp_path: Path) -> None:
    write(tmp_path, BASE)
    write(tmp_path / "deep" / "er", [("pci", example("pci"))])
    (tmp_path / "README.md").write_text("no data")
    assert len(load(tmp_path).pci) == 1


def test_data_without_a_c_library_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not contain a `c_library` row"):
        load(write(tmp_path, [row for row in BASE if row[0] != "c_library"]))


@pytest.mark.parametrize("name", ["empty", "missing"])
def test_a_folder_without_data_is_an_error(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("ROCENV_PROFILES", str(tmp_path / name))
    with pytest.raises(DataError, match="does not contain any data files") as caught:
        load()
    assert "ROCENV_PROFILES" in caught.value.hints[0]


def test_rocenv_profiles_selects_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCENV_PROFILES", str(write(tmp_path, BASE)))
    assert set(load().channels) == {"base"}
    monkeypatch.setenv("ROCENV_PROFILES", "")
    assert "amd" in load().channels


def test_the_command_line_reports_data_errors(mini: Mini) -> None:
    path = mini.root / "profiles/mini.toml"
    path.write_text(path.read_text().replace("compiles", "compile", 1))
    done = mini.run("resolve", "--rocm", "5.7")
    assert done.returncode == 1
    assert "unknown key `compile`" in done.stderr
    assert "Traceback" not in done.stderr
