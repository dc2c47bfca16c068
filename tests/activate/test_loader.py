"""Start programs through the system's dynamic loader with a library folder that only they search."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from rocenv.activate.bin_scripts import write_wrappers
from rocenv.activate.loader import CommandNotExecutable, CommandNotFound, find_program, loader_argv
from rocenv.core.errors import RocenvError
from rocenv.core.lock import WRAPPERS
from tests.shells.driver import program

# `#!` lines do not support spaces, which the path to the checkout and its venv may contain.
PYTHON = Path(sys.executable).resolve()
LOADER = Path("/lib64/ld-linux-x86-64.so.2")
pytestmark = pytest.mark.skipif(not LOADER.exists(), reason="no x86-64 GNU system")

LIBRARY = 'const char *whose(void) { return "ours"; }\n'
PROGRAM = """
#include <stdio.h>
extern const char *whose(void);
int main(int c, char **v) { printf("%s %s %s", whose(), v[0], c > 1 ? v[1] : "-"); return 7; }
"""
ASK = (
    "import ctypes, sys; whose = ctypes.CDLL('libwhose.so').whose; whose.restype = ctypes.c_char_p; "
    "print(whose().decode(), sys.prefix)"
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `lib/libwhose.so`, a `use` program that needs it, `static`, and a venv."""
    root = tmp_path_factory.mktemp("a tree")
    (root / "lib").mkdir()
    compiler = program("cc")
    for name, text in (("whose.c", LIBRARY), ("use.c", PROGRAM)):
        (root / name).write_text(text)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "lib/libwhose.so", "whose.c"], cwd=root, check=True)
    subprocess.run([compiler, "-o", "use", "use.c", "-Llib", "-lwhose"], cwd=root, check=True)
    subprocess.run([compiler, "-static", "-o", "static", "use.c", "whose.c"], cwd=root, check=True)
    venv.create(root / "ve nv", with_pip=False, symlinks=True)
    return root


def arguments(tree: Path, *argv: str, environ: dict[str, str] | None = None) -> list[str]:
    environ = {"PATH": "/usr/bin:/bin"} if environ is None else environ
    return loader_argv(argv, environ, loader=LOADER, library_dirs=[tree / "lib"])


def output(argv: list[str] | tuple[str, ...], environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        argv,
        env=environ or {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_program_finds_the_envs_library_and_keeps_its_argv0(tree: Path) -> None:
    use = str(tree / "use")
    assert subprocess.run([use], capture_output=True, check=False, timeout=30).returncode == 127
    done = subprocess.run(arguments(tree, use, "a b"), capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stdout.decode()) == (7, f"ours {use} a b")


def test_python_stays_in_its_venv(tree: Path) -> None:
    python = tree / "ve nv" / "bin" / "python"
    assert output(arguments(tree, str(python), "-c", ASK)) == f"ours {tree / 've nv'}"


@pytest.mark.parametrize("first", ["#!{python}", "#! /usr/bin/env python", "#!/usr/bin/env -S python -I"])
def test_a_script_runs_through_its_interpreter(tree: Path, tmp_path: Path, first: str) -> None:
    folder = tmp_path / "venv"
    folder.symlink_to(tree / "ve nv")  # `#!` lines do not support spaces
    first = first.format(python=folder / "bin" / "python")
    app = script(tmp_path / "app", f"{first}\n{ASK}\nprint(sys.argv[1:])\n")
    environ = {"PATH": f"{folder}/bin:/usr/bin:/bin"}
    assert output(arguments(tree, str(app), "x y", environ=environ), environ).splitlines() == [
        f"ours {folder}",
        "['x y']",
    ]


def test_a_scripts_interpreter_can_be_another_script(tree: Path, tmp_path: Path) -> None:
    inner = script(tmp_path / "inner", f"#!{PYTHON} -I\n{ASK}\nprint(sys.argv[1:])\n")
    outer = script(tmp_path / "outer", f"#!{inner} -z\n")
    assert output(arguments(tree, str(outer), "x")).splitlines()[1:] == [f"['-z', '{outer}', 'x']"]


def test_a_script_whose_interpreter_is_the_script_itself_is_an_error(tree: Path, tmp_path: Path) -> None:
    script(tmp_path / "a", f"#!{tmp_path / 'a'}\n")
    with pytest.raises(CommandNotExecutable, match="scripts"):
        arguments(tree, str(tmp_path / "a"))


def test_programs_that_the_loader_cannot_start_run_directly(tree: Path, tmp_path: Path) -> None:
    static = str(tree / "static")
    assert arguments(tree, static, "x") == [static, "x"]
    text = script(tmp_path / "text", "echo hello\n")
    assert arguments(tree, str(text)) == [str(text)]
    head = bytearray((tree / "use").read_bytes())
    head[18:20] = struct.pack("<H", 183)  # AArch64
    other = tmp_path / "other"
    other.write_bytes(head)
    other.chmod(0o755)
    assert arguments(tree, str(other)) == [str(other)]
    musl = tmp_path / "musl"
    musl.write_bytes((tree / "use").read_bytes().replace(b"ld-linux-x86-64.so.2", b"ld-musl-x86_64.so.1\0"))
    musl.chmod(0o755)
    assert arguments(tree, str(musl)) == [str(musl)]
    setuid = tmp_path / "setuid"
    setuid.write_bytes((tree / "use").read_bytes())
    setuid.chmod(0o4755)
    assert arguments(tree, str(setuid)) == [str(setuid)]
    for size in (0, 3, 20, 63, 64, 100, 600):  # truncated anywhere
        cut = tmp_path / "cut"
        cut.write_bytes(bytes((tree / "use").read_bytes()[:size]))
        cut.chmod(0o755)
        assert arguments(tree, str(cut)) == [str(cut)]


def test_the_users_libraries_come_after_the_envs(tree: Path) -> None:
    argv = arguments(tree, "true", environ={"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/mine"})
    assert argv[2] == f"{tree / 'lib'}:/mine"


@pytest.mark.parametrize("name", ["nothing-of-that-name", "", "/nonexistent/x"])
def test_a_missing_command_is_an_error(tree: Path, name: str) -> None:
    with pytest.raises(CommandNotFound, match=f"`{name}`") as caught:
        arguments(tree, name)
    assert caught.value.exit_code == 127


def test_a_command_that_is_not_executable_is_an_error(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    for name in (str(tmp_path / "plain"), str(tmp_path), "plain"):
        with pytest.raises(CommandNotExecutable) as caught:
            arguments(tree, name, environ={"PATH": str(tmp_path)})
        assert caught.value.exit_code == 126
    with pytest.raises(CommandNotFound, match="/nonexistent/python"):
        arguments(tree, str(script(tmp_path / "app", "#!/nonexistent/python\n")))


def test_the_search_skips_files_that_are_not_executable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "tool").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "tool").write_text("x")
    tool = script(tmp_path / "c" / "tool", "#!/bin/sh\n")
    path = ":".join(str(tmp_path / name) for name in ("", "a", "b", "c"))
    assert find_program("tool", {"PATH": path}) == str(tool)
    monkeypatch.chdir(tmp_path / "c")
    assert find_program("tool", {"PATH": ":/bin"}) == "./tool"


def test_a_library_folder_that_the_loader_cannot_search_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(RocenvError, match="a;b"):
        loader_argv(["true"], {}, loader=LOADER, library_dirs=[tmp_path / "a;b"])


# ---------------------------------------------------------------- wrappers


@pytest.fixture
def wrapped(tree: Path, tmp_path: Path) -> dict[str, str]:
    """A PATH that starts with two envs' wrappers, which must skip each other and themselves."""
    for name in ("first env", "second"):
        (tmp_path / name).mkdir()
        write_wrappers(tmp_path / name, loader=LOADER, library_dirs=[tree / "lib"])
    return {"PATH": f"{tmp_path / 'first env'}:{tmp_path / 'second'}:{tree / 've nv' / 'bin'}:/usr/bin:/bin"}


@pytest.mark.parametrize("name", ["python3", "python", "rocm-exec python3"])
def test_a_wrapper_runs_the_next_python_on_path(tree: Path, wrapped: dict[str, str], name: str) -> None:
    assert output(["/usr/bin/env", *name.split(), "-c", ASK], wrapped) == f"ours {tree / 've nv'}"


def test_rocm_exec_runs_programs_and_scripts(tree: Path, wrapped: dict[str, str], tmp_path: Path) -> None:
    run = ["/usr/bin/env", "rocm-exec"]
    assert output([*run, f"{tree}/use", "a b *"], wrapped) == f"ours {tree}/use a b *"
    text = f"{ASK}\nprint(sys.argv[1:])\n"
    for first in ("#!/usr/bin/env python3", "#! /usr/bin/env -S python3 -I", f"#!{PYTHON} -I"):
        app = script(tmp_path / "my app", f"{first}\n{text}")
        assert output([*run, str(app), "x  y", "*"], wrapped).splitlines()[-1] == "['x  y', '*']"
    assert output([*run, str(script(tmp_path / "hello", "#!/bin/sh\necho hello\n"))], wrapped) == "hello"


def test_a_usr_bin_env_shebang_finds_the_wrapper(tree: Path, wrapped: dict[str, str], tmp_path: Path) -> None:
    app = script(tmp_path / "app", f"#!/usr/bin/env python3\n{ASK}\n")
    assert output([str(app)], wrapped) == f"ours {tree / 've nv'}"
    assert output(arguments(tree, str(app), environ=wrapped), wrapped) == f"ours {tree / 've nv'}"


def test_a_version_managers_shim_is_resolved(tree: Path, wrapped: dict[str, str], tmp_path: Path) -> None:
    shim = script(tmp_path / "shims" / "python3", f'#!/bin/sh\nexec "{tree}/ve nv/bin/python" "$@"\n')
    first = wrapped["PATH"].partition(":")[0]
    expected = f"ours {tree / 've nv'}"
    behind = {"PATH": f"{first}:{shim.parent}:/usr/bin:/bin"}
    assert output(["/usr/bin/env", "python3", "-c", ASK], behind) == expected
    assert output(arguments(tree, str(shim), "-c", ASK), behind) == expected


def test_a_shim_that_calls_the_wrapper_does_not_loop(
    tree: Path, wrapped: dict[str, str], tmp_path: Path
) -> None:
    first = wrapped["PATH"].partition(":")[0]
    shim = script(tmp_path / "shims" / "python3", f'#!/bin/sh\nexec "{first}/python3" "$@"\n')
    environ = {"PATH": f"{first}:{shim.parent}:{tree / 've nv' / 'bin'}:/usr/bin:/bin"}
    assert output(["/usr/bin/env", "python3", "-c", ASK], environ) == f"ours {tree / 've nv'}"


def test_a_wrapper_reports_missing_files(wrapped: dict[str, str], tmp_path: Path) -> None:
    folder = wrapped["PATH"].partition(":")[0]
    (tmp_path / "plain").write_text("x")
    for argv, status, word in (
        ([f"{folder}/python3"], 127, "`python3`"),
        ([f"{folder}/rocm-exec", "nothing"], 127, "`nothing`"),
        ([f"{folder}/rocm-exec", str(tmp_path / "plain")], 126, "plain"),
        ([f"{folder}/rocm-exec", str(script(tmp_path / "a", f"#!{tmp_path}/a\n"))], 126, "scripts"),
        ([f"{folder}/rocm-exec"], 2, "usage"),
    ):
        done = subprocess.run(
            argv, env={"PATH": folder}, capture_output=True, text=True, check=False, timeout=30
        )
        assert (done.returncode, word in done.stderr) == (status, True), done.stderr


def test_rocenv_writes_wrappers_only_for_executable_files(wrapped: dict[str, str]) -> None:
    folder = Path(wrapped["PATH"].partition(":")[0])
    assert sorted(os.listdir(folder)) == sorted(WRAPPERS)
    assert all(os.access(folder / name, os.X_OK) for name in WRAPPERS)


def test_a_missing_program_is_reported_even_if_the_current_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(CommandNotFound, match="does not exist"):
        find_program("./tool", {})
