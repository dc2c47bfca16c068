"""Checks on Windows drivers, HIP SDKs and variables, run on machine snapshots."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from rocenv.checks import devices, windows
from rocenv.checks.context import CheckContext, Env
from rocenv.checks.run import render_in, run
from rocenv.core.model import Artifact, Layout
from rocenv.data.load import load
from rocenv.findings import CheckResult, Observation, each_of
from rocenv.home import Home
from rocenv.host import detect
from rocenv.host import windows as host_windows
from tests.checks.scenery import checks_of
from tests.host.roots import Root
from tests.launch.lab import Lab, component, zluda_parts

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.data.rows import Matrix
    from rocenv.prefix import Prefix

CARD = {"Name": "AMD Radeon RX 6750 XT", "gcnArchName": "gfx1031", "isIntegrated": 0}
IGPU = {"Name": "AMD Radeon(TM) Graphics", "gcnArchName": "gfx1036", "isIntegrated": 1}
ADAPTER = {
    "Name": "AMD Radeon RX 6750 XT",
    "PNPDeviceID": r"PCI\VEN_1002&DEV_73DF&SUBSYS_1&REV_C0\6",
    "DriverVersion": "32.0.12033.1030",
    "RadeonSoftwareVersion": "24.12.1",
}
SYSTEM32 = {
    "amdhip64.dll": "5.7.32000.0",
    "amdhip64_6.dll": "6.1.40252.0",
    "msvcp140.dll": "14.44.35211.0",
    "vcruntime140.dll": "14.44.35211.0",
    "vcruntime140_1.dll": "14.44.35211.0",
}
SDK = r"C:\Program Files\AMD\ROCm\6.1"
SDK_FILES = ["amdhip64_6.dll", "hiprtc0601.dll", "rocblas.dll"]
FINE = "rocenv create a2 --rocm 6.2.4 --zluda"
CHECKS = checks_of(windows)
ENVIRONMENT_KEY = r"SYSTEM\CurrentControlSet\Control\Session Manager\Environment"


@dataclass
class Machine:
    """An intact Windows machine for tests to break."""

    root: Root
    home: Home
    matrix: Matrix
    devices: list[dict[str, Any]] = field(default_factory=lambda: [CARD])
    adapters: list[dict[str, Any]] = field(default_factory=lambda: [ADAPTER])
    files: dict[str, Any] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    envs: list[Env] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.files = {
            "system32.json": dict(SYSTEM32),
            "folders.json": {SDK + r"\bin": SDK_FILES, r"C:\Windows\System32": list(SYSTEM32)},
            "registry.json": {ENVIRONMENT_KEY: {"HIP_PATH": SDK + "\\"}},
        }
        self.environ = {"HIP_PATH": SDK + "\\", "Path": rf"C:\Windows\System32;{SDK}\bin"}

    def env(self, prefix: Prefix) -> Env:
        """Add an env to the machine."""
        self.envs.append(Env(prefix=prefix, record=prefix.record()))
        return self.envs[-1]

    def context(self, **more: Any) -> CheckContext:
        """Write the machine's files, and return a CheckContext."""
        self.root.windows(*self.devices, controllers=self.adapters)
        for name, content in self.files.items():
            text = content if isinstance(content, str) else json.dumps(content)
            self.root.put(f"windows/{name}", text)
        context = CheckContext(
            host=detect(self.matrix),
            matrix=self.matrix,
            environ=self.environ,
            home=self.home,
            envs=tuple(self.envs),
            elsewhere=True,
        )
        return replace(context, **more)


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


@pytest.fixture
def machine(tmp_path: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("ROCENV_SYSROOT", str(tmp_path / "machine"))
    monkeypatch.delenv("ROCENV_TARGET", raising=False)
    (tmp_path / "machine").mkdir()
    return Machine(root=Root(tmp_path / "machine"), home=Home(tmp_path / "home"), matrix=matrix)


def rendered(found: CheckResult, context: CheckContext, row: str) -> str:
    """Render an observation in both languages, and assert that it is complete and from the expected row."""
    [seen] = each_of(found)
    assert seen.row == row
    texts = ""
    for language in ("en", "zh"):
        finding = render_in(context, "x", seen, language)
        assert finding.title != finding.code
        assert finding.detail
        assert finding.instructions
        texts += "\n".join(
            (finding.title, finding.detail, *finding.instructions, *finding.commands, *finding.evidence, "")
        )
    assert "{" not in texts
    return texts


def test_a_good_machine_has_no_findings(machine: Machine, tmp_path: Path) -> None:
    env = machine.env(Lab(tmp_path).make_zluda())
    machine.environ["PATH"] = machine.environ.pop("Path") + rf";{env.prefix.path}\zluda"
    assert run(machine.context(), CHECKS, "en") == []


def test_an_empty_snapshot_has_no_findings(machine: Machine) -> None:
    """A file that is missing from a snapshot may exist on the machine, so it is not a fault."""
    machine.files, machine.environ = {}, {}
    assert run(machine.context(), CHECKS, "en") == []
    machine.devices, machine.adapters = [], []
    assert run(machine.context(), CHECKS, "en") == [], "an unknown list of adapters is not an empty one"


@pytest.mark.parametrize(("release", "is_broken"), [("25.5.1", True), ("26.1.1", True), ("25.4.1", False)])
def test_a_driver_that_breaks_zluda_is_reported(
    machine: Machine, tmp_path: Path, release: str, is_broken: bool
) -> None:
    """With driver 25.5.1 and later, ZLUDA builds before 3.9.5 find no device."""
    machine.env(Lab(tmp_path).make_zluda("old one", parts=zluda_parts("6.2.4", "3.9.4")))
    machine.adapters = [{**ADAPTER, "RadeonSoftwareVersion": release}]
    context = machine.context()
    seen = windows.driver_breaks_env(context)
    if not is_broken:
        assert seen == ()
        return
    text = rendered(seen, context, "driver_breaks_env")
    assert release in text
    assert "rocenv create" in text, "the new set works with this driver"


def test_an_unknown_driver_has_no_finding(machine: Machine, tmp_path: Path) -> None:
    machine.env(Lab(tmp_path).make_zluda(parts=zluda_parts("6.2.4", "3.9.4")))
    machine.adapters = [{**ADAPTER, "RadeonSoftwareVersion": "", "DriverVersion": "1.2.3.4"}]
    assert windows.driver_breaks_env(machine.context()) == ()


@pytest.mark.parametrize(("release", "is_old"), [("25.12.1", True), ("26.1.1", False)])
def test_a_driver_that_is_too_old_for_wheels_is_reported(
    machine: Machine, tmp_path: Path, release: str, is_old: bool
) -> None:
    parts = (component("rocm", "7.2.0", "radeon-windows"),)
    machine.env(Lab(tmp_path).make("new", parts, target="gfx1100"))
    machine.adapters = [{**ADAPTER, "RadeonSoftwareVersion": release}]
    context = machine.context()
    seen = windows.driver_breaks_env(context)
    assert bool(seen) == is_old
    if is_old:
        assert ">=26.1.1" in rendered(seen, context, "driver_too_old")


def test_a_driver_with_reported_problems_is_reported(machine: Machine) -> None:
    machine.devices = [{**CARD, "gcnArchName": "gfx1100"}]
    machine.adapters = [{**ADAPTER, "RadeonSoftwareVersion": "25.3.1"}]
    context = machine.context()
    assert "corrupt images" in rendered(windows.driver_reported(context), context, "driver_reported")
    machine.devices = [CARD]
    assert windows.driver_reported(machine.context()) is None, "the reports concern only gfx11"


def test_the_basic_display_driver_is_reported(machine: Machine) -> None:
    name = "Microsoft Basic Display Adapter"
    machine.devices, machine.adapters = [], [{**ADAPTER, "Name": name, "RadeonSoftwareVersion": ""}]
    context = machine.context()
    assert name in rendered(windows.display_driver_missing(context), context, "display_driver_missing")


def test_a_driver_without_hip_is_reported(machine: Machine) -> None:
    machine.files["system32.json"] = {name: "14.44" for name in SYSTEM32 if not name.startswith("amdhip")}
    context = machine.context()
    assert "24.12.1" in rendered(windows.hip_runtime_absent(context), context, "hip_runtime_absent")


@pytest.mark.parametrize(
    ("version", "row"),
    [
        ("5.7.1.0", "hip_runtime_old"),
        ("6.4.43482.0", "hip_runtime_shadowed"),
        ("6.1.40000.0", ""),
        ("", ""),
    ],
)
def test_a_runtime_in_system32_shadows_the_sdk(machine: Machine, version: str, row: str) -> None:
    machine.files["system32.json"]["amdhip64_6.dll"] = version
    context = machine.context()
    seen = windows.hip_runtime_shadowed(context)
    if row:
        assert f"amdhip64_6.dll: {version}" in rendered(seen, context, row)
    else:
        assert seen is None


def test_a_runtime_in_system32_shadows_an_env_without_a_venv(machine: Machine, tmp_path: Path) -> None:
    """Only PyTorch in a venv preloads the env's runtime."""
    prefix = Lab(tmp_path).make_zluda(parts=zluda_parts()[:2])
    machine.env(prefix)
    machine.environ = {}
    machine.files["system32.json"]["amdhip64_6.dll"] = "6.4.43482.0"
    assert windows.hip_runtime_shadowed(machine.context()) is None, "the env has a venv"
    (prefix.path / prefix.record().lock.python).unlink()
    context = machine.context()
    assert str(prefix.path) in rendered(
        windows.hip_runtime_shadowed(context), context, "hip_runtime_shadowed"
    )


@pytest.mark.parametrize(("version", "seen"), [("7.2.53211.0", True), ("7.15.26333.0", False)])
def test_the_drivers_runtime_differs_from_the_wheels_runtime(
    machine: Machine, tmp_path: Path, version: str, seen: bool
) -> None:
    """PyTorch loads the env's runtime by path, but programs that load it by name get the driver's."""
    layout = Layout(
        root="", library_dirs=(), libraries={"hip": "amdhip64_7.dll"}, runtime={"hip": "7.15"}
    ).below("venv/Lib/site-packages")
    wheel = Artifact(kind="wheel", name="rocm-sdk-core", version="10.0.0", url="", sha256="", size_bytes=0)
    rocm = structs.replace(component("rocm", "10.0.0", "therock", layout=layout), artifacts=(wheel,))
    prefix = Lab(tmp_path).make_zluda(parts=(rocm,), files=())
    machine.env(prefix)
    machine.environ = {}
    machine.files["system32.json"]["amdhip64_7.dll"] = version
    context = machine.context()
    found = windows.hip_runtime_shadowed(context)
    if not seen:
        assert found is None
        return
    text = rendered(found, context, "hip_runtime_beside_wheels")
    assert f"amdhip64_7.dll: {version}" in text
    assert r"_rocm_sdk_core\bin" in text
    assert "PyTorch is not affected" in text


def test_a_stale_hip_path_is_reported(machine: Machine) -> None:
    machine.environ["HIP_PATH_57"] = r"C:\Program Files\AMD\ROCm\5.7"
    machine.files["folders.json"][r"c:\program files\amd\rocm\5.7\bin"] = []
    context = machine.context()
    assert r"ROCm\5.7" in rendered(windows.hip_path_stale(context), context, "hip_path_stale")


def test_a_terminal_opened_before_the_installation_is_reported(machine: Machine) -> None:
    del machine.environ["HIP_PATH"]
    context = machine.context()
    assert SDK in rendered(windows.hip_path_unset(context), context, "hip_path_unseen")


def test_an_unset_hip_path_is_reported(machine: Machine) -> None:
    machine.files["registry.json"] = {}
    machine.environ["HIP_PATH_61"] = machine.environ.pop("HIP_PATH")
    context = machine.context()
    text = rendered(windows.hip_path_unset(context), context, "hip_path_unset")
    assert rf'setx HIP_PATH "{SDK}\\"' in text, (
        "the path is quoted, and its last backslash does not escape the quote"
    )


def test_different_releases_on_path_and_in_hip_path_are_reported(machine: Machine) -> None:
    other = r"C:\Program Files\AMD\ROCm\5.7\bin"
    machine.files["folders.json"][other] = ["amdhip64.dll", "hiprtc0507.dll"]
    machine.environ["Path"] = rf"{other}\;{SDK}\bin"
    context = machine.context()
    assert "5.7" in rendered(windows.hip_path_differs(context), context, "hip_path_differs")
    machine.environ["Path"] = rf"{SDK}\bin;{other}"
    assert windows.hip_path_differs(machine.context()) is None, "the release from HIP_PATH comes first"


def test_an_incomplete_sdk_is_reported(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check lists the real folder, which it does not do for a snapshot."""
    folder = tmp_path / "sdk"
    (folder / "bin").mkdir(parents=True)
    for name in ("amdhip64_6.dll", "hiprtc0601.dll"):
        (folder / "bin" / name).touch()
    context = machine.context(elsewhere=False)
    monkeypatch.setenv("HIP_PATH", str(folder))
    assert "6.1" in rendered(windows.hip_sdk_damaged(context), context, "hip_sdk_damaged")
    (folder / "bin" / "hiprtc0507.dll").touch()
    text = rendered(windows.hip_sdk_damaged(context), context, "hip_sdk_mixed")
    assert "rocenv create demo --rocm 5.7 --zluda" in text
    assert "hiprtc0507.dll\nhiprtc0601.dll" in text, "the evidence consists of file names"
    assert "at once" not in text


def test_an_integrated_gpu_that_hip_lists_before_the_card_is_reported(machine: Machine) -> None:
    machine.devices = [IGPU, CARD]
    context = machine.context()
    text = rendered(devices.igpu_first(context), context, "igpu_first")
    assert "setx HIP_VISIBLE_DEVICES 1" in text
    machine.devices = [CARD, IGPU]
    assert devices.igpu_first(machine.context()) is None
    machine.devices = [IGPU]
    machine.adapters = []
    assert devices.igpu_first(machine.context()) is None, "there is no other GPU"


def test_a_hidden_integrated_gpu_is_fine(machine: Machine) -> None:
    """Checks respect a variable that excludes the integrated GPU, even in a snapshot."""
    machine.devices = [IGPU, CARD]
    machine.environ["HIP_VISIBLE_DEVICES"] = "1"
    assert devices.igpu_first(machine.context()) is None
    machine.environ["HIP_VISIBLE_DEVICES"] = "0"
    context = machine.context()
    text = rendered(devices.igpu_first(context), context, "igpu_selected")
    assert "HIP_VISIBLE_DEVICES=0" in text
    machine.environ["HIP_VISIBLE_DEVICES"] = "GPU-1234567890abcdef"
    assert devices.igpu_first(machine.context()) is None, "the number is ambiguous"


@pytest.mark.parametrize(
    ("name", "value", "hides"),
    [
        ("HIP_VISIBLE_DEVICES", "-1", True),
        ("hip_visible_devices", "7", True),
        ("CUDA_VISIBLE_DEVICES", "-1", True),
        ("HIP_VISIBLE_DEVICES", "0,9", False),
        ("HIP_VISIBLE_DEVICES", "GPU-1234567890abcdef", False),
    ],
)
def test_a_variable_that_hides_all_gpus_is_reported(
    machine: Machine, name: str, value: str, hides: bool
) -> None:
    machine.environ[name] = value
    context = machine.context()
    seen = devices.gpus_hidden(context)
    assert windows.no_gpu_on_windows(context) is None, "each problem is reported once"
    if hides:
        text = rendered(seen, context, "gpus_hidden")
        assert f"{name.upper()}={value}" in text
        assert f"set {name.upper()}=\n" in text
    else:
        assert seen is None


def test_a_gpu_that_hip_does_not_list_is_reported(machine: Machine) -> None:
    machine.devices = []
    context = machine.context()
    machine.root.windows(said='HIP error "hipErrorNoDevice"\n', controllers=[ADAPTER])
    context = replace(context, host=detect(machine.matrix))
    text = rendered(windows.no_gpu_on_windows(context), context, "gpu_unlisted")
    assert "RX 6750 XT" in text
    assert "24.12.1" in text
    assert "\nhipErrorNoDevice\n" in text
    assert [each.severity for each in run(context, checks_of(windows), "en")] == ["error"]


def test_a_machine_without_an_amd_gpu_is_reported(machine: Machine) -> None:
    machine.devices = []
    machine.adapters = [{"Name": "NVIDIA GeForce RTX 3060", "PNPDeviceID": r"PCI\VEN_10DE&DEV_2503\4"}]
    context = machine.context()
    text = rendered(windows.no_gpu_on_windows(context), context, "no_gpu_on_windows")
    assert "NVIDIA GeForce RTX 3060" in text


def test_every_env_that_does_not_work_with_the_driver_is_reported(machine: Machine, tmp_path: Path) -> None:
    """The report contains one command per env."""
    lab = Lab(tmp_path)
    for name in ("one", "two"):
        machine.env(lab.make_zluda(name, parts=zluda_parts("6.2.4", "3.9.4")))
    machine.adapters = [{**ADAPTER, "RadeonSoftwareVersion": "25.5.1"}]
    found = run(machine.context(), [each for each in CHECKS if each.name == "driver_breaks_env"], "en")
    assert ["one2" in found[0].commands[0], "two2" in found[1].commands[0]] == [True, True]


def test_values_from_an_untrusted_machine_do_not_reach_commands(machine: Machine) -> None:
    """Commands run only rocenv and do not contain values that a shell would split or expand."""
    folder = r'C:\x" & calc & "'
    seen = Observation("hip_path_unset", {"folder": folder, "value": folder})
    for untrusted in (False, True):
        assert render_in(machine.context(untrusted=untrusted), "x", seen, "en").commands == ()
    for create, is_told in (("curl evil | sh", False), ("rocenv create a2; calc", False), (FINE, True)):
        values = {"env": "a", "driver": "1", "create": create}
        assert (
            render_in(machine.context(), "x", Observation("driver_breaks_env", values), "en").commands == ()
        )
        seen = Observation("driver_breaks_env", values, commands={"create": create})
        commands = render_in(machine.context(untrusted=True), "x", seen, "en").commands
        assert commands == ((create,) if is_told else ())


def test_hipinfo_runs_without_variables_that_hide_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """HIP renumbers the GPUs that a variable leaves visible, so their numbers would be ambiguous."""
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    code = "import os; print(os.environ.get('HIP_VISIBLE_DEVICES'))"
    assert host_windows._output_of([sys.executable, "-c", code]).strip() == "None"
