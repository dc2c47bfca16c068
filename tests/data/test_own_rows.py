"""User rows, which add to rocenv's rows or replace them; errors in them name the user's file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rocenv.core.errors import DataError
from rocenv.data.load import load
from tests.data.data import BASE, example, text, write

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.data.rows import Matrix
    from tests.data.data import Rows
    from tests.mini import Mini

PCI = ("pci", example("pci", device="73df", target="gfx1031", products=["RX 6750 XT"]))


def support(level: str, *targets: str, **values: Any) -> tuple[str, dict[str, Any]]:
    return "support", example("support", rocm="6.2", level=level, targets=list(targets), **values)


def verdict(said: str, what: str, **values: Any) -> tuple[str, dict[str, Any]]:
    return "verdict", example("verdict", verdict=said, what=what, targets=["gfx1031"], **values)


def merged(folder: Path, shipped: Rows, own: Rows) -> Matrix:
    return load(write(folder / "shipped", BASE, shipped), write(folder / "own", own))


def test_a_user_row_is_added(tmp_path: Path) -> None:
    new = ("pci", example("pci", device="7590", target="gfx1100"))
    matrix = merged(tmp_path, [PCI], [new])
    assert {row.device: row.target for row in matrix.pci} == {"73df": "gfx1031", "7590": "gfx1100"}


def test_user_rows_can_refer_to_user_targets(tmp_path: Path) -> None:
    own: Rows = [
        ("target", example("target", name="gfx1999")),
        ("pci", example("pci", device="7590", target="gfx1999")),
    ]
    matrix = merged(tmp_path, [PCI], own)
    assert "gfx1999" in matrix.targets
    assert len(matrix.pci) == 2


def test_a_user_row_replaces_the_whole_shipped_row_with_the_same_identity(tmp_path: Path) -> None:
    own = ("pci", example("pci", device="73df", target="gfx1030", source="my own eyes"))
    (row,) = merged(tmp_path, [PCI], [own]).pci
    assert (row.target, row.products, row.source) == ("gfx1030", (), "my own eyes")


def test_a_user_row_replaces_the_shipped_row_with_the_same_name(tmp_path: Path) -> None:
    own = ("target", example("target", name="gfx1030", products="my card"))
    targets = merged(tmp_path, [], [own]).targets
    assert targets["gfx1030"].products == "my card"
    assert set(targets) == {"gfx1030", "gfx1031", "gfx1100"}


def test_a_user_row_for_one_target_keeps_the_support_of_other_targets(tmp_path: Path) -> None:
    shipped = support("official", "gfx1030", "gfx1031"), support("libraries", "gfx1100")
    matrix = merged(tmp_path, list(shipped), [support("libraries", "gfx1031", source="my own eyes")])
    levels = {target: row.level for row in matrix.support for target in row.targets}
    assert levels == {"gfx1030": "official", "gfx1031": "libraries", "gfx1100": "libraries"}


@pytest.mark.parametrize("values", [{"platform": "windows"}, {"rocm": "6.1"}])
def test_unrelated_support_rows_change_nothing(values: dict[str, str], tmp_path: Path) -> None:
    own = support("unsupported", "gfx1030", **values) if "rocm" not in values else support("official")
    own[1].update(values, targets=["gfx1030"])
    matrix = merged(tmp_path, [support("official", "gfx1030")], [own])
    assert len(matrix.support) == 2


def test_a_support_row_whose_targets_are_all_replaced_is_dropped(tmp_path: Path) -> None:
    own = support("unsupported", "gfx1030", source="my own eyes")
    (row,) = merged(tmp_path, [support("official", "gfx1030")], [own]).support
    assert row.level == "unsupported"


def test_user_verdicts_override_shipped_ones(tmp_path: Path) -> None:
    shipped = [verdict("broken", "it ends"), verdict("broken", "it ends", rocm="==6.2.*")]
    matrix = merged(tmp_path, shipped, [verdict("works", "it runs here")])
    assert {(row.verdict, row.rocm) for row in matrix.verdict} == {("works", ""), ("broken", "==6.2.*")}


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ([("pci", example("pci", target="gfx1999"))], r"`target`: unknown target `gfx1999`"),
        ([PCI, PCI], r"duplicates"),
        ([("pci", {**example("pci"), "source": " "})], r"has no source"),
        (
            [support("official", "gfx1030"), support("libraries", "gfx1030")],
            r"has `libraries` for .* has `official`",
        ),
    ],
)
def test_an_error_shows_the_users_file(own: Rows, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said) as caught:
        merged(tmp_path, [PCI], own)
    assert f"{tmp_path / 'own' / '0.toml'}: {own[-1][0]}[{len(own) - 1}]" in caught.value.message


def test_a_reference_broken_by_a_user_row_shows_the_referring_row(tmp_path: Path) -> None:
    """The referring row may be a shipped one, if a user row changes the row that it refers to."""
    own = ("target", example("target", name="gfx1030", generic="no-such-generic"))
    with pytest.raises(DataError, match=r"own/0\.toml: target\[0\]"):
        merged(tmp_path, [], [own])


@pytest.mark.parametrize("make", [False, True])
def test_a_missing_or_empty_folder_changes_nothing(make: bool, tmp_path: Path) -> None:
    shipped = write(tmp_path / "shipped", BASE, [PCI])
    if make:
        (tmp_path / "own").mkdir()
    assert load(shipped, tmp_path / "own") == load(shipped)


def test_the_next_command_uses_rows_next_to_config_toml(mini: Mini) -> None:
    assert mini.run("resolve", "--rocm", "5.9").returncode == 1
    theirs = (mini.root / "profiles" / "mini.toml").read_text()
    begin = theirs.index('[[rocm]]\nversion = "5.7.1"')
    block = theirs[begin:].split("\n[[")[0].replace('version = "5.7.1"', 'version = "5.9.0"')
    own = mini.home / "profiles"
    own.mkdir(parents=True)
    (own / "mine.toml").write_text(f"schema = 1\n{block}\n")
    done = mini.run("resolve", "--rocm", "5.9", "--json")
    assert done.returncode == 0, done.stderr
    assert '"5.9.0"' in done.stdout
    (own / "mine.toml").write_text(text([("pci", {"device": "73df"})]))
    done = mini.run("resolve", "--rocm", "5.9")
    assert done.returncode == 1
    assert f"{own / 'mine.toml'}: pci[0]" in done.stderr
    assert "Traceback" not in done.stderr
