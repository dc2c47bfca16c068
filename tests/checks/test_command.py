"""`rocenv doctor` on the command line."""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.commands import doctor
from rocenv.context import Context
from rocenv.core.progress import Progress
from rocenv.data.load import load
from rocenv.data.remedies import Texts
from tests.checks.scenery import RX_6800, Scenery
from tests.commands.lab import Lab, words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.core.progress import Wait


@pytest.fixture
def lab(tmp_path: Path, scenery: Scenery) -> Lab:
    lab = Lab(tmp_path / "lab")
    lab.root.mkdir()
    lab.environ["ROCENV_SYSROOT"] = str(scenery.root.path)
    return lab


def document(output: bytes) -> dict[str, Any]:
    plain = json.loads(output)
    assert isinstance(plain, dict)
    return plain


def test_a_healthy_machine_has_no_findings_as_text_and_json(lab: Lab, scenery: Scenery) -> None:
    scenery.healthy()
    done = lab.run("doctor")
    assert done.returncode == 0 and "found no problems" in words(done.stdout)
    assert "rocenv diagnose" in words(done.stdout)
    done = lab.run("doctor", "--json")
    assert done.returncode == 0
    found = document(done.stdout)
    assert found["findings"] == [] and found["checks_run"] > 20


def test_a_finding_that_is_an_error_makes_doctor_exit_with_1(lab: Lab, scenery: Scenery) -> None:
    scenery.healthy()
    done = lab.run("doctor", HSA_OVERRIDE_GFX_VERSION="10.3.0")
    text = words(done.stdout)
    assert done.returncode == 1
    for each in ("error", "hsa-override-wrong", "gfx1100", "unset HSA_OVERRIDE_GFX_VERSION"):
        assert each in text
    found = document(lab.run("doctor", "--json", HSA_OVERRIDE_GFX_VERSION="10.3.0").stdout)["findings"]
    assert [(each["code"], each["severity"]) for each in found] == [("hsa-override-wrong", "error")]
    assert set(found[0]) >= {"title", "detail", "evidence", "remedy", "links", "check", "fix"}
    assert found[0]["remedy"]["text"] and found[0]["remedy"]["commands"]
    assert found[0]["evidence"][0] == "HSA_OVERRIDE_GFX_VERSION=10.3.0"


def test_doctor_with_only_warnings_exits_with_0(lab: Lab, scenery: Scenery) -> None:
    scenery.root.kernel().cpu().card("0000:08:00.0", RX_6800, driver="vfio-pci")
    done = lab.run("doctor", "--json")
    assert done.returncode == 0 and document(done.stdout)["findings"][0]["severity"] == "warning"


def test_the_lang_option_or_the_locale_selects_chinese(lab: Lab, scenery: Scenery) -> None:
    scenery.root.wsl()
    for done in (lab.run("doctor", "--lang", "zh"), lab.run("doctor", LC_ALL="zh_CN.UTF-8")):
        assert "警告" in words(done.stdout) and "这个 WSL" in words(done.stdout)
    assert "warning" in words(lab.run("doctor", "--lang", "en", LC_ALL="zh_CN.UTF-8").stdout)


def test_check_runs_only_the_requested_checks(lab: Lab, scenery: Scenery) -> None:
    scenery.root.wsl()
    found = document(lab.run("doctor", "--json", "--check", "no_gpu", "--check", "kfd_closed").stdout)
    assert found == {"findings": [], "checks_run": 2}
    done = lab.run("doctor", "--check", "nonsense")
    assert done.returncode == 2 and "nonsense" in words(done.stderr)


def test_every_listed_check_can_be_run(lab: Lab, scenery: Scenery) -> None:
    scenery.healthy()
    names = [line.split()[0] for line in words(lab.run("doctor", "--list").stdout).splitlines()]
    told = document(lab.run("doctor", "--list", "--json").stdout)["checks"]
    assert [each["name"] for each in told] == names and "kfd_closed" in names
    every = [word for name in names for word in ("--check", name)]
    assert document(lab.run("doctor", "--json", *every).stdout)["checks_run"] == len(names)
    completed = words(lab.run("complete", "doctor", "--check", "kfd_").stdout)
    assert "kfd_closed" in completed


def test_an_unknown_env_is_an_error(lab: Lab, scenery: Scenery) -> None:
    scenery.healthy()
    done = lab.run("doctor", "nobody", "--json")
    assert done.returncode != 0 and document(done.stdout)["error"] == "env-missing"


@pytest.mark.parametrize("argv", [("",), ("-y",), ("--yes", "--list")])
def test_invalid_arguments_are_rejected(lab: Lab, scenery: Scenery, argv: tuple[str, ...]) -> None:
    scenery.healthy()
    assert lab.run("doctor", *argv).returncode == 2


def test_a_missing_sysroot_is_an_error(lab: Lab, tmp_path: Path) -> None:
    """A mistyped path must not look like a machine without a GPU."""
    done = lab.run("doctor", ROCENV_SYSROOT=str(tmp_path / "typo"))
    assert done.returncode == 1
    assert "typo`, which is not a folder" in words(done.stderr)


def test_an_incomplete_env_is_an_error_only_if_requested(lab: Lab, scenery: Scenery) -> None:
    scenery.healthy()
    folder = lab.home / "envs" / "half"
    (folder / ".rocenv").mkdir(parents=True)
    done = lab.run("doctor", "half", "--json")
    found = document(done.stdout)
    assert done.returncode == 1
    assert [(each["code"], each["severity"]) for each in found["findings"]] == [("env-incomplete", "error")]
    assert found["findings"][0]["remedy"]["commands"] == ["rocenv remove half"]
    assert found["checks_run"] > 20
    assert lab.run("doctor").returncode == 0, "the env was not requested"


def test_collect_with_a_check_runs_only_that_check(lab: Lab, scenery: Scenery, tmp_path: Path) -> None:
    scenery.healthy()
    done = lab.run("doctor", "--json", "--check", "no_gpu", "--collect", str(tmp_path / "one.zip"))
    assert document(done.stdout)["checks_run"] == 1


class Titles(Progress):
    """A progress reporter that records stage titles."""

    def __init__(self) -> None:
        super().__init__(stream=io.StringIO())
        self.shown: list[str] = []

    @contextmanager
    def wait(self, title: str, usual_s: float = 0.0, *, closing: bool = True) -> Iterator[Wait]:
        self.shown.append(title)
        with super().wait(title, usual_s, closing=closing) as wait:
            yield wait


def test_slow_checks_are_announced(scenery: Scenery) -> None:
    """Hashing an env takes minutes and would look like a hang."""
    world, titles, texts = Context(), Titles(), Texts(load(), "findings", "en")
    world.__dict__["progress"] = titles
    doctor._run(world, scenery.healthy().context(), ("no_gpu", "gpu_resets"), texts)
    assert titles.shown == ["Running the no_gpu check", "Running the gpu_resets check"]


def test_the_list_of_checks_is_available_in_chinese(lab: Lab, scenery: Scenery) -> None:
    scenery.healthy()
    lines = words(lab.run("doctor", "--list", "--lang", "zh").stdout).splitlines()
    assert len(lines) > 20
    assert all(any("一" <= char <= "龥" for char in line) for line in lines)
    assert not any("(slow)" in line for line in lines)


@pytest.mark.parametrize(
    "argv", [("--fix", "--list"), ("--collect", "x", "--fix"), ("sd", "--collect", "x.json")]
)
def test_conflicting_options_are_rejected(lab: Lab, scenery: Scenery, argv: tuple[str, ...]) -> None:
    done = lab.run("doctor", *argv)
    assert done.returncode == 2 and "cannot be used together" in words(done.stderr)


def test_fix_refuses_a_machine_snapshot(lab: Lab, scenery: Scenery) -> None:
    scenery.healthy()
    done = lab.run("doctor", "--fix")
    assert done.returncode != 0 and "snapshot" in words(done.stderr)


def test_a_bundle_has_the_same_findings_as_its_machine(lab: Lab, scenery: Scenery, tmp_path: Path) -> None:
    scenery.root.kernel("6.8.0-45-generic").cpu().card("0000:03:00.0", 0x7550, driver="")
    there = lab.run("doctor", "--json", "--collect", str(tmp_path / "bundle.json"))
    assert there.returncode == 1 and "bundle.json" in words(there.stderr)
    lab.environ["ROCENV_SYSROOT"] = str(tmp_path / "nowhere")
    here = lab.run("doctor", "--json", "--from", str(tmp_path / "bundle.json"))
    assert here.returncode == 1
    assert document(here.stdout) == document(there.stdout)
    assert document(here.stdout)["findings"][0]["code"] == "kernel-too-old"
