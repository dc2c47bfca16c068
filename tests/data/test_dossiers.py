"""`scripts/check-dossiers` finds rows that were not carried over, and values that slipped on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.data.load import load
from tests.data.data import toml

if TYPE_CHECKING:
    from rocenv.data.hardware import PciId

ROOT = Path(__file__).parents[2]


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "check-dossiers"), str(folder)],
        env={**os.environ, "ROCENV_PROFILES": ""},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def dossier(folder: Path, name: str, *rows: tuple[str, dict[str, Any]]) -> None:
    tables = [f"[[{table}]]\n" + "".join(f"{key} = {toml(row[key])}\n" for key in row) for table, row in rows]
    (folder / f"{name}.toml").write_text("schema = 1\n" + "\n".join(tables))


def device() -> PciId:
    return next(row for row in load(ROOT / "profiles").pci if row.products and row.codename)


def as_the_dossier_has_it(row: PciId, **changes: Any) -> tuple[str, dict[str, Any]]:
    plain = {"device": row.device, "gfx": row.target, "products": row.products, "codename": row.codename}
    return "pci", {**plain, **changes}


COMBO = {
    "hip_sdk": "7.1",
    "zluda": "vosen v6-preview.76 and earlier",
    "gfx": "gfx1201",
    "verdict": "broken",
    "source": "https://github.com/vosen/ZLUDA/issues/646",
}


def test_rows_that_are_there(tmp_path: Path) -> None:
    dossier(tmp_path, "rocm", as_the_dossier_has_it(device()))
    dossier(tmp_path, "zluda", ("combo", COMBO))
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split() == ["all", "2", "2", "0", "0"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": "ffff"}, "not there: device = 'ffff'"),
        ({"gfx": "gfx1999"}, "`target` is"),
        ({"products": ["another card"]}, "`products` is"),
    ],
)
def test_a_row_that_is_not_there_or_has_another_value(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    dossier(tmp_path, "rocm", as_the_dossier_has_it(device()), as_the_dossier_has_it(device(), **changes))
    dossier(tmp_path, "zluda")
    done = run(tmp_path)
    assert done.returncode == 1
    assert "rocm.toml: pci[1]: " in done.stderr
    assert said in done.stderr
    assert done.stdout.splitlines()[-1].split() == ["all", "2", "1", "0", "1"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hip_sdk", "6.1"),
        ("zluda", "vosen v6-preview.77"),
        ("gfx", "gfx1200"),
        ("verdict", "works"),
        ("source", "https://github.com/vosen/ZLUDA/issues/1"),
        ("hip_sdk", "7.1/6.4"),
    ],
)
def test_a_combination_on_other_conditions(key: str, value: str, tmp_path: Path) -> None:
    dossier(tmp_path, "rocm")
    dossier(tmp_path, "zluda", ("combo", {**COMBO, key: value}))
    done = run(tmp_path)
    assert done.returncode == 1
    assert "zluda.toml: combo[0]: no verdict" in done.stderr


def test_a_table_that_nobody_speaks_of_and_one_that_has_grown(tmp_path: Path) -> None:
    dossier(tmp_path, "rocm", ("unheard_of", {"x": 1}), ("meta", {"x": 1}), ("props_layout", {"x": 1}))
    dossier(tmp_path, "zluda")
    done = run(tmp_path)
    assert done.returncode == 1
    assert "rocm.toml: unheard_of: no rule, and not in docs/data.md" in done.stderr
    assert "rocm.toml: props_layout: docs/data.md says that it has 2 rows" in done.stderr
    assert "meta" not in done.stderr
    assert done.stdout.splitlines()[-1].split() == ["all", "3", "0", "1", "2"]


def test_a_folder_without_dossiers(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 2
    assert "has no rocm.toml and no zluda.toml" in done.stderr
