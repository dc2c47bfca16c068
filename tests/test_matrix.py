"""The shipped data is whole, and data that is not says which file and which key."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.errors import DataError
from rocenv.matrix.load import load, profiles_folder
from tests.mini import Mini, write_profiles

if TYPE_CHECKING:
    from rocenv.matrix.rows import Matrix, RocmSet

TARGET = re.compile(r"gfx[0-9a-f]{3,4}")


@pytest.fixture(scope="module")
def shipped() -> Matrix:
    return load(Path(__file__).parents[1] / "profiles")


def sets() -> list[RocmSet]:
    return list(load(Path(__file__).parents[1] / "profiles").rocm)


def name_of(row: RocmSet) -> str:
    return f"{row.channel}-{row.version}"


# ---------------------------------------------------------------- the shipped data


def test_every_row_says_where_it_is_from_and_when_it_was_looked_at(shipped: Matrix) -> None:
    tables = (
        *(shipped.repos.values(), shipped.channels.values(), shipped.rocm, shipped.torch),
        *(shipped.keep_out, shipped.c_libraries, shipped.environment),
    )
    for table in tables:
        assert table
        for row in table:
            assert row.source.strip()
            assert datetime.date.fromisoformat(row.checked) <= datetime.date.today()


@pytest.mark.parametrize("row", sets(), ids=name_of)
def test_a_set_is_consistent(row: RocmSet) -> None:
    assert row.packages
    for targets in (row.compiles, row.blas, row.official):
        assert all(TARGET.fullmatch(target) for target in targets)
        assert len(set(targets)) == len(targets)
    assert set(row.official) <= set(row.compiles), "what is supported compiles"
    layout = row.layout
    assert set(layout.libraries) == {"hip", "hiprtc", "rocblas"}
    assert all(re.fullmatch(r"lib\w+\.so\.\d+", name) for name in layout.libraries.values())
    places = [layout.root, *layout.library_dirs, *filter(None, [layout.bin, layout.device_libs])]
    assert not any(place.startswith("/") or place.endswith("/") or ".." in place for place in places)
    inside = [place for place in (layout.bin, layout.device_libs, layout.library_dirs[0]) if place]
    assert all(place.startswith(f"{layout.root}/") for place in inside)


@pytest.mark.parametrize("row", [row for row in sets() if row.channel == "amd"], ids=name_of)
def test_amds_sets_lie_under_their_own_version(row: RocmSet) -> None:
    assert row.layout.root == f"opt/rocm-{row.version}"
    assert row.version.startswith(row.apt_dir)
    assert row.suite


def test_every_channel_has_sets_and_every_repository_a_channel(shipped: Matrix) -> None:
    assert {row.channel for row in shipped.rocm} == set(shipped.channels)
    assert {repo for channel in shipped.channels.values() for repo in channel.repos} == set(shipped.repos)


def test_every_torch_has_a_rocm_it_is_built_for(shipped: Matrix) -> None:
    for row in shipped.torch:
        assert all(TARGET.fullmatch(target) for target in row.targets)
        assert row.index.endswith(f"/rocm{row.rocm}")
        assert list(row.python) == sorted(
            row.python, key=lambda text: [int(part) for part in text.split(".")]
        )


def test_no_mirror_of_a_distribution_is_named() -> None:
    for path in profiles_folder().rglob("*.toml"):
        assert not re.search(r"(deb|ftp|security|archive)\.(debian|ubuntu)\.", path.read_text())


def test_both_real_channels_of_debian_bring_the_c_library_they_need(shipped: Matrix) -> None:
    (library,) = shipped.c_libraries
    assert library.loader in library.files
    assert not any(row.pattern == library.package for row in shipped.keep_out)


# ---------------------------------------------------------------- data that is not whole


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The mini world's data, which loads."""
    profiles = tmp_path / "profiles"
    write_profiles(profiles)
    assert load(profiles).rocm
    return profiles


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema = 1", "schema = 2", r"mini.toml` has schema 2; this rocenv reads schema 1"),
        ("schema = 1", "", r"mini.toml` has schema None"),
        ("[[channel]]", "[[chanel]]", r"unknown table `chanel` in `.*mini.toml`"),
        ("[[channel]]", "[channel]", r"`channel` in `.*mini.toml` is not a list of tables"),
        (
            'base = "debian:"',
            'base = "debian:"\nmirror = "x"',
            r"unknown key `mirror` in `.*mini.toml: repo\[0\]`",
        ),
        ('base = "debian:"', "", r"key `base` is missing in `.*mini.toml: repo\[0\]`"),
        ('base = "debian:"', "base = 1", r"`base` in `.*mini.toml: repo\[0\]` is a int, not a str"),
        ('source = "tests/mini.py"', "", r"key `source` is missing in `.*mini.toml: repo\[0\]`"),
        ('source = "tests/mini.py"', 'source = ""', r"mini.toml: repo\[0\]` has no source"),
        ('checked = "2026-11-20"', 'checked = ""', r"mini.toml: repo\[0\]` has no source, or not the day"),
        (
            'checked = "2026-11-20"',
            "checked = 2026-11-20",
            r"`checked` in `.*repo\[0\]` is a date, not a str",
        ),
        (
            'by = "distribution"',
            'by = "hearsay"',
            r"`by` in `.*channel\[0\]` is 'hearsay', not one of maker, distribution",
        ),
        ('repos = ["mini"]', 'repos = ["mimi"]', r"`repos` names `mimi`, which is not there .*channel\[0\]"),
        ('repos = ["mini"]', 'repos = "mini"', r"`repos` in `.*channel\[0\]` is a str, not a list"),
        ('channel = "mini"', 'channel = "maxi"', r"`channel` names `maxi`, which is not there .*rocm\[0\]"),
        ('version = "5.7.1"', 'version = "6.4.3"', r"ROCm 6\.4\.3 is there twice .*rocm\[1\]"),
        ('version = "5.7.1"', 'version = "latest"', r"`version`: `latest` is no version .*rocm\[0\]"),
        (
            'version = "5.7.1"',
            'version = "5.7.1"\nfloating = true',
            r"`version_package` is missing.*rocm\[0\]",
        ),
        ('packages = ["mini5-hip", "mini5-blas"]', "packages = []", r"`packages` is empty .*rocm\[0\]"),
        ('root = "usr"', 'root = "usr"\nlib = "x"', r"unknown key `layout.lib` in `.*rocm\[0\]`"),
        ('keyrings = ["/usr/share/keyrings/mini.gpg"]', "", r"must say whom to trust .*repo\[0\]"),
        ('keyrings = ["/usr/share/keyrings/mini.gpg"]', 'key_url = "https://x"', r"must say whom to trust"),
        ("[[repo]]", "[[repo]\n", r"cannot read `.*mini.toml`"),
        ("[[repo]]", "\x00", r"cannot read `.*mini.toml`"),
    ],
)
def test_data_that_is_wrong(folder: Path, old: str, new: str, said: str) -> None:
    path = folder / "mini.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(DataError, match=said) as caught:
        load(folder)
    assert "mini.toml" in caught.value.message


def test_a_second_row_of_the_same_name(folder: Path) -> None:
    (folder / "again.toml").write_text((folder / "mini.toml").read_text())
    with pytest.raises(DataError, match=r"`mini` is there twice .*mini.toml"):
        load(folder)


def test_data_without_a_c_library(folder: Path) -> None:
    path = folder / "mini.toml"
    head, _, tail = path.read_text().partition("[[c_library]]")
    path.write_text(head + tail[tail.index("[[") :])
    with pytest.raises(DataError, match="names no `c_library`"):
        load(folder)


@pytest.mark.parametrize("name", ["empty", "missing"])
def test_a_folder_without_data(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("ROCENV_PROFILES", str(tmp_path / name))
    with pytest.raises(DataError, match="holds no data files") as caught:
        load()
    assert "ROCENV_PROFILES" in caught.value.hints[0]


def test_a_folder_of_ones_own_is_used_instead(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCENV_PROFILES", str(folder))
    assert set(load().channels) == {"mini"}
    monkeypatch.setenv("ROCENV_PROFILES", "")
    assert "amd" in load().channels


def test_a_data_error_from_the_command_line(mini: Mini) -> None:
    path = mini.root / "profiles/mini.toml"
    path.write_text(path.read_text().replace("compiles", "compile", 1))
    done = mini.run("resolve", "--rocm", "5.7")
    assert done.returncode == 1
    assert "unknown key `compile`" in done.stderr
    assert "Traceback" not in done.stderr
