"""Output from `rocenv gpus` with the shipped matrix."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.host import Gpu
from tests import forked
from tests.host.roots import GIB, Root

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Root:
    path = tmp_path / "machine"
    path.mkdir()
    return Root(path)


def gpus(root: Root, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("ROCENV_", "HSA_"))}
    return forked.run_text(
        ["gpus", *argv], env={**keep, "ROCENV_SYSROOT": str(root.path), **env}, cwd=root.path
    )


def document(root: Root, **env: str) -> Any:
    done = gpus(root, "--json", **env)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def card_and_igpu(root: Root) -> Root:
    root.kernel().cpu().gpu(1, 0x164E, 100306, units=2, memory=GIB // 2)
    return root.gpu(2, 0x73BF, 100300, memory=16 * GIB)


def test_wsl_reads_the_gpu_from_windows(root: Root) -> None:
    pnp = r"PCI\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8"
    root.wsl({"Name": "AMD Radeon RX 7900 XTX", "PNPDeviceID": pnp, "DriverVersion": "32.0.31041.1004"})
    told = document(root)
    assert (told["wsl"], told["platform"], told["selected"]) == (True, "linux", 0)
    assert told["gpus"][0]["target"] == "gfx1100"
    assert told["gpus"][0]["source"].startswith("Windows")
    assert told["driver"]["display"] == "32.0.31041.1004"
    text = gpus(root).stderr
    assert "WSL kernel" in text
    assert "Windows display driver 32.0.31041.1004 (26.8.1)" in text


def test_json_lists_gpus_and_the_selection(root: Root) -> None:
    told = document(card_and_igpu(root))
    assert (told["selected"], told["hip_visible_devices"]) == (1, "1")
    card = told["gpus"][1]
    assert {
        name: card[name] for name in ("index", "target", "pci_id", "integrated", "usable", "why_not")
    } == {
        "index": 1,
        "target": "gfx1030",
        "pci_id": "1002:73bf",
        "integrated": False,
        "usable": True,
        "why_not": None,
    }
    assert (card["vram_bytes"], card["source"]) == (16 * GIB, "KFD")
    assert "RX 6800 XT" in card["name"]


def test_the_text_output_has_a_table_a_reason_and_the_variable_to_set(root: Root) -> None:
    done = gpus(card_and_igpu(root))
    header, igpu, card, why = done.stdout.splitlines()
    assert done.returncode == 0
    assert header.split() == ["GPU", "TARGET", "KIND", "MEMORY", "STATE", "UNITS", "PCI", "ID", "NAME"]
    assert "iGPU" in igpu
    assert card.startswith("*  1    gfx1030")
    assert "16.0 GiB" in card
    assert why == "used: GPU 1 (gfx1030) is preferred over GPU 0 (gfx1036), which is part of the CPU"
    assert "HIP_VISIBLE_DEVICES=1" in done.stderr


def test_a_variable_that_selects_gpus_is_shown(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "0")
    assert "HIP_VISIBLE_DEVICES=0 is set and selects GPUs" in gpus(card_and_igpu(root)).stderr


def test_the_text_output_has_hints_for_inaccessible_gpus(root: Root) -> None:
    card_and_igpu(root)
    (root.path / "dev/kfd").unlink()
    done = gpus(root)
    assert done.returncode == 0
    assert "GPU 0-1: `/dev/kfd` does not exist" in done.stderr
    assert "hint: start the container with `--device /dev/kfd --device /dev/dri`" in done.stderr


def test_an_unknown_target_is_listed(root: Root) -> None:
    told = document(root.kernel().gpu(1, 0x8123, 150207))
    assert [(gpu["target"], gpu["integrated"]) for gpu in told["gpus"]] == [("gfx1527", None)]


def test_a_machine_without_a_gpu_is_not_an_error(root: Root) -> None:
    assert document(root)["gpus"] == []
    assert document(card_and_igpu(root), ROCENV_TARGET="")["gpus"] == []
    assert [gpu["target"] for gpu in document(root, ROCENV_TARGET="gfx90a:xnack-")["gpus"]] == ["gfx90a"]
    done = gpus(root, ROCENV_TARGET="")
    assert done.stdout == "no GPU is used: ROCENV_TARGET is empty, which means no GPU\n"


def test_identical_gpus_share_a_table_row(root: Root) -> None:
    root.kernel()
    for number in (1, 2, 3):
        root.gpu(number, 0x73BF, 100300)
    root.gpu(4, 0x744C, 110000)
    _, *rows, why = gpus(root).stdout.splitlines()
    assert [row.split()[:2] for row in rows] == [["0-2", "gfx1030"], ["*", "3"]]
    assert why.startswith("used: GPU 3")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Radeon RX 7900 XTX / Radeon RX 7900 XT / Radeon RX 7900 GRE / …", "RX 7900 XTX/XT/GRE/…"),
        ("Instinct MI60 / MI50 / Radeon Pro VII", "Instinct MI60/MI50/Radeon Pro VII"),
        ("Radeon 8060S / Radeon 8050S", "Radeon 8060S/8050S"),
        ("AMD Radeon(TM) RX 6600", "RX 6600"),
        ("Radeon RX 6600 / Radeon RX 6600", "RX 6600"),
        ("", ""),
    ],
)
def test_names_of_gpus_are_shortened(name: str, short: str) -> None:
    assert Gpu(source="test", name=name).short_name == short


def test_a_long_gpu_name_is_not_truncated(root: Root) -> None:
    root.kernel().gpu(1, 0x73BF, 100300)
    root.put("sys/bus/pci/devices/0000:01:00.0/product_name", "Radeon Name " * 12)
    name = ("Radeon Name " * 12).strip()
    assert document(root)["gpus"][0]["name"] == name
    assert name in gpus(root).stdout
