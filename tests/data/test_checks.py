"""Rejected rows: broken references, duplicates and contradictions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import pytest

from rocenv.core.errors import DataError
from rocenv.data.load import TABLES, load
from tests.data.data import BASE, example, loaded, write

if TYPE_CHECKING:
    from pathlib import Path

# All fields that contain targets, by table.
TARGET_FIELDS = [
    ("app_build", "targets"),
    ("app_release", "targets"),
    ("compiler", "targets"),
    ("first_kernel", "target"),
    ("generic_target", "members"),
    ("gpu_name", "target"),
    ("good_set", "targets"),
    ("index", "targets"),
    ("kernels", "targets"),
    ("setting", "targets"),
    ("override", "runs_as"),
    ("override", "target"),
    ("pack", "targets"),
    ("pci", "target"),
    ("rocm", "blas"),
    ("rocm", "compiles"),
    ("rocm", "official"),
    ("rocm_wheels", "official"),
    ("rocm_wheels", "ready"),
    ("rocm_wheels", "targets"),
    ("support", "targets"),
    ("torch", "compiled"),
    ("torch", "targets"),
    ("verdict", "targets"),
    ("wsl", "targets"),
]
VERSIONS = [
    ("compiler", "version"),
    ("release", "version"),
    ("rocm", "version"),
    ("rocm", "glibc"),
    ("support", "rocm"),
    ("system_kernel", "rocm"),
    ("torch", "version"),
    ("torch", "rocm"),
    ("torch", "python"),
    ("rocm_wheels", "version"),
    ("rocm_wheels", "python"),
    ("rocm_wheels", "glibc"),
    ("hip_sdk", "version"),
    ("zluda", "version"),
    ("pack", "rocm"),
    ("good_set", "python"),
    ("driver_pair", "drivers"),
    ("driver_pair", "rocm"),
    ("driver_train", "rocm"),
    ("display_driver", "version"),
    ("wsl", "driver"),
    ("wsl", "driver_file"),
]

SPECIFIERS = [
    ("good_set", "driver"),
    ("good_set", "rocm"),
    ("good_set", "torch"),
    ("good_set", "zluda"),
    ("kernel_recipe", "overlay"),
    ("kernel_recipe", "versions"),
    ("override", "rocm"),
    ("rocm_wheels", "driver"),
    ("torch", "zluda"),
    ("verdict", "driver"),
    ("verdict", "rocm"),
    ("verdict", "torch"),
    ("verdict", "zluda"),
    ("wsl", "rocm"),
    ("environment", "rocm"),
    ("zluda", "driver"),
]


def refused(folder: Path, said: str, *rows: tuple[str, dict[str, Any]]) -> str:
    """Return the error message for rows in `1.toml`."""
    with pytest.raises(DataError, match=said) as caught:
        loaded(folder, *rows)
    return caught.value.message


# ---------------------------------------------------------------- references


def field_kind(table: str, field: str) -> Any:
    return get_type_hints(TABLES[table])[field]


@pytest.mark.parametrize(("table", "field"), TARGET_FIELDS)
def test_an_unknown_target_is_rejected(table: str, field: str, tmp_path: Path) -> None:
    is_list = get_origin(field_kind(table, field)) is tuple

    def row(name: str) -> tuple[str, dict[str, Any]]:
        return table, example(table, **{field: ["gfx1030", name] if is_list else name})

    loaded(tmp_path, row("gfx1031"))
    said = rf"`{field}`: unknown target `gfx1999` .*1\.toml: {table}\[0\]"
    refused(tmp_path, said, row("gfx1999"))
    if (table, field) != ("override", "runs_as"):
        refused(tmp_path, rf"`{field}`: unknown target `\*`", row("*"))


def test_all_target_fields_are_listed() -> None:
    """If the name of a field in a new table implies targets, the field must be in the list above."""
    words = re.compile(r"targets?|members|blas|compiles|compiled|official|ready|runs_as")
    every = ((table, name) for table, kind in TABLES.items() for name in kind.__struct_fields__)
    named = {(table, field) for table, field in every if words.fullmatch(field)}
    assert named == set(TARGET_FIELDS)


def test_features_in_target_names_are_ignored(tmp_path: Path) -> None:
    (row,) = loaded(tmp_path, ("pack", example("pack", targets=["gfx1030:xnack-"]))).pack
    assert row.targets == ("gfx1030:xnack-",)
    refused(tmp_path, "`gfx1999:xnack-`", ("pack", example("pack", targets=["gfx1999:xnack-"])))


@pytest.mark.parametrize(
    ("table", "values", "said"),
    [
        (
            "target",
            {"name": "gfx1032", "generic": "gfx12-generic"},
            "`generic`: no generic_target is named `gfx12-generic`",
        ),
        ("channel", {"repos": ["base", "other"]}, "`repos`: no repo is named `other`"),
        ("rocm", {"channel": "other"}, "`channel`: no channel is named `other`"),
        (
            "zluda",
            {"assets": [{"name": "a.zip", "rocm": ["6.2", "6.3"]}]},
            "`assets`: unknown HIP SDK `6.3`",
        ),
        ("zluda", {"assets": [{"name": "a.zip", "rocm": ["7"]}]}, "`assets`: unknown HIP SDK `7`"),
        ("pack", {"rocm": ["6.2.4", "7.1.1"]}, "`rocm`: unknown HIP SDK `7.1.1`"),
    ],
)
def test_an_unknown_reference_is_rejected(
    table: str, values: dict[str, Any], said: str, tmp_path: Path
) -> None:
    message = refused(tmp_path, re.escape(said), (table, example(table, **values)))
    assert message.endswith(f"(`{tmp_path / '1.toml'}: {table}[0]`)")


def test_a_zluda_asset_can_support_a_rocm_series_or_a_whole_major_release(tmp_path: Path) -> None:
    assets = [{"name": "a.zip", "rocm": ["6"]}, {"name": "b.zip", "rocm": ["6.2"]}, {"name": "c.tar.gz"}]
    (row,) = loaded(tmp_path, ("zluda", example("zluda", assets=assets))).zluda
    assert [asset.rocm for asset in row.assets] == [("6",), ("6.2",), ()]


# ---------------------------------------------------------------- versions and ranges


@pytest.mark.parametrize(("table", "field"), VERSIONS)
def test_an_invalid_version_is_rejected(table: str, field: str, tmp_path: Path) -> None:
    latest: Any = "latest" if get_type_hints(TABLES[table])[field] is str else ["latest"]
    said = rf"`{field}`: `latest` is not a valid version \(`.*1\.toml: {table}\[0\]`\)"
    refused(tmp_path, said, (table, example(table, **{field: latest})))


def test_an_invalid_pattern_is_rejected(tmp_path: Path) -> None:
    said = r"`pattern`: `RX \(` is not a valid regular expression: .* \(`.*1\.toml: gpu_name\[0\]`\)"
    refused(tmp_path, said, ("gpu_name", example("gpu_name", pattern="RX (")))


@pytest.mark.parametrize(("table", "field"), SPECIFIERS)
def test_an_invalid_range_is_rejected(table: str, field: str, tmp_path: Path) -> None:
    loaded(tmp_path, (table, example(table, **{field: ">=6.2,<7"})))
    for wrong in ("6.2", ">= 6.x", "newest"):
        said = rf"`{field}`: `{wrong}` is not a valid version range \(`.*1\.toml: {table}\[0\]`\)"
        refused(tmp_path, said, (table, example(table, **{field: wrong})))


def test_a_note_that_locks_could_not_contain_is_rejected(tmp_path: Path) -> None:
    refused(tmp_path, "`note` contains a line break", ("rocm", example("rocm", note="first\nsecond")))


# ---------------------------------------------------------------- sets and repositories


@pytest.mark.parametrize(
    ("table", "values", "said"),
    [
        ("rocm", {"packages": []}, "`packages` is empty"),
        ("torch", {"rocm": "6.2", "cuda": "11.8"}, "exactly one of `rocm` and `cuda` must be set"),
        ("torch", {"rocm": "", "cuda": ""}, "exactly one of `rocm` and `cuda` must be set"),
        ("repo", {"keyrings": []}, "to the keys to trust"),
        ("repo", {"key_url": "https://example.org/key"}, "to the keys to trust"),
        ("repo", {"fingerprints": ["ca8b"]}, "`ca8b` must be 40 uppercase hexadecimal digits"),
    ],
)
def test_an_incomplete_row_is_rejected(table: str, values: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert f"1.toml: {table}[0]" in refused(tmp_path, said, (table, example(table, **values)))


def test_torch_needs_kernel_packages_if_rocm_has_them(tmp_path: Path) -> None:
    wheels = example("rocm_wheels", packages=["rocm-sdk-device-{target}"])
    refused(
        tmp_path, "`kernels` is missing", ("rocm_wheels", wheels), ("torch", example("torch", channel="base"))
    )
    torch = example("torch", channel="base", kernels={"torch": "torch-{target}"})
    assert loaded(tmp_path, ("rocm_wheels", wheels), ("torch", torch)).torch


# ---------------------------------------------------------------- duplicates


@pytest.mark.parametrize("table", [table for table, kind in TABLES.items() if kind.IDENTITY])
def test_duplicate_rows_are_rejected(table: str, tmp_path: Path) -> None:
    first, second = example(table), example(table, source="another one", note="")
    second = {key: value for key, value in second.items() if key in first}
    if table == "support":
        second["source"] = first["source"]  # part of a row's identity, so that several sources can coexist
    write(tmp_path, BASE, [(table, first)], [(table, second)])
    with pytest.raises(DataError, match=r"2\.toml: .*duplicates .*1\.toml: ") as caught:
        load(tmp_path)
    assert caught.value.message.startswith(f"`{tmp_path / '2.toml'}: {table}[0]`")


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("pci", "revision", "c8"),
        ("rocm_wheels", "platform", "windows"),
        ("torch", "rocm", "6.2"),
        ("torch", "channel", "base"),
        ("zluda", "project", "vosen"),
        ("pack", "targets", ["gfx1031"]),
        ("override", "value", "11.0.0"),
        ("kernels", "kind", "shipped"),
        ("variable", "by", "zluda"),
    ],
)
def test_rows_with_different_identities_coexist(table: str, field: str, value: Any, tmp_path: Path) -> None:
    rows = [(table, example(table)), (table, example(table, **{field: value}))]
    assert len(getattr(loaded(tmp_path, *rows), table)) == 2


def test_some_tables_allow_duplicate_rows(tmp_path: Path) -> None:
    assert len(loaded(tmp_path, *[("fact", example("fact"))] * 2).fact) == 2


# ---------------------------------------------------------------- contradictions


def support(level: str, *targets: str, **values: Any) -> tuple[str, dict[str, Any]]:
    return "support", example("support", rocm="6.2", level=level, targets=list(targets), **values)


def test_contradictory_levels_of_support_are_rejected(tmp_path: Path) -> None:
    rows = support("official", "gfx1030", "gfx1031"), support("libraries", "gfx1031", "gfx1100")
    file = tmp_path / "1.toml"
    says = f"`{file}: support[1]` has `libraries` for linux, 6.2, gfx1031"
    said = f"{says}, but `{file}: support[0]` has `official`"
    refused(tmp_path, re.escape(said), *rows)


@pytest.mark.parametrize("values", [{"platform": "windows"}, {"rocm": "6.1"}, {"level": "official"}])
def test_support_levels_for_different_releases_or_platforms_do_not_conflict(
    values: dict[str, Any], tmp_path: Path
) -> None:
    first, second = support("official", "gfx1030"), support("libraries", "gfx1030", source="another one")
    second[1].update(values)
    assert len(loaded(tmp_path, first, second).support) == 2


CONDITIONS: dict[str, Any] = {
    "platform": "windows",
    "targets": ["gfx1031"],
    "rocm": "==6.2.*",
    "zluda": "==3.9.5",
    "project": "lshqqytiger",
    "flavour": ["rocm6"],
    "torch": "==2.7.1",
    "driver": ">=25.5.1",
    "pack": "none",
    "only_if": "it rains",
}
OTHERS: dict[str, Any] = {
    "platform": "linux",
    "targets": ["gfx1030"],
    "flavour": [],
    "pack": "",
    "only_if": "",
    "project": "",
}


def verdict(said: str, what: str, **values: Any) -> tuple[str, dict[str, Any]]:
    return "verdict", example("verdict", verdict=said, what=what, **{**CONDITIONS, **values})


def test_contradictory_verdicts_are_rejected(tmp_path: Path) -> None:
    rows = verdict("broken", "it ends"), verdict("works", "it goes on")
    message = refused(tmp_path, "has `works` for windows, gfx1031, ==6.2", *rows)
    assert message.endswith(f"but `{tmp_path / '1.toml'}: verdict[0]` has `broken`")
    between = verdict("workaround", "it continues if you push")
    refused(tmp_path, "has `broken`$", between, *rows)
    refused(tmp_path, "has `works`$", between, *reversed(rows))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_verdicts_for_different_conditions_do_not_conflict(condition: str, tmp_path: Path) -> None:
    other = OTHERS.get(condition, "==1.0")
    rows = verdict("broken", "it ends"), verdict("works", "it goes on", **{condition: other})
    assert len(loaded(tmp_path, *rows).verdict) == 2


def test_a_workaround_does_not_conflict_with_verdicts(tmp_path: Path) -> None:
    rows = verdict("broken", "it ends"), verdict("workaround", "it continues if you push")
    assert len(loaded(tmp_path, *rows).verdict) == 2


def test_row_fields_have_the_types_that_these_tests_assume() -> None:
    for table, field in SPECIFIERS:
        assert field_kind(table, field) is str
    assert get_args(field_kind("rocm", "blas")) == (str, ...)


# ---------------------------------------------------------------- app packages and compilers


def test_app_packages_from_an_unknown_channel_are_rejected(tmp_path: Path) -> None:
    loaded(tmp_path, ("compiler", example("compiler")))
    loaded(tmp_path, ("app_packages", example("app_packages")))
    refused(
        tmp_path,
        "`channel`: no channel is named `nobody`",
        ("compiler", example("compiler", channel="nobody")),
    )
    for channels, said in (
        (["base", "nobody"], "`channels`: no channel is named `nobody`"),
        ([], "`channels` is empty"),
    ):
        refused(tmp_path, said, ("app_packages", example("app_packages", channels=channels)))


def test_two_rows_for_an_app_in_a_channel_are_rejected(tmp_path: Path) -> None:
    one, other = example("app_packages"), example("app_packages", channels=["base", "base"])
    refused(tmp_path, "has `base, base` for x, base, but", ("app_packages", one), ("app_packages", other))


@pytest.mark.parametrize("path", ["/usr/bin", "usr/../../bin"])
def test_app_paths_outside_the_packages_are_rejected(path: str, tmp_path: Path) -> None:
    refused(tmp_path, "points outside the tree", ("app_packages", example("app_packages", program=path)))
    links = {"usr/bin": f"{path}/x"}
    refused(tmp_path, "points outside the tree", ("app_packages", example("app_packages", links=links)))


def test_a_program_pattern_cannot_have_alternative_names(tmp_path: Path) -> None:
    programs = [{"path": "usr/bin/*", "names": ["one"]}]
    refused(
        tmp_path, "may match several programs", ("app_packages", example("app_packages", programs=programs))
    )
