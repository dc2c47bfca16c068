"""`rocenv kernels build`: compiling, caching and errors."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
import zstandard
from msgspec.structs import replace

from rocenv.core.errors import RocenvError
from rocenv.data.load import load
from rocenv.kernels.installation import Installation, version_of
from rocenv.prefix import Prefix
from tests.kernels.lab import BITCODE, PLAIN, UNCOMPRESSED, WITH_RT, Lab, make_app

WAIT_S = 30


def test_a_kernel_is_compiled_from_the_apps_source_for_the_target(lab: Lab) -> None:
    app = make_app(lab.root / "my apps" / "blender-5.2")
    built = lab.build("--blender", app, "--env", "cc")
    source = app / "5.2/scripts/addons_core/cycles/source"
    assert built["source"] == str(source)
    assert (built["version"], built["kernels"], built["kernels_expected"]) == ("5.2", 75, 75)
    content = zstandard.ZstdDecompressor().decompress(
        Path(built["placed"]["file"]).read_bytes(), max_output_size=1 << 20
    )
    assert hashlib.sha256(content).hexdigest() == built["sha256"]
    (call,) = lab.calls()
    assert call[:4] == ["-x", "hip", "--cuda-device-only", "--offload-arch=gfx1201"]
    assert str(source / "kernel/device/hip/kernel.cpp") in call
    assert {"-ffast-math", "-DHIPCC", "-std=c++17"} < set(call)
    assert "-DWITH_NANOVDB" not in call


def test_second_build_uses_the_cached_kernel(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    first = lab.build("--blender", app, "--env", "cc")
    second = lab.build("--blender", app / "blender", "--env", "cc")
    assert (first["compiled_now"], second["compiled_now"]) == (True, False)
    assert second["sha256"] == first["sha256"]
    assert len(lab.calls()) == 1


@pytest.mark.parametrize("change", ["source", "target", "compiler"])
def test_changed_source_compiler_or_target_causes_a_new_build(lab: Lab, change: str) -> None:
    app = make_app(lab.root / "b")
    lab.build("--blender", app, "--env", "cc")
    if change == "source":
        (app / "5.2/scripts/addons_core/cycles/source/util/a.h").write_text("// b\n")
    if change == "compiler":
        lab.orders(version="fake clang version 22")
    target = "gfx1100" if change == "target" else "gfx1201"
    assert lab.build("--blender", app, "--env", "cc", "--target", target)["compiled_now"] is True


def test_a_damaged_cached_kernel_is_reported_and_compiled_again(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    kept = lab.build("--blender", app, "--env", "cc")["kept_in"]
    with open(kept, "r+b") as file:
        file.seek(2000)
        file.write(b"!")
    done = lab.run("--blender", app, "--env", "cc")
    assert done.returncode == 0
    assert "is damaged" in done.stderr
    assert len(lab.calls()) == 2


def test_planted_cached_kernel_is_not_used(lab: Lab) -> None:
    """The kernel's hash is correct, but its seal is from a different home."""
    app = make_app(lab.root / "b")
    built = lab.build("--blender", app, "--env", "cc")
    kept = Path(built["kept_in"])
    content = kept.read_bytes()
    kept.write_bytes(content + b"evil")
    note = kept.with_name("entry.json")
    assert built["sha256"] in note.read_text()
    note.write_text(note.read_text().replace(built["sha256"], hashlib.sha256(content + b"evil").hexdigest()))
    assert lab.build("--blender", app, "--env", "cc")["sha256"] == built["sha256"]
    assert kept.read_bytes() == content
    assert len(lab.calls()) == 2


def test_nanovdb_support_in_the_program_adds_a_compiler_flag(lab: Lab) -> None:
    app = make_app(lab.root / "b", texts=(*PLAIN, b"\x48\xb8 -DWITH_\x48\xb9_NANOVDB"))
    lab.build("--blender", app, "--env", "cc")
    assert "-DWITH_NANOVDB" in lab.calls()[0]


@pytest.mark.parametrize(("version", "define"), [("5.0", "__HIPRT__"), ("5.1", "__KERNEL_HIPRT__")])
def test_ray_tracing_macro_depends_on_the_apps_version(lab: Lab, version: str, define: str) -> None:
    app = make_app(lab.root / "b", texts=WITH_RT, version=version)
    headers = lab.root / "hip rt"
    (headers / "hiprt/impl").mkdir(parents=True)
    (headers / "hiprt/impl/hiprt_device_impl.h").touch()
    built = lab.build("--blender", app, "--env", "cc", "--hiprt", "--hiprt-include", headers)
    (call,) = lab.calls()
    assert call[call.index("-D") + 1] == define
    assert str(headers) in call
    assert built["placed"]["file"].endswith("lib/kernel_rt_gfx1201.hipfb.zst")


def test_the_error_for_missing_headers_links_to_their_download_page(lab: Lab) -> None:
    app = make_app(lab.root / "b", texts=WITH_RT)
    done = lab.run("--blender", app, "--env", "cc", "--hiprt")
    assert done.returncode == 1
    assert "GPUOpen-LibrariesAndSDKs/HIPRT" in done.stderr
    assert "with `--hiprt-include`" in done.stderr
    assert lab.calls() == []


def test_a_program_without_ray_tracing_gets_no_ray_tracing_kernel(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    assert lab.build("--blender", app, "--env", "cc", "--hiprt", code=1)["error"] == "kernels-built-without"


@pytest.mark.parametrize(
    ("args", "code", "error"),
    [
        (["--app-version", "2.93"], 1, "kernels-no-recipe"),
        (["--app-version", "4.2", "--hiprt"], 1, "kernels-no-recipe"),
        (["--app-version", "five"], 2, "usage"),
        (["--target", "gfx9999"], 1, "kernels-no-compiler"),
        (["--blender", "nowhere"], 1, "kernels-no-app"),
        (["--blender", "/"], 1, "kernels-no-source"),
        (["--env", "gone"], 1, "env-missing"),
    ],
)
def test_invalid_request_fails_with_a_hint(lab: Lab, args: list[str], code: int, error: str) -> None:
    app = make_app(lab.root / "b", texts=WITH_RT)
    built = lab.build("--blender", app, "--env", "cc", *args, code=code)
    assert built["error"] == error
    assert built["hints"]


def test_unknown_app_version_must_be_specified(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    (app / "share" / "blender").mkdir(parents=True)
    (app / "5.2" / "scripts").rename(app / "share" / "blender" / "scripts")
    built = lab.build("--blender", app, "--env", "cc", code=1)
    assert built["error"] == "kernels-no-version"
    assert "--app-version" in built["hints"][0]
    assert lab.build("--blender", app, "--env", "cc", "--app-version", "5.2.2")["version"] == "5.2.2"


@pytest.mark.parametrize(
    ("orders", "says"),
    [
        ({"error": "kernel.cpp:7: error: unknown type name 'half9'"}, "unknown type name 'half9'"),
        ({"crash": True}, "SIGSEGV"),
        ({"nothing": True}, "wrote nothing"),
        ({"bytes": "00"}, "neither a code object nor an offload bundle"),
        ({"error": "fatal error: error in backend: IO failure: No space left on device"}, "rocenv gc"),
        ({"error": "clang: error: cannot find ROCm device library for gfx1201"}, "does not support gfx1201"),
    ],
)
def test_a_compiler_failure_is_reported_and_leaves_only_a_log(
    lab: Lab, orders: dict[str, object], says: str
) -> None:
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
def test_interrupt_stops_the_compiler_and_leaves_no_partial_files(lab: Lab, number: int, code: int) -> None:
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


def test_concurrent_builds_of_one_kernel_compile_it_once(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    lab.orders(seconds=2)
    command = [*lab.command(), "--blender", str(app), "--env", "cc", "--json"]
    children = [
        subprocess.Popen(command, env=lab.environ(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    built = [json.loads(child.communicate(timeout=2 * WAIT_S)[0]) for child in children]
    assert len(lab.calls()) == 1
    assert sorted(each["compiled_now"] for each in built) == [False, True]
    assert built[0]["sha256"] == built[1]["sha256"]


def test_the_output_option_only_writes_the_kernel_to_that_file(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    out = lab.root / "out.fatbin"
    built = lab.build("--blender", app, "--env", "cc", "--output", out)
    assert hashlib.sha256(out.read_bytes()).hexdigest() == built["sha256"]
    assert built["placed"] is None
    assert not (lab.home.path / "kernels").exists()


def test_a_kernel_is_compressed_if_the_program_expects_it(lab: Lab) -> None:
    new = make_app(lab.root / "new")
    built = lab.build("--blender", new, "--env", "cc", "--place", "in-place")
    assert built["placed"]["file"].endswith("lib/kernel_gfx1201.fatbin.zst")
    with open(built["placed"]["file"], "rb") as file:
        content = zstandard.ZstdDecompressor().decompress(file.read(), max_output_size=1 << 20)
    assert hashlib.sha256(content).hexdigest() == built["sha256"]
    old = make_app(lab.root / "old", texts=UNCOMPRESSED, version="4.0")
    built = lab.build("--blender", old, "--env", "cc", "--place", "in-place")
    assert built["placed"]["file"].endswith("lib/kernel_gfx1201.fatbin")


def test_an_unwritable_output_fails_before_compiling(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    for output in (lab.root / "missing" / "kernel", app / "blender" / "kernel"):
        built = lab.build("--blender", app, "--env", "cc", "--output", output, code=1)
        assert built["error"] == "kernels-unwritable"
    assert lab.calls() == []


def test_endless_or_failed_version_output_is_rejected(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    for text, says in (("exec yes", "printed too much"), ("echo Blender 4.0.1; exit 3", "exit code 3")):
        (app / "blender").write_text(f"#!/bin/sh\n{text}\n")
        found = Installation(
            root=app,
            folder=app / "share/blender/scripts/addons_core/cycles",
            program=app / "blender",
            prefix=None,
        )
        with pytest.raises(RocenvError, match=says):
            version_of(found, load().launcher)


def test_version_is_read_from_the_resource_folder_if_the_program_is_missing(lab: Lab) -> None:
    app = make_app(lab.root / "9.4" / "opt")
    share = lab.root / "9.4" / "prefix" / "share" / "blender"
    share.mkdir(parents=True)
    (app / "5.2" / "scripts").rename(share / "scripts")
    (app / "blender").rename(share.parents[1] / "blender")
    built = lab.build("--blender", share.parents[1], "--env", "cc", code=1)
    assert built["error"] == "kernels-no-version"


def test_kernel_source_must_match_the_program_version(lab: Lab) -> None:
    app = make_app(lab.root / "b", version="5.10")
    make_app(app, version="5.2")
    (app / "blender").write_text("#!/bin/sh\necho Blender 5.2.2\n# lib/%s_%s.fatbin.zst\n")
    built = lab.build("--blender", app, "--env", "cc")
    assert (built["version"], "/5.2/" in built["source"]) == ("5.2.2", True)
    (app / "blender").write_text("#!/bin/sh\necho Blender 4.5.1\n# lib/%s_%s.fatbin.zst\n")
    assert lab.build("--blender", app, "--env", "cc", code=1)["error"] == "kernels-bad-source"


def test_changed_headers_and_device_libraries_cause_a_new_build(lab: Lab) -> None:
    app = make_app(lab.root / "b", texts=WITH_RT)
    headers = lab.root / "hip rt" / "hiprt" / "impl" / "hiprt_device_impl.h"
    headers.parent.mkdir(parents=True)
    headers.touch()
    library = lab.home.envs / "cc" / "rocm" / BITCODE / "oclc_isa_version_1201.bc"

    def is_compiled() -> bool:
        asked = ("--env", "cc", "--hiprt", "--hiprt-include", headers.parents[2])
        return bool(lab.build("--blender", app, *asked)["compiled_now"])

    assert (is_compiled(), is_compiled()) == (True, False)
    headers.write_text("// of the next release")
    assert (is_compiled(), is_compiled()) == (True, False)
    library.write_bytes(b"BC")
    assert (is_compiled(), is_compiled()) == (True, False)


def test_the_default_target_respects_the_envs_override(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    prefix = Prefix(lab.home.envs / "cc")
    record = prefix.record()
    prefix.write_record(replace(record, lock=replace(record.lock, target="gfx1201", runs_as="gfx1100")), {})
    assert lab.build("--blender", app, "--env", "cc")["target"] == "gfx1100"
    done = lab.run("--blender", app, "--env", "cc", "--target", "gfx1201")
    assert done.returncode == 0
    assert "build with `--target gfx1100`" in done.stderr
