"""A short run of the fuzz targets, without atheris."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import ArchiveError
from tests.fuzz.__main__ import main
from tests.fuzz.reading import TooMuch, read
from tests.fuzz.targets import TARGETS, Target, unpacking

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.install.tree import Tree


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_accepts_its_seeds(name: str) -> None:
    """If the parser rejected a seed, it would also reject the seed's mutations early."""
    seeds = TARGETS[name].seeds()
    assert seeds
    assert [why for seed in seeds if (why := read(name, seed))] == []
    assert all(len(seed) < 40_000 for seed in seeds)


def test_a_target_reports_forbidden_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_data: bytes, _folder: Path) -> None:
        raise KeyError("x")

    monkeypatch.setitem(TARGETS, "broken", Target(broken, list))
    monkeypatch.setitem(TARGETS, "greedy", Target(lambda _data, _folder: None, list))
    with pytest.raises(KeyError):
        read("broken", b"")
    monkeypatch.setattr("tests.fuzz.reading._peak_mb", iter([0, 400, 400]).__next__)
    with pytest.raises(TooMuch, match="400 MB for 1 bytes"):
        read("greedy", b"x")


@pytest.mark.parametrize("escape", ["file beside", "link out", "neither"])
def test_a_target_reports_files_outside_the_tree(tmp_path: Path, escape: str) -> None:
    """They are reported even if the parser then rejects the archive."""

    def unpack(tree: Tree) -> None:
        (tree.folder / "inside").write_bytes(b"")
        (tree.folder / "link").symlink_to("inside")
        if escape == "file beside":
            (tree.folder.parent / "outside").write_bytes(b"")
        elif escape == "link out":
            (tree.folder / "out").symlink_to(tmp_path)
        raise ArchiveError("refused")

    with pytest.raises(ArchiveError if escape == "neither" else AssertionError):
        unpacking(tmp_path, unpack)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["--input", "FILE"], "--input needs a TARGET"),
        (["--input", "FILE", "zap"], "no such target: zap; there are deb, "),
    ],
)
def test_a_missing_or_unknown_target_is_a_usage_error(
    argv: list[str], why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["scripts/fuzz", *argv])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert why in capsys.readouterr().err


def test_the_input_option_replays_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"torch\n")
    monkeypatch.setattr("sys.argv", ["scripts/fuzz", "folder-file", "--input", str(file)])
    assert main() == 0
    assert capsys.readouterr().out == "folder-file: accepted\n"
