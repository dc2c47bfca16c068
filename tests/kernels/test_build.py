"""`rocenv kernels build`: which kernel is compiled how, what is kept, and what goes wrong."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
import zstandard
from msgspec import structs
from msgspec.structs import replace

from rocenv.core.errors import RocenvError
from rocenv.data.load import load
from rocenv.kernels.installation import Installation
from rocenv.kernels.version import version_of
from rocenv.prefix import Prefix
from tests.kernels.lab import BITCODE, FLAGS_TEXT, PLAIN, WITH_RT, Lab, make_app
from tests.kernels.test_source import oracle

WAIT_S = 30
ROW = next(row for row in load().kernel_source if row.app == "blender")


def own_name(source: Path, more: str = "") -> str:
    flags = FLAGS_TEXT.replace("%d", "64").replace("%s", str(source)) + more
    return oracle(source, flags)


def test_kernel_goes_to_the_apps_cache_under_the_apps_own_name(lab: Lab) -> None:
    app = make_app(lab.root / "my apps" / "blender-5.2")
    told = lab.build("--blender", app, "--env", "cc")
    source = app / "5.2/scripts/addons_core/cycles/source"
    placed = told["placed"]
    assert placed["file"].endswith(f"cycles/kernels/cycles_kernel_gfx1201_{own_name(source)}")
    assert (placed["place"], placed["env"]) == ("cache", "cc")
    assert placed["cache_home"] == str(lab.home.envs / "cc" / "cache")
    with open(placed["file"], "rb") as file:
        assert hashlib.sha256(file.read()).hexdigest() == told["sha256"]
    assert (told["version"], told["kernels"], told["kernels_expected"]) == ("5.2", 75, 75)
    (call,) = lab.calls()
    assert call[:4] == ["-x", "hip", "--cuda-device-only", "--offload-arch=gfx1201"]
    assert str(source / "kernel/device/hip/kernel.cpp") in call
    assert {"-ffast-math", "-DHIPCC", "-std=c++17"} < set(call)
    assert "-DWITH_NANOVDB" not in call


def test_second_call_compiles_nothing_and_gives_the_same(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    first = lab.build("--blender", app, "--env", "cc")
    second = lab.build("--blender", app / "blender", "--env", "cc")
    assert (first["compiled_now"], second["compiled_now"]) == (True, False)
    assert second["sha256"] == first["sha256"]
    assert len(lab.calls()) == 1


@pytest.mark.parametrize("change", ["source", "target", "compiler"])
def test_what_a_kernel_is_made_of_decides_whether_it_is_made_anew(lab: Lab, change: str) -> None:
    app = make_app(lab.root / "b")
    lab.build("--blender", app, "--env", "cc")
    if change == "source":
        (app / "5.2/scripts/addons_core/cycles/source/util/a.h").write_text("// b\n")
    if change == "compiler":
        lab.orders(version="pretended clang version 22")
    target = "gfx1100" if change == "target" else "gfx1201"
    assert lab.build("--blender", app, "--env", "cc", "--target", target)["compiled_now"] is True


def test_damaged_kept_kernel_is_told_and_compiled_again(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    kept = lab.build("--blender", app, "--env", "cc")["kept_in"]
    with open(kept, "r+b") as file:
        file.seek(2000)
        file.write(b"!")
    done = lab.run("--blender", app, "--env", "cc")
    assert done.returncode == 0
    assert "is damaged" in done.stderr
    assert len(lab.calls()) == 2


def test_kernel_that_somebody_else_has_put_there_is_not_run(lab: Lab) -> None:
    """Its note states its hash, as what is told about a kernel does."""
    app = make_app(lab.root / "b")
    told = lab.build("--blender", app, "--env", "cc")
    kept = Path(told["kept_in"])
    content = kept.read_bytes()
    kept.write_bytes(content + b"evil")
    note = kept.with_name("entry.json")
    assert told["sha256"] in note.read_text()
    note.write_text(note.read_text().replace(told["sha256"], hashlib.sha256(content + b"evil").hexdigest()))
    assert lab.build("--blender", app, "--env", "cc")["sha256"] == told["sha256"]
    assert kept.read_bytes() == content
    assert len(lab.calls()) == 2


def test_nanovdb_in_the_program_goes_into_flags_and_name(lab: Lab) -> None:
    app = make_app(lab.root / "b", texts=(*PLAIN, b"\x48\xb8 -DWITH_\x48\xb9_NANOVDB"))
    told = lab.build("--blender", app, "--env", "cc")
    source = app / "5.2/scripts/addons_core/cycles/source"
    assert told["placed"]["file"].endswith(own_name(source, " -DWITH_NANOVDB"))
    assert "-DWITH_NANOVDB" in lab.calls()[0]


@pytest.mark.parametrize(("version", "define"), [("5.0", "__HIPRT__"), ("5.1", "__KERNEL_HIPRT__")])
def test_ray_tracing_define_goes_by_version(lab: Lab, version: str, define: str) -> None:
    app = make_app(lab.root / "b", texts=WITH_RT, version=version)
    headers = lab.root / "hip rt"
    (headers / "hiprt/impl").mkdir(parents=True)
    (headers / "hiprt/impl/hiprt_device_impl.h").touch()
    told = lab.build("--blender", app, "--env", "cc", "--hiprt", "--hiprt-include", headers)
    (call,) = lab.calls()
    assert call[call.index("-D") + 1] == define
    assert str(headers) in call
    source = app / version / "scripts/addons_core/cycles/source"
    name = own_name(source, f" -D {define} ")
    assert told["placed"]["file"].endswith(f"cycles_kernel_gfx1201_{name}.hipfb")


def test_missing_headers_are_an_error_that_says_where_to_get_them(lab: Lab) -> None:
    app = make_app(lab.root / "b", texts=WITH_RT)
    done = lab.run("--blender", app, "--env", "cc", "--hiprt")
    assert done.returncode == 1
    assert "GPUOpen-LibrariesAndSDKs/HIPRT" in done.stderr
    assert "--hiprt-include DIR" in done.stderr
    assert lab.calls() == []


def test_program_without_ray_tracing_is_not_given_such_a_kernel(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    assert lab.build("--blender", app, "--env", "cc", "--hiprt", code=1)["error"] == "kernels-built-without"


@pytest.mark.parametrize(
    ("args", "code", "error"),
    [
        (["--app-version", "2.93"], 1, "kernels-too-old"),
        (["--app-version", "4.2", "--hiprt"], 1, "kernels-no-recipe"),
        (["--app-version", "five"], 2, "usage"),
        (["--target", "gfx9999"], 1, "kernels-no-compiler"),
        (["--blender", "nowhere"], 1, "kernels-no-app"),
        (["--blender", "/"], 1, "kernels-no-source"),
        (["--env", "gone"], 1, "env-missing"),
    ],
)
def test_what_cannot_be_done_is_told(lab: Lab, args: list[str], code: int, error: str) -> None:
    app = make_app(lab.root / "b", texts=WITH_RT)
    told = lab.build("--blender", app, "--env", "cc", *args, code=code)
    assert told["error"] == error
    assert told["hints"]


def test_version_that_nothing_tells_is_asked_for(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    (app / "share" / "blender").mkdir(parents=True)
    (app / "5.2" / "scripts").rename(app / "share" / "blender" / "scripts")
    told = lab.build("--blender", app, "--env", "cc", code=1)
    assert told["error"] == "kernels-no-version"
    assert "--app-version" in told["hints"][0]
    assert lab.build("--blender", app, "--env", "cc", "--app-version", "5.2.2")["version"] == "5.2.2"


@pytest.mark.parametrize(
    ("orders", "says"),
    [
        ({"error": "kernel.cpp:7: error: unknown type name 'half9'"}, "unknown type name 'half9'"),
        ({"crash": True}, "SIGSEGV"),
        ({"nothing": True}, "wrote nothing"),
        ({"bytes": "00"}, "neither a code object nor a bundle"),
        ({"error": "fatal error: error in backend: IO failure: No space left on device"}, "rocenv gc"),
        ({"error": "clang: error: cannot find ROCm device library for gfx1201"}, "does not know gfx1201"),
    ],
)
def test_compilers_failure_is_told_and_leaves_nothing(lab: Lab, orders: dict[str, object], says: str) -> None:
    app = make_app(lab.root / "b")
    lab.orders(**orders)
    done = lab.run("--blender", app, "--env", "cc")
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    kept = [path.name for path in (lab.home.path / "cache/kernels").iterdir()]
    assert [name for name in kept if not name.endswith(".log")] == []
    if "bytes" not in orders:
        (log,) = kept
        assert log in done.stderr
        assert "warning: something" in (lab.home.path / "cache/kernels" / log).read_text()
    lab.orders()
    assert lab.run("--blender", app, "--env", "cc").returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_ends_the_compiler_and_leaves_nothing_half_done(lab: Lab, number: int, code: int) -> None:
    app = make_app(lab.root / "b")
    lab.orders(seconds=60)
    child = subprocess.Popen(
        [*lab.command(), "--blender", str(app), "--env", "cc"],
        env=lab.environ(),
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    folder = lab.home.path / "cache/kernels"
    end = time.monotonic() + WAIT_S
    while not list(folder.glob(".building-*/work/half.o")):
        assert time.monotonic() < end
        time.sleep(0.05)
    child.send_signal(number)
    child.communicate(timeout=WAIT_S)
    assert child.returncode == code
    assert [path for path in folder.iterdir() if not path.name.endswith(".log")] == []
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(lab.home.envs / "cc" / "bin" / "clang-21") not in running


def test_two_at_once_compile_once(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    lab.orders(seconds=2)
    command = [*lab.command(), "--blender", str(app), "--env", "cc", "--json"]
    children = [
        subprocess.Popen(command, env=lab.environ(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    told = [json.loads(child.communicate(timeout=2 * WAIT_S)[0]) for child in children]
    assert len(lab.calls()) == 1
    assert sorted(each["compiled_now"] for each in told) == [False, True]
    assert told[0]["sha256"] == told[1]["sha256"]


def test_output_is_the_kernel_and_nothing_is_placed(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    out = lab.root / "out.fatbin"
    told = lab.build("--blender", app, "--env", "cc", "--output", out)
    assert hashlib.sha256(out.read_bytes()).hexdigest() == told["sha256"]
    assert told["placed"] is None
    assert not (lab.home.path / "kernels").exists()


def test_compressed_or_not_as_the_program_wants_it(lab: Lab) -> None:
    new = make_app(lab.root / "new")
    told = lab.build("--blender", new, "--env", "cc", "--place", "in-place")
    assert told["placed"]["file"].endswith("lib/kernel_gfx1201.fatbin.zst")
    with open(told["placed"]["file"], "rb") as file:
        content = zstandard.ZstdDecompressor().decompress(file.read(), max_output_size=1 << 20)
    assert hashlib.sha256(content).hexdigest() == told["sha256"]
    old = make_app(lab.root / "old", texts=(b"lib/%s_%s.fatbin", FLAGS_TEXT.encode()), version="4.0")
    told = lab.build("--blender", old, "--env", "cc", "--place", "in-place")
    assert told["placed"]["file"].endswith("lib/kernel_gfx1201.fatbin")


def test_app_and_its_options_come_from_the_data(lab: Lab) -> None:
    """An app that only the user's own rows know is a command like any other."""
    rows = lab.home.path / "profiles"
    rows.mkdir(parents=True, exist_ok=True)
    known = 'status = "tested"\nsource = "here"\nchecked = "2026-11-22"\n'
    (rows / "own.toml").write_text(
        "schema = 1\n[[kernel_source]]\n"
        'app = "raytoy"\ntitle = "Toy"\nsince = "1.0"\nfolders = ["toy"]\ncode = "src"\nprecompiled = "lib"\n'
        'programs = ["raytoy"]\nversion_arguments = ["-v"]\nversion_pattern = "^toy (?P<version>[0-9.]+)"\n'
        f"{known}[[kernel_recipe]]\n"
        'app = "raytoy"\nkind = "hip"\ntitle = "HIP"\nversions = ">=1"\nfile = "toy.cpp"\nflags = ["-DTOY"]\n'
        f'precompiled = "toy_{{target}}.co"\nprecompiled_text = "toy_%s.co"\n{known}'
    )
    app = lab.root / "toy app"
    (app / "toy" / "src").mkdir(parents=True)
    (app / "toy" / "src" / "toy.cpp").touch()
    (app / "raytoy").write_text("#!/bin/sh\necho toy 1.5\n")
    (app / "raytoy").chmod(0o755)
    command = [*lab.command()[:-1], "raytoy", "--raytoy", str(app), "--env", "cc", "--place", "in-place"]
    done = subprocess.run(command, env=lab.environ(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (app / "toy" / "lib" / "toy_gfx1201.co.zst").exists()
    assert "-DTOY" in lab.calls()[0]


def test_output_that_cannot_be_written_is_told_before_anything_is_compiled(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    for output in (lab.root / "missing" / "kernel", app / "blender" / "kernel"):
        told = lab.build("--blender", app, "--env", "cc", "--output", output, code=1)
        assert told["error"] == "kernels-unwritable"
    assert lab.calls() == []


def test_endless_answer_and_failure_are_no_version(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    for text, says in (("exec yes", "printed too much"), ("echo Blender 4.0.1; exit 3", "exit code 3")):
        (app / "blender").write_text(f"#!/bin/sh\n{text}\n")
        found = Installation(
            row=structs.replace(ROW, version_folder=""),
            root=app,
            folder=app / "5.2/scripts/addons_core/cycles",
            program=app / "blender",
            prefix=None,
        )
        with pytest.raises(RocenvError, match=says):
            version_of(found)


def test_version_is_that_of_no_other_folder_than_the_resources(lab: Lab) -> None:
    app = make_app(lab.root / "9.4" / "opt")
    share = lab.root / "9.4" / "prefix" / "share" / "blender"
    share.mkdir(parents=True)
    (app / "5.2" / "scripts").rename(share / "scripts")
    told = lab.build("--blender", share / "scripts/addons_core/cycles", "--env", "cc", code=1)
    assert told["error"] == "kernels-no-version"


def test_source_fits_the_version_that_the_program_says(lab: Lab) -> None:
    app = make_app(lab.root / "b", version="5.10")
    make_app(app, version="5.2")
    (app / "blender").write_text("#!/bin/sh\necho Blender 5.2.2\n# lib/%s_%s.fatbin.zst\n")
    told = lab.build("--blender", app, "--env", "cc")
    assert (told["version"], "/5.2/" in told["source"]) == ("5.2.2", True)
    (app / "blender").write_text("#!/bin/sh\necho Blender 4.5.1\n# lib/%s_%s.fatbin.zst\n")
    assert lab.build("--blender", app, "--env", "cc", code=1)["error"] == "kernels-bad-source"


def test_headers_and_device_libraries_are_part_of_a_kernel(lab: Lab) -> None:
    app = make_app(lab.root / "b", texts=WITH_RT)
    headers = lab.root / "hip rt" / "hiprt" / "impl" / "hiprt_device_impl.h"
    headers.parent.mkdir(parents=True)
    headers.touch()
    library = lab.home.envs / "cc" / "rocm" / BITCODE / "oclc_isa_version_1201.bc"

    def is_new() -> bool:
        asked = ("--env", "cc", "--hiprt", "--hiprt-include", headers.parents[2])
        return bool(lab.build("--blender", app, *asked)["compiled_now"])

    assert (is_new(), is_new()) == (True, False)
    headers.write_text("// of the next release")
    assert (is_new(), is_new()) == (True, False)
    library.write_bytes(b"BC")
    assert (is_new(), is_new()) == (True, False)


def test_target_is_what_the_env_makes_the_gpu_run_as(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    prefix = Prefix(lab.home.envs / "cc")
    record = prefix.record()
    prefix.write_record(replace(record, lock=replace(record.lock, target="gfx1201", runs_as="gfx1100")), {})
    assert lab.build("--blender", app, "--env", "cc")["target"] == "gfx1100"
    done = lab.run("--blender", app, "--env", "cc", "--target", "gfx1201")
    assert done.returncode == 0
    assert "those of `--target gfx1100` are" in done.stderr
