"""Env checks, each on an intact env that its test breaks."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from rocenv.activate.scripts import write_activation
from rocenv.checks import env as env_checks
from rocenv.checks.context import CheckContext, Env, examine_machine
from rocenv.checks.run import checks_for, run
from rocenv.core.errors import RocenvError
from rocenv.core.model import Artifact, EnvChange
from rocenv.data.load import profiles_folder
from rocenv.home import Home
from rocenv.install import store
from rocenv.prefix import Prefix
from rocenv.presence import lost_files
from tests.checks.scenery import checks_of
from tests.checks.test_windows import CARD, IGPU, Machine, machine, matrix, rendered
from tests.launch.lab import BUILD_FILES, Lab, component, zluda_parts
from tests.stores import write_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mini import Mini

__all__ = ["machine", "matrix"]  # fixtures

MORE = "rocm/6.1/bin/hiprtc0601.dll"
RUNGS = [{"rung": rung, "status": "passed", "detail": "", "exit_code": None} for rung in ("files", "gemm")]
GOOD = (*zluda_parts("6.2.4", "3.9.5"), component("libraries", "6.2.4", "packs"))


@dataclass
class Case:
    """An env and its machine."""

    lab: Lab
    machine: Machine
    prefix: Prefix

    def context(self, **more: Any) -> CheckContext:
        """Return a CheckContext for the env."""
        env = Env(prefix=self.prefix, record=self.prefix.record())
        return self.machine.context(envs=(env,), env=env, **more)

    def verified(self, when: str = "2026-11-20T10:00:00+00:00", **last: Any) -> None:
        """Write a `verify` result with its last rung changed."""
        told = {"schema": 1, "when": when, "rungs": [*RUNGS[:-1], RUNGS[-1] | last]}
        (self.prefix.own / "verified.json").write_text(json.dumps(told))


@pytest.fixture
def case(tmp_path: Path, machine: Machine) -> Case:
    machine.home = Home(tmp_path / "home")
    lab = Lab(tmp_path)
    found = Case(lab, machine, lab.make_zluda(parts=GOOD, files=(*BUILD_FILES, MORE)))
    write_activation(found.prefix.path, "sd", (), (), "windows")
    found.verified()
    return found


def test_a_good_env_has_no_findings(case: Case) -> None:
    assert run(case.context(), checks_of(env_checks), "en") == []


def test_a_missing_shim_is_reported(case: Case) -> None:
    (case.prefix.path / "zluda/cublas64_11.dll").unlink()
    context = case.context()
    text = rendered(env_checks.env_shims_missing(context), context, "env_shims_missing")
    assert "zluda/cublas64_11.dll: missing" in text
    assert "rocenv repair sd" in text
    assert env_checks.env_files_missing(context) is None, "each problem is reported once"


def test_a_changed_shim_of_the_same_size_is_reported(case: Case) -> None:
    """Files that replace CUDA libraries are hashed on every run."""
    path = case.prefix.path / "zluda/cublas64_11.dll"
    path.write_bytes(b"x" * path.stat().st_size)
    context = case.context()
    assert "changed" in rendered(env_checks.env_shims_missing(context), context, "env_shims_missing")


@pytest.mark.parametrize("fault", ["missing", "cut short", "a folder", "a file as parent", "a link"])
def test_a_missing_or_changed_file_is_reported(case: Case, fault: str) -> None:
    path = case.prefix.path / MORE
    path.unlink()
    if fault == "cut short":
        path.write_text("x")
    elif fault == "a folder":
        path.mkdir()
    elif fault == "a file as parent":
        shutil.rmtree(path.parent)
        path.parent.write_text("")
    elif fault == "a link":
        path.symlink_to(case.prefix.path / "zluda/cublas.dll")
    context = case.context()
    assert MORE in rendered(env_checks.env_files_missing(context), context, "env_files_missing")


def test_starting_a_program_does_not_read_the_list_of_files(mini: Mini) -> None:
    """A file list has tens of thousands of lines and matters only if a main part is missing."""
    mini.create()
    prefix = Prefix(mini.prefix("demo"))
    record = prefix.record()
    [path] = prefix.own.glob("files-*.json")
    kept = path.rename(path.with_suffix(".kept"))
    assert lost_files(prefix, record) == {}
    kept.rename(path)
    files = [each for each in prefix.files(record) if each.startswith("rocm/usr/lib/")]
    shutil.rmtree(prefix.path / "rocm/usr/lib")
    assert lost_files(prefix, record) == dict.fromkeys(sorted(files), "missing")


def test_only_the_slow_check_finds_changed_file_contents(case: Case) -> None:
    """Quick checks do not hash files."""
    path = case.prefix.path / MORE
    path.write_bytes(b"x" * path.stat().st_size)
    context = case.context()
    found = run(context, checks_of(env_checks), "en")
    assert [(each.check, each.fix) for each in found] == [("env_files_changed", "repair")]
    rendered(env_checks.env_files_changed(context), context, "env_files_changed")


def test_incomplete_renamed_and_damaged_envs_are_reported(case: Case) -> None:
    envs = case.machine.home.envs
    case.machine.context()
    (envs / "half" / ".rocenv").mkdir(parents=True)
    context = examine_machine(case.machine.home, case.machine.matrix)
    text = rendered(env_checks.env_unusable(context), context, "env_incomplete")
    assert "rocenv remove half" in text
    shutil.rmtree(envs / "half")
    os.rename(envs / "sd", envs / "renamed")
    assert "repair renamed" in rendered(env_checks.env_unusable(context), context, "env_moved")
    (envs / "renamed/.rocenv/record.json").write_text("{")
    assert "show renamed" in rendered(env_checks.env_unusable(context), context, "env_record_damaged")


def test_each_broken_env_is_reported(case: Case) -> None:
    envs = case.machine.home.envs
    (envs / "half" / ".rocenv").mkdir(parents=True)
    (case.prefix.own / "record.json").write_text("{")
    (envs / "lost" / "rocm").mkdir(parents=True)
    case.machine.context()
    context = examine_machine(case.machine.home, case.machine.matrix)
    found = {each.row: each for each in env_checks.env_unusable(context)}
    assert set(found) == {"env_foreign", "env_incomplete", "env_record_damaged"}
    assert found["env_incomplete"].values["env"] == "half"
    assert found["env_incomplete"].evidence == (str(envs / "half"),)
    assert found["env_record_damaged"].values["env"] == "sd"
    assert not any(each.severity for each in found.values())


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("half", "env-incomplete"),
        ("moved", "env-moved"),
        ("damaged", "env-record-damaged"),
        ("foreign", "env-foreign"),
    ],
)
def test_a_broken_env_is_an_error_if_the_user_names_it(case: Case, state: str, code: str) -> None:
    """The machine checks still run, and the env's state is reported as an error."""
    envs = case.machine.home.envs
    case.machine.context()
    if state == "half":
        (envs / "half" / ".rocenv").mkdir(parents=True)
    elif state == "foreign":
        (envs / "foreign").mkdir()
        (envs / "foreign" / "thesis.txt").touch()
    else:
        os.rename(envs / "sd", envs / state)
    if state == "damaged":
        (envs / "damaged/.rocenv/record.json").write_text("{")
    context = examine_machine(case.machine.home, case.machine.matrix, name=state)
    [finding] = run(context, [check for check in checks_for(context) if check.name == "env_unusable"], "en")
    assert (finding.code, finding.severity) == (code, "error")
    assert finding.commands
    assert len(checks_for(context)) > 10
    with pytest.raises(RocenvError, match="complete env"):
        checks_for(context, ("env_files_missing",))


def test_an_env_name_with_a_space_is_quoted_in_commands(case: Case) -> None:
    (case.machine.home.envs / "my env" / ".rocenv").mkdir(parents=True)
    case.machine.context()
    context = examine_machine(case.machine.home, case.machine.matrix)
    text = rendered(env_checks.env_unusable(context), context, "env_incomplete")
    assert 'rocenv remove "my env"' in text


def test_a_damaged_file_list_is_reported(case: Case) -> None:
    [path] = case.prefix.own.glob("files-*.json")
    path.write_text("{}")
    found = run(case.context(), checks_of(env_checks), "en")
    assert [each.code for each in found] == ["env-record-damaged"]


def test_a_missing_python_interpreter_is_reported(case: Case) -> None:
    python = case.prefix.path / case.prefix.record().lock.python
    python.unlink(missing_ok=True)
    python.parent.mkdir(parents=True, exist_ok=True)
    python.symlink_to("/usr/bin/python3.2")
    context = case.context()
    text = rendered(env_checks.env_python_missing(context), context, "env_python_missing")
    assert "rocenv repair sd" in text, "there is no venv at all"
    assert "rocenv create" not in text
    (case.prefix.path / "venv/pyvenv.cfg").touch()
    text = rendered(env_checks.env_python_missing(context), context, "env_python_missing")
    assert "/usr/bin/python3.2" in text
    assert "rocenv create sd2 --from" in text


def test_a_set_with_a_known_crash_is_reported(case: Case) -> None:
    """An env with HIP SDK 6.1 and ZLUDA 3.8.3 for gfx1031, created before the crash was known."""
    case.prefix = case.lab.make_zluda("old")
    context = case.context()
    text = rendered(env_checks.env_known_broken(context), context, "env_known_broken")
    assert "0xC0000005" in text
    assert "rocenv create old2" in text


def test_an_env_for_an_absent_gpu_is_reported(case: Case) -> None:
    case.machine.devices = [{**CARD, "gcnArchName": "gfx1100"}]
    context = case.context()
    assert "gfx1100" in rendered(env_checks.env_gpu_absent(context), context, "env_gpu_absent")
    case.machine.devices, case.machine.adapters = [], []
    context = case.context()
    text = rendered(env_checks.env_gpu_absent(context), context, "env_gpu_absent")
    assert "no AMD GPU" in text


def test_a_gpu_that_is_not_first_is_reported(case: Case) -> None:
    case.machine.devices = [IGPU, CARD]
    context = case.context()
    text = rendered(env_checks.env_gpu_hidden(context), context, "env_gpu_hidden")
    assert "set HIP_VISIBLE_DEVICES=1" in text
    case.machine.environ["HIP_VISIBLE_DEVICES"] = "1"
    assert env_checks.env_gpu_hidden(case.context()) is None


def test_the_command_for_an_env_that_selects_a_different_gpu_recreates_the_env(case: Case) -> None:
    case.machine.devices = [IGPU, CARD]
    number = EnvChange(action="set", name="HIP_VISIBLE_DEVICES", value="0")
    case.prefix = case.lab.make("other", GOOD, changes=(number,))
    context = case.context()
    text = rendered(env_checks.env_gpu_hidden(context), context, "env_gpu_hidden")
    assert "rocenv create other2 --from" in text
    assert "set HIP_VISIBLE_DEVICES=1" not in text, "the env's own value would override it"


_DAMAGED = (
    *("", "{}", '{"when": 3, "rungs": []}', "[]", "[" * 100_000, '{"rungs": [3]}'),
    '{"rungs": [{"rung": "load", "status": "well"}]}',
    '{"rungs": [{"rung": "load", "status": "passed", "findings": "none"}]}',
)


@pytest.mark.parametrize("text", [None, *_DAMAGED], ids=range(1 + len(_DAMAGED)))
def test_a_missing_or_damaged_verification_is_reported(case: Case, text: str | None) -> None:
    path = case.prefix.own / "verified.json"
    path.unlink()
    if text is not None:
        path.write_text(text)
    context = case.context()
    assert "rocenv verify sd" in rendered(
        env_checks.env_never_verified(context), context, "env_never_verified"
    )
    assert env_checks.env_verify_failed(context) is None


def test_a_failed_verification_is_reported(case: Case) -> None:
    case.verified(status="crashed", detail="ended with 0xC0000005", exit_code=0xC0000005)
    context = case.context()
    assert "0xC0000005" in rendered(env_checks.env_verify_failed(context), context, "env_verify_failed")


def test_a_verification_that_ran_without_a_gpu_is_reported(case: Case) -> None:
    case.verified(status="skipped", no_device=True)
    context = case.context()
    rendered(env_checks.env_verified_without_gpu(context), context, "env_verified_without_gpu")
    case.machine.devices, case.machine.adapters = [], []
    assert env_checks.env_verified_without_gpu(case.context()) is None, "there is still no GPU"


@pytest.mark.parametrize(("when", "is_old"), [("2020-01-01", True), ("2126-01-01", False)])
def test_a_driver_that_changed_after_the_verification_is_reported(
    case: Case, when: str, is_old: bool
) -> None:
    case.verified(when=f"{when}T10:00:00+00:00")
    context = case.context(elsewhere=False)
    driver = replace(context.host.driver, kernel="6.8.0-45-generic")
    context = replace(context, host=replace(context.host, driver=driver))
    case.machine.root.put("lib/modules/6.8.0-45-generic/updates/dkms/amdgpu.ko.zst", "")
    seen = env_checks.env_verified_before_driver(context)
    assert (seen is not None) == is_old
    if is_old:
        rendered(seen, context, "env_verified_before_driver")


def test_a_damaged_store_is_reported(case: Case) -> None:
    """The check compares sizes, not hashes."""
    home = case.machine.home
    artifact = Artifact(kind="archive", name="x.zip", version="1", url="", sha256="a" * 64, size_bytes=1)
    tree = store.tree_of(home, artifact)
    tree.mkdir(parents=True)
    (tree / "rocblas.dll").write_text("whole")
    entry = {"sha256": hashlib.sha256(b"whole").hexdigest(), "size_bytes": 5, "executable": False, "link": ""}
    write_manifest(home, artifact.sha256, {"rocblas.dll": entry})
    part = structs.replace(component("rocm", "6.2.4", "hip-sdk"), artifacts=(artifact,))
    case.prefix = case.lab.make("stored", (part,))
    assert env_checks.env_store_damaged(case.context()) is None
    (tree / "rocblas.dll").write_text("cut")
    context = case.context()
    text = rendered(env_checks.env_store_damaged(context), context, "env_store_damaged")
    assert "rocblas.dll: changed" in text
    (tree.parent / "manifest.json").write_text("{")
    assert env_checks.env_store_damaged(case.context()) is None, (
        "the store unpacks the package again for the next env"
    )


def test_doctor_finds_faults_in_an_env_made_by_create(mini: Mini) -> None:
    """`doctor` first reports only that the env was never verified, and later the env's faults."""
    shutil.copytree(profiles_folder() / "checks", mini.root / "profiles" / "checks")
    assert mini.run("create", "demo", "--rocm", "5.7", "--no-verify").returncode == 0

    def found() -> set[str]:
        findings = json.loads(mini.run("doctor", "demo", "--json").stdout)["findings"]
        return {each["check"] for each in findings if each["check"].startswith(("env_", "check_"))}

    assert found() == {"env_never_verified"}
    library = next((mini.prefix("demo") / "rocm").rglob("librocblas.so*"))
    library.unlink()
    os.rename(mini.home, mini.root / "elsewhere")
    mini.env["ROCENV_HOME"] = str(mini.root / "elsewhere")
    assert found() == {"env_unusable"}
    assert mini.run("repair", "demo").returncode == 0
    assert found() == {"env_never_verified"}


def test_plain_doctor_reports_each_env_in_one_line(mini: Mini) -> None:
    shutil.copytree(profiles_folder() / "checks", mini.root / "profiles" / "checks")
    for name in ("one", "two", "three"):
        mini.create(name)
    shutil.rmtree(mini.prefix("one") / "rocm/usr/lib")
    passed = {"schema": 1, "when": "2026-11-20T10:00:00+00:00", "rungs": RUNGS}
    (mini.prefix("three") / ".rocenv/verified.json").write_text(json.dumps(passed))

    def lines(*argv: str) -> list[str]:
        done = mini.run("doctor", *argv)
        assert done.returncode == 0, "no env was named, so faults in an env are not errors"
        return [line for line in done.stdout.splitlines() if line[:1].isdigit() and "env-" in line]

    first, second = lines()
    assert first.startswith(
        "1. warning: Files in env `one` are missing or modified (7, such as `rocm/usr/lib/"
    )
    assert first.endswith("`): `rocenv repair one`; 1 more: `rocenv doctor one`  [env-files-damaged]")
    assert second == "2. note: Env `two` has never been verified: `rocenv verify two`  [env-not-verified]"
    assert lines("--lang", "zh")[1].endswith("从未验证过：`rocenv verify two`  [env-not-verified]")
    assert len(lines("--check", "env_files_missing")) == 1
    only, bundle = ("--check", "env_files_missing"), str(mini.root / "machine.json")
    sysroot = mini.env.pop("ROCENV_SYSROOT")
    mini.run("doctor", *only, "--collect", bundle)
    assert lines(*only, "--from", bundle)[0].startswith("1. warning: Files in env `ENV` are missing")
    fixed = mini.run("doctor", *only, "--fix", "-y")
    assert "restore env `one`" in fixed.stderr
    mini.env["ROCENV_SYSROOT"] = sysroot
    assert lines()[0].startswith("1. note: Env `one` has never been verified")
