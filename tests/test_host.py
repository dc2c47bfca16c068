"""The GPU that `--target` is filled in with, from the kernel's own text files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.host import chosen_gpu, detect_gpus, target_name

if TYPE_CHECKING:
    from pathlib import Path

CPU = "cpu_cores_count 16\nsimd_count 0\nsimd_per_cu 0\ngfx_target_version 0\n"


def gpu(version: object, simds: object) -> str:
    return f"cpu_cores_count 0\nsimd_count {simds}\nsimd_per_cu 2\ngfx_target_version {version}\n"


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the KFD nodes of an examined machine; it is not there yet."""
    monkeypatch.setenv("ROCENV_SYSROOT", str(tmp_path))
    monkeypatch.delenv("ROCENV_TARGET", raising=False)
    return tmp_path / "sys/class/kfd/kfd/topology/nodes"


def write(nodes: Path, **texts: str) -> None:
    for name, text in texts.items():
        (nodes / name.removeprefix("n")).mkdir(parents=True)
        (nodes / name.removeprefix("n") / "properties").write_text(text)


@pytest.mark.parametrize(
    ("version", "name"),
    [(90010, "gfx90a"), (90012, "gfx90c"), (100306, "gfx1036"), (110003, "gfx1103"), (120500, "gfx1250")],
)
def test_names(version: int, name: str) -> None:
    assert target_name(version) == name


def test_the_card_is_chosen_and_not_the_graphics_of_the_cpu(nodes: Path) -> None:
    write(nodes, n0=CPU, n1=gpu(100306, 4), n2=gpu(110000, 192), n10=gpu(110000, 192))
    found = detect_gpus()
    assert [(each.node, each.target, each.compute_units) for each in found] == [
        (1, "gfx1036", 2),
        (2, "gfx1100", 96),
        (10, "gfx1100", 96),
    ]
    chosen = chosen_gpu(found)
    assert chosen is not None
    assert chosen.node == 2, "the first of equals, nodes counted as numbers"


def test_a_gpu_that_nobody_knows_yet_is_named(nodes: Path) -> None:
    write(nodes, n1=gpu(150207, 64))
    assert [each.target for each in detect_gpus()] == ["gfx1527"]


@pytest.mark.parametrize("text", ["", "gfx_target_version\n", gpu("none", "x"), gpu(-1, 8), "\0\0\0"])
def test_a_node_that_makes_no_sense_hides_no_other(nodes: Path, text: str) -> None:
    write(nodes, n1=text, n2=gpu(110000, 192))
    assert [each.target for each in detect_gpus()] == ["gfx1100"]


def test_no_driver_is_no_gpu(nodes: Path) -> None:
    assert not nodes.exists()
    assert detect_gpus() == ()
    assert chosen_gpu(()) is None


@pytest.mark.parametrize(
    ("said", "targets"), [("", []), ("gfx90a", ["gfx90a"]), ("gfx1, gfx2", ["gfx1", "gfx2"])]
)
def test_the_variable_stands_in_for_the_machine(
    nodes: Path, monkeypatch: pytest.MonkeyPatch, said: str, targets: list[str]
) -> None:
    write(nodes, n1=gpu(110000, 192))
    monkeypatch.setenv("ROCENV_TARGET", said)
    assert [each.target for each in detect_gpus()] == targets
