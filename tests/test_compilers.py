"""Downloaded compilers: their selection, envs, and start scripts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.compilers import Toolchain, ensure_available, newest_for, toolchain_of
from rocenv.context import Context
from rocenv.core.errors import RocenvError
from rocenv.install.build import build
from rocenv.prefix import prefix_of
from tests.debs import file, symlink
from tests.mini import LIBRARIES

if TYPE_CHECKING:
    from rocenv.core.model import Lock, Record
    from tests.mini import Mini

_KNOWN = 'status = "tested"\nsource = "tests"\nchecked = "2026-11-22"\n'
_COMPILER = """[[compiler]]
name = "{name}"
version = "{version}"
channel = "mini"
packages = ["{name}"]
targets = [{targets}]
{known}[compiler.layout]
root = "usr"
library_dirs = ["{libraries}"]
libraries = {{}}
device_libs = "usr/lib/bitcode"
[[compiler.layout.programs]]
path = "usr/lib/llvm/bin/clang"
names = ["{name}", "clang"]
arguments = ["-B{{bin}}", "--sysroot={{tree}}"]
not_before = "-cc1"
[[compiler.layout.programs]]
path = "usr/lib/llvm/bin/lld"
"""


def row(name: str, version: str, *targets: str) -> str:
    listed = ", ".join(f'"{target}"' for target in targets)
    return _COMPILER.format(name=name, version=version, targets=listed, known=_KNOWN, libraries=LIBRARIES)


@pytest.fixture
def context(mini: Mini, monkeypatch: pytest.MonkeyPatch) -> Context:
    """The simulated machine, with two compilers in its archive, for use in this process."""
    rows = row("clang-3", "3.1", "gfx1030", "gfx1100") + row("clang-21", "21.1", "gfx1100")
    (mini.root / "profiles" / "zz.toml").write_text(f"schema = 1\n{rows}")
    for name, version in (("clang-3", "3.1.4-1"), ("clang-21", "21.1.8-13")):
        mini.repo.add(
            name,
            version,
            [
                file("./usr/lib/llvm/bin/clang", f'#!/bin/sh\nprintf "%s\\n" {name} "$@"\n', mode=0o755),
                file("./usr/lib/llvm/bin/lld", "#!/bin/sh\necho lld\n", mode=0o755),
                symlink(f"./usr/bin/{name}", "../lib/llvm/bin/clang"),
                file("./usr/lib/bitcode/oclc_isa_version_1100.bc", "bitcode\n"),
                file("./usr/include/hip/hip_runtime.h", "\n"),
            ],
            depends="libc6 (>= 2.17)",
        )
    mini.repo.publish()
    for name, value in mini.env.items():
        monkeypatch.setenv(name, value)
    return Context()


def install(context: Context, target: str = "gfx1100") -> tuple[Toolchain, list[str]]:
    """Install the newest compiler for a target; return it and the reported lines."""
    lines: list[str] = []
    found = newest_for(target, context.matrix)
    assert found is not None
    return ensure_available(found, context, lines.append), lines


def test_the_newest_compiler_that_supports_the_target_is_chosen(context: Context) -> None:
    for target, name in (("gfx1100", "clang-21"), ("gfx1030", "clang-3")):
        found = newest_for(target, context.matrix)
        assert found is not None
        assert found.name == name
    assert newest_for("gfx9999", context.matrix) is None


def test_a_compiler_is_downloaded_once_into_an_env_with_its_name(context: Context, mini: Mini) -> None:
    toolchain, lines = install(context)
    assert "compiler clang-21 21.1.8 from mini as the env `clang-21`: 1 packages" in lines[0]
    assert (toolchain.name, toolchain.version, toolchain.env) == ("clang-21", "21.1.8", "clang-21")
    assert (toolchain.include / "hip" / "hip_runtime.h").exists()
    mini.server.requests.clear()
    again, lines = install(Context())
    assert again == toolchain
    assert lines == []
    assert not mini.server.requests, "an installed compiler does not need a network"


def test_the_start_script_adds_the_arguments_from_the_data_row(context: Context) -> None:
    toolchain, _ = install(context)
    tree = Path(context.home.envs / "clang-21" / "rocm")

    def started(*args: str) -> list[str]:
        argv = [str(toolchain.clang), *args]
        return subprocess.run(argv, env={}, capture_output=True, text=True, check=True).stdout.splitlines()

    own = [f"-B{tree.parent}/bin", f"--sysroot={tree}"]
    assert started("-c", "a b.hip") == ["clang-21", *own, "-c", "a b.hip"]
    assert started("-cc1", "x") == ["clang-21", "-cc1", "x"], "clang starts itself in this way"


def test_the_compiler_in_an_env_is_found(context: Context, mini: Mini) -> None:
    install(context)
    prefix = prefix_of(context.home, "clang-21")
    found = toolchain_of(prefix, "gfx1100:xnack-")
    assert found is not None
    assert found.env == "clang-21"
    assert toolchain_of(prefix, "gfx1201") is None, (
        "the device libraries of this compiler do not support the target"
    )
    mini.create("plain")
    assert toolchain_of(prefix_of(context.home, "plain"), "gfx1100") is None


def test_the_env_of_a_compiler_can_be_managed_like_any_other(context: Context, mini: Mini) -> None:
    install(context)
    assert "compiler 21.1.8" in mini.run("list").stdout
    shown = mini.run("show", "clang-21").stdout
    assert "compiles GPU code for 1 targets" in shown
    (context.home.envs / "clang-21" / "bin" / "lld").write_text("#!/bin/sh\n")
    broken = mini.run("verify", "clang-21")
    assert broken.returncode == 1
    assert mini.run("repair", "clang-21").returncode == 0
    done = mini.run("verify", "clang-21", "--json")
    assert done.returncode == 0
    assert [each["rung"] for each in json.loads(done.stdout)["rungs"]] == ["files"], (
        "a compiler env has no libraries to load"
    )
    assert done.stderr.strip() == "OK up to `files`"
    lock = mini.root / "c.lock"
    lock.write_text(mini.run("lock", "clang-21").stdout)
    assert mini.run("create", "copied", "--from", str(lock)).returncode == 0
    starter = str(context.home.envs / "copied" / "bin" / "clang")
    assert mini.run("run", "copied", "--", starter, "-cc1").stdout == "clang-21\n-cc1\n"
    assert mini.run("remove", "-y", "copied").returncode == 0


def test_an_unrelated_env_with_the_name_of_a_compiler_is_not_used(context: Context, mini: Mini) -> None:
    mini.create("clang-21")
    with pytest.raises(RocenvError, match="does not contain that compiler") as caught:
        install(context)
    assert caught.value.hints == ("rocenv rename clang-21 clang-212",)


def test_a_compiler_missing_from_its_channel_is_an_error(context: Context, mini: Mini) -> None:
    (mini.root / "profiles" / "zz.toml").write_text(f"schema = 1\n{row('clang-22', '22.1', 'gfx1100')}")
    with pytest.raises(RocenvError, match="from channel mini: `clang-22`, required"):
        install(Context())


def test_a_compiler_env_created_concurrently_is_used(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(name: str, lock: Lock, context: Context) -> Record:
        build(name, lock, context)
        return build(name, lock, context)

    monkeypatch.setattr("rocenv.compilers.build", slow)
    toolchain, _ = install(context)
    assert toolchain.env == "clang-21"
