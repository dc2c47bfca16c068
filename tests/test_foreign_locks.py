"""Locks from other people: valid contents, and contents that must be confirmed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rocenv.context import Context
from rocenv.core.errors import DataError, ResolutionImpossible
from rocenv.core.lock import lock_text, parse_lock, read_lock
from rocenv.core.model import (
    Artifact,
    Component,
    EnvChange,
    Layout,
    Lock,
    Machine,
    Program,
    Request,
    Shims,
    Switch,
)
from rocenv.core.template import fill
from rocenv.core.variables import OVERRIDE, VISIBLE
from rocenv.data.environment import changes_for
from rocenv.data.load import load
from rocenv.data.releases import RocmSet, RocmWheels, TorchSet
from rocenv.resolve import resolve
from rocenv.sources import source_of
from rocenv.sources.lock_review import Review, compared, known_places

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.resolve import Candidate
    from tests.mini import Mini

MATRIX = load()
PLACES = tuple(known_places(MATRIX))
SHA256 = "0" * 64


def file_at(url: str) -> Artifact:
    return Artifact(kind="archive", name="file", version="1", url=url, sha256=SHA256, size_bytes=1)


def lock_of(*urls: str, changes: tuple[EnvChange, ...] = (), platform: str = "linux", **more: Any) -> Lock:
    part = Component(
        kind="rocm", name="x", version="1", channel="x", why="", artifacts=tuple(map(file_at, urls)), **more
    )
    return Lock(
        request=Request(), platform=platform, target="gfx1100", components=(part,), environment=changes
    )


def hosts_of(*urls: str) -> list[str]:
    return list(compared(lock_of(*urls), MATRIX, PLACES).hosts)


# ---------------------------------------------------------------- locks from rocenv's own data


def requests() -> Iterator[Request]:
    for target in MATRIX.targets:
        for platform in ("linux", "windows"):
            for torch in ("", "*"):
                for zluda in ("", "*") if platform == "windows" else ("",):
                    yield Request(target=target, platform=platform, torch=torch, zluda=zluda)


def locks(request: Request, context: Context) -> Iterator[Lock]:
    """Yield a lock for each candidate, with one file per component from its usual host."""
    try:
        candidates = list(resolve(request, MATRIX, Machine(platform=request.platform)))
    except ResolutionImpossible:
        return
    for candidate in candidates:
        parts = tuple(with_file(part, candidate) for part in outlines(candidate, request, context))
        changes = changes_for(parts, MATRIX, request.platform)
        if candidate.override is not None:
            changes += (EnvChange(action="set", name=OVERRIDE, value=candidate.override.value),)
        changes += (EnvChange(action="set", name=VISIBLE, value="0,1"),)
        yield Lock(
            request=request,
            platform=request.platform,
            target=request.target,
            components=parts,
            environment=changes,
        )


def outlines(candidate: Candidate, request: Request, context: Context) -> tuple[Component, ...]:
    return tuple(source_of(each).outline(each, candidate, request, context) for each in candidate.parts)


def with_file(part: Component, candidate: Candidate) -> Component:
    urls = []
    packages, wheels, torch = (candidate.row(kind) for kind in (RocmSet, RocmWheels, TorchSet))
    if part.kind == "rocm" and isinstance(packages, RocmSet):
        repos = (MATRIX.repos[name] for name in MATRIX.channels[packages.channel].repos)
        bases = (fill(repo.base, {"apt_dir": packages.apt_dir}) for repo in repos)
        urls = [f"{base}/pool/main/x_1_amd64.deb" for base in bases if base.startswith("http")]
    elif part.kind == "rocm" and isinstance(wheels, RocmWheels):
        urls = [f"{wheels.index.rstrip('/')}/rocm/rocm-1-py3-none-any.whl"]
    elif part.kind == "torch" and isinstance(torch, TorchSet):
        urls = [f"{torch.index.rstrip('/')}/{name}" for name in ("torch-1%2Brocm6.whl", "numpy/x.whl")]
        urls += [f"{torch.index.rstrip('/').rpartition('/')[0]}/x.whl"]
    return replace(part, artifacts=(*part.artifacts, *map(file_at, urls)))


def test_locks_from_the_shipped_data_need_no_confirmation() -> None:
    context = Context(matrix=MATRIX)
    seen: set[tuple[object, ...]] = set()
    count = 0
    for request in requests():
        for lock in locks(request, context):
            about = (
                lock.platform,
                *((part.channel, part.version, part.artifacts) for part in lock.components),
            )
            if (about, lock.environment) in seen:
                continue
            seen.add((about, lock.environment))
            found = compared(lock, MATRIX, PLACES)
            assert not found.is_foreign, (request, found.lines)
            count += 1
    assert count > 300
    for row in MATRIX.compiler:
        part = Component(
            kind="compiler",
            name="c",
            version="1",
            channel=row.channel,
            why="",
            layout=row.layout.below("rocm"),
        )
        assert not compared(replace(lock_of(), components=(part,)), MATRIX, PLACES).is_foreign
    for app in MATRIX.app_packages:
        layout = Layout(root="", library_dirs=(), libraries={}, programs=app.programs).below("rocm")
        assert not compared(lock_of(layout=layout), MATRIX, PLACES).is_foreign


# ---------------------------------------------------------------- hosts


@pytest.mark.parametrize(
    "url",
    [
        "https://repo.radeon.com/rocm/apt/6.2/pool/main/x.deb",
        "HTTPS://Repo.Radeon.COM:443/rocm/apt/6.2/pool/main/x.deb",
        "https://github.com/vosen/ZLUDA/releases/download/v5/zluda.zip",
        "https://download.pytorch.org/whl/x-1-py3-none-any.whl",
        "https://download.pytorch.org/whl/rocm6.2/torch-2.5.1%2Brocm6.2-cp311-cp311-linux_x86_64.whl",
        "https://download-r2.pytorch.org/whl/rocm6.4/torch-2.9.0%2Brocm6.4-cp312-cp312-linux_x86_64.whl",
        "debian:pool/main/x.deb",
        "http://a.mirror.debian.org/debian/pool/main/x.deb",
        "http://ftp.de.debian.org/debian/pool/main/x.deb",
        "http://de.archive.ubuntu.com/ubuntu/pool/main/x.deb",
    ],
)
def test_a_host_in_the_data_needs_no_confirmation(url: str) -> None:
    assert hosts_of(url) == []


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://repo.radeon.com.evil.example/rocm/apt/6.2/x.deb", "https://repo.radeon.com.evil.example"),
        ("https://evil.example/https://repo.radeon.com/rocm/apt/x.deb", "https://evil.example"),
        ("https://repo.radeon.com@evil.example/rocm/apt/x.deb", "https://evil.example"),
        ("https://evil.example#@repo.radeon.com/rocm/apt/x.deb", "https://evil.example"),
        ("https://evil.example?@repo.radeon.com/rocm/apt/x.deb", "https://evil.example"),
        ("https://me@repo.radeon.com/rocm/apt/x.deb", "https://repo.radeon.com"),
        ("https://repo.radeon.com:8443/rocm/apt/x.deb", "https://repo.radeon.com:8443"),
        ("http://repo.radeon.com/rocm/apt/6.2/x.deb", "http://repo.radeon.com"),
        ("https://repo.radeon.com./rocm/apt/6.2/x.deb", "https://repo.radeon.com."),
        ("https://repo.radeon.com/other/x.deb", "https://repo.radeon.com"),
        ("https://github.com/evil/ZLUDA/releases/download/v5/zluda.zip", "https://github.com"),
        (
            "https://github.com/vosen/ZLUDA/releases/download/../../../../evil/x/releases/download/v1/z.zip",
            "https://github.com",
        ),
        (
            "https://github.com/vosen/ZLUDA/releases/download/%2e%2e/%2E./../../evil/z.zip",
            "https://github.com",
        ),
        ("https://github.com/vosen/ZLUDA/releases/download/..%2f..%2fevil/z.zip", "https://github.com"),
        ("http://people.debian.org/~evil/debian/x.deb", "http://people.debian.org"),
        ("http://evil-debian.org/debian/x.deb", "http://evil-debian.org"),
        ("http://x.debian.org.evil.example/debian/x.deb", "http://x.debian.org.evil.example"),
        ("http://evil.example/x.debian.org/debian/x.deb", "http://evil.example"),
        ("http://x.debian.org:81/debian/x.deb", "http://x.debian.org:81"),
        ("https://evil.example\\@repo.radeon.com/rocm/apt/x.deb", r"\\@repo"),
        ("https://repo.rad\u0435on.com/rocm/apt/x.deb", "rad\u0435on"),  # Cyrillic
        ("https://xn--repo-radeon-abc.com/rocm/apt/x.deb", "https://xn--repo-radeon-abc.com"),
        ("https://[::1/rocm/apt/x.deb", "'https://[::1/"),
        ("https:///rocm/apt/x.deb", "'https:///"),
        ("https:/\\evil.example/x.deb", "'https:/"),
    ],
)
def test_a_host_with_a_similar_name_is_foreign(url: str, host: str) -> None:
    (found,) = hosts_of(url)
    assert host in found


@settings(deadline=None)
@given(
    st.sampled_from([place for place in PLACES if "*" not in place[0]]),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12),
    st.sampled_from(["", "/", "x/../"]),
)
def test_a_url_that_requests_would_send_to_an_unlisted_host_is_foreign(
    place: tuple[str, str], more: str, between: str
) -> None:
    """For any URL, either `requests` would contact a host in the data or rocenv treats it as foreign."""
    import requests

    origin, folder = place
    url = f"{origin}{more}{between}{folder}x.deb"
    if hosts_of(url):
        return
    asked = requests.Request("GET", url).prepare().url
    assert asked is not None
    assert hosts_of(asked) == []
    assert any(asked.startswith(f"{known}{path}") for known, path in PLACES), (url, asked)


# ---------------------------------------------------------------- variables


def change(name: str, value: str = "", action: Literal["set", "prepend", "unset"] = "set") -> EnvChange:
    return EnvChange(action=action, name=name, value=value)


@pytest.mark.parametrize(
    "each",
    [
        change("LD_PRELOAD", "{prefix}/rocm/evil.so"),
        change("ROCENV_PROFILES", "{prefix}/rocm/evil"),
        change("LD_LIBRARY_PATH", "/tmp"),
        change("LD_LIBRARY_PATH", "/tmp", "prepend"),
        change("LD_LIBRARY_PATH", "{prefix}/rocm:/tmp", "prepend"),
        change("LD_LIBRARY_PATH", "{prefix}/../../tmp", "prepend"),
        change("LD_AUDIT", "x"),
        change("PATH", "{prefix}/rocm/usr/bin"),
        change("PATH", "/tmp", "prepend"),
        change("PATH", "", "unset"),
        change("PROMPT_COMMAND", "touch evil"),
        change("PYTHONSTARTUP", "{prefix}/x.py"),
        change("PYTHONPATH", "{prefix}/x", "prepend"),
        change("BASH_ENV", "x"),
        change("GIT_SSH_COMMAND", "x"),
        change("PIP_INDEX_URL", "https://evil.example/simple"),
        change("https_proxy", "http://evil.example"),
        change("SSL_CERT_FILE", "{prefix}/x.pem"),
        change("EDITOR", "x"),
        change("A", "x"),
    ],
    ids=lambda each: f"{each.action} {each.name}",
)
def test_a_variable_that_the_data_does_not_list_is_rejected(each: EnvChange) -> None:
    with pytest.raises(DataError, match=f"the lock changes the variable `{each.name}`") as caught:
        compared(lock_of(changes=(each,)), MATRIX, PLACES)
    assert caught.value.code == "lock-refused"
    started = Program(path="rocm/usr/bin/x", environment={each.name: each.value})
    layout = Layout(root="rocm", library_dirs=(), libraries={}, programs=(started,))
    with pytest.raises(DataError, match=each.name):
        compared(lock_of(layout=layout), MATRIX, PLACES)


@pytest.mark.parametrize("name", ["Path", "path", "pythonstartup", "Ld_Preload", "PATHEXT", "comspec"])
def test_variable_names_in_windows_locks_are_case_insensitive(name: str) -> None:
    with pytest.raises(DataError, match=name):
        compared(lock_of(changes=(change(name, "x"),), platform="windows"), MATRIX, PLACES)


@pytest.mark.parametrize(
    ("each", "said"),
    [
        (change("HIPRTC_COMPILE_OPTIONS_APPEND", "-include /tmp/x"), "-include /tmp/x"),
        (change("TORCH_HOME", "/tmp/x"), "sets `TORCH_HOME=/tmp/x`"),
        (change("TORCH_HOME", "{prefix}/../x"), "TORCH_HOME"),
        (change("PIP_CONSTRAINT", "https://evil.example/x.txt"), "PIP_CONSTRAINT"),
        (change("ROCM_PATH", "/opt/rocm"), "ROCM_PATH"),
        (change("ROCM_PATH", "/opt/rocm", "prepend"), "prepends `/opt/rocm` to `ROCM_PATH`"),
        (change("MIOPEN_FIND_MODE", "", "unset"), "unsets `MIOPEN_FIND_MODE`"),
        (change(OVERRIDE, "x; y"), OVERRIDE),
        (change(VISIBLE, "x", "prepend"), VISIBLE),
    ],
    ids=lambda each: each.name if isinstance(each, EnvChange) else "",
)
def test_a_different_value_of_a_listed_variable_is_shown(each: EnvChange, said: str) -> None:
    found = compared(lock_of(changes=(each,)), MATRIX, PLACES)
    assert (found.variables, found.is_foreign) == ((each,), True)
    assert said in found.lines[0]


def test_a_different_folder_within_the_env_needs_no_confirmation() -> None:
    changes = (
        change("TORCH_HOME", "{prefix}/somewhere/else"),
        change("PATH", "{prefix}/rocm/opt/rocm-5.7.1/bin", "prepend"),
        change(OVERRIDE, "10.3.0"),
        change(VISIBLE, "1"),
    )
    assert compared(lock_of(changes=changes), MATRIX, PLACES) == Review(hosts={})


def test_commands_not_in_the_data_are_shown() -> None:
    started = Program(path="rocm/usr/bin/bash", names=("ls",), arguments=("-c", "touch evil"))
    layout = Layout(root="rocm", library_dirs=(), libraries={}, programs=(started,))
    (line,) = compared(lock_of(layout=layout), MATRIX, PLACES).lines
    assert "runs `rocm/usr/bin/bash` with `-c touch evil`" in line
    shims = Shims(
        runtime=(), driver=(), behind=(), files=(), switches=(Switch(name="hub.x", how="call", value=True),)
    )
    assert "torch.hub.x" in compared(lock_of(shims=shims), MATRIX, PLACES).lines[0]


# ---------------------------------------------------------------- the command


def write(mini: Mini, *, host: str = "", changes: tuple[dict[str, str], ...] = ()) -> Path:
    """Write an env's lock with another host for one file, and with other changes."""
    mini.create("one")
    plain = json.loads(mini.run("lock", "one").stdout)
    plain["environment"] += changes
    if host:
        artifact = plain["components"][0]["artifacts"][0]
        del artifact["repo"], artifact["path"]
        artifact["url"] = f"{host}/x.deb"
    path = mini.root / "their.lock"
    path.write_text(json.dumps(plain))
    return path


def test_a_lock_from_this_machine_needs_no_confirmation(mini: Mini) -> None:
    lock = write(mini)
    done = mini.run("create", "two", "--from", str(lock), "--no-verify")
    assert done.returncode == 0, done.stderr
    assert "changes these variables in the env: ROCM_PATH, PATH, LD_LIBRARY_PATH" in done.stderr
    assert "! " not in done.stderr
    plan = json.loads(mini.run("create", "x", "--from", str(lock), "--dry-run", "--json").stdout)
    assert (plan["foreign_hosts"], plan["foreign_variables"]) == ([], [])


def test_a_foreign_host_is_shown_and_must_be_confirmed(mini: Mini) -> None:
    lock = write(mini, host="https://evil.invalid:8443")
    line = "downloads mini5-blas from `https://evil.invalid:8443`, which is unknown to rocenv"
    dry = mini.run("create", "two", "--from", str(lock), "--dry-run")
    assert dry.returncode == 0
    assert f"! {line}" in " ".join(dry.stdout.split())
    plan = json.loads(mini.run("create", "two", "--from", str(lock), "--dry-run", "--json").stdout)
    assert plan["foreign_hosts"] == [{"host": "https://evil.invalid:8443", "files": ["mini5-blas"]}]
    assert line in plan["notes"]
    for more in ((), ("-y",)):
        done = mini.run("create", "two", "--from", str(lock), "--no-verify", *more)
        assert done.returncode == 1
        assert line in done.stderr
        assert f"rocenv create two --from {lock} --trust-lock" in done.stderr
    told = json.loads(mini.run("create", "two", "--from", str(lock), "--json", "-y").stdout)
    assert told["error"] == "lock-untrusted"
    assert not mini.prefix("two").exists()
    # The store already contains a file with this hash.
    done = mini.run("create", "two", "--from", str(lock), "--no-verify", "--trust-lock")
    assert done.returncode == 0, done.stderr


def test_a_configured_mirror_needs_no_confirmation(mini: Mini) -> None:
    lock = write(mini, host="https://corp.invalid/all")
    assert mini.run("create", "two", "--from", str(lock), "--no-verify").returncode == 1
    place = "https://corp.invalid/all/"
    assert mini.run("config", "set", "mirrors.https://elsewhere.invalid/", place).returncode == 0
    assert mini.run("create", "two", "--from", str(lock), "--no-verify").returncode == 0


def test_variables_in_a_foreign_lock_are_shown_or_rejected(mini: Mini) -> None:
    odd = {"action": "set", "name": "ROCM_PATH", "value": "/opt/rocm"}
    lock = write(mini, changes=(odd,))
    done = mini.run("create", "two", "--from", str(lock), "--no-verify", "-y")
    assert done.returncode == 1
    assert "sets `ROCM_PATH=/opt/rocm`" in done.stderr
    plan = json.loads(mini.run("create", "two", "--from", str(lock), "--dry-run", "--json").stdout)
    assert plan["foreign_variables"] == [odd]
    evil = {"action": "set", "name": "LD_PRELOAD", "value": "/tmp/x.so"}
    plain = json.loads(lock.read_text())
    plain["environment"] = [evil]
    lock.write_text(json.dumps(plain))
    for more in ((), ("--dry-run",), ("--trust-lock", "-y")):
        done = mini.run("create", "two", "--from", str(lock), *more)
        assert (done.returncode, "LD_PRELOAD" in done.stderr) == (1, True), more
    assert not mini.prefix("two").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("answer", "made"), [("\n", False), ("n\n", False), ("y\n", True)])
def test_on_a_terminal_the_default_answer_is_no(mini: Mini, answer: str, made: bool) -> None:
    import pty

    lock = write(mini, host="https://evil.invalid")
    master, slave = pty.openpty()
    argv = mini.command("create", "two", "--from", str(lock), "--no-verify")
    with subprocess.Popen(
        argv, env=mini.env, stdin=slave, stdout=slave, stderr=slave, cwd=mini.root
    ) as child:
        os.close(slave)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(master, 65536)
        os.write(master, answer.encode())
        try:
            while block := os.read(master, 65536):
                shown += block
        except OSError:
            pass  # Linux returns EIO once the other end is closed
        child.wait(60)
    os.close(master)
    assert b"https://evil.invalid" in shown.partition(b"[y/N]")[0]
    assert b"Continue?" not in shown
    assert (child.returncode == 0, mini.prefix("two").exists()) == (made, made)


def test_the_trust_option_requires_a_lock(mini: Mini) -> None:
    done = mini.run("create", "two", "--rocm", "5.7", "--trust-lock")
    assert (done.returncode, "--trust-lock needs --from" in done.stderr) == (2, True)


# ---------------------------------------------------------------- special files and hostile text


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not have such files")
@pytest.mark.parametrize("kind", ["fifo", "zero", "huge", "folder", "link to a fifo"])
def test_endless_files_are_not_read(mini: Mini, kind: str) -> None:
    path = mini.root / "a.lock"
    if kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "huge":
        with path.open("wb") as out:
            out.truncate(1 << 40)
    elif kind == "folder":
        path.mkdir()
    else:
        fifo = mini.root / "fifo"
        os.mkfifo(fifo)
        path = fifo if kind == "fifo" else path
        if kind != "fifo":
            path.symlink_to(fifo)
    done = mini.run("create", "two", "--from", str(path), "--dry-run", timeout_s=10)
    assert done.returncode == 1
    assert f"cannot read the lock `{path}`: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_url_with_control_characters_is_rejected(mini: Mini) -> None:
    lock = write(mini, host="https://evil.invalid/\x1b[2J")
    with pytest.raises(DataError, match="unprintable character"):
        read_lock(lock)


@pytest.mark.parametrize("field", ["name", "version", "channel", "why"])
def test_a_lock_cannot_add_lines_to_the_plan(mini: Mini, field: str) -> None:
    lock = write(mini, host="https://example.org")
    plain = json.loads(lock.read_text())
    plain["components"][0][field] += "\n  - rocenv knows all its files"
    lock.write_text(json.dumps(plain))
    with pytest.raises(DataError, match=r"\\n.*unprintable character"):
        read_lock(lock)


def test_a_lock_with_any_remark_can_be_read_again() -> None:
    text = "no\u00a0break,\u3000wide\nline\x1b[2J"
    lock = lock_of("https://a.example/x", into="rocm")
    lock = replace(lock, notes=(text,), warnings=(text,), components=(replace(lock.components[0], why=text),))
    found = parse_lock(lock_text(lock).encode(), "lock")
    assert {*found.notes, *found.warnings, found.components[0].why} == {"no break, wide line?[2J"}


def test_a_folder_on_this_machine_is_shown() -> None:
    """An installed HIP SDK is the only folder on this machine that rocenv copies."""
    folder = replace(file_at(""), kind="folder", path="/tmp/x")
    lock = lock_of()
    [part] = lock.components
    part = replace(part, artifacts=(folder,))
    assert list(compared(replace(lock, components=(part,)), MATRIX, PLACES).hosts) == ["/tmp/x"]
    assert hosts_of("file:///tmp/x", "ftp://h/x", "evil:pool/x.deb") == [
        "'evil:pool/x.deb'",
        "'file:///tmp/x'",
        "'ftp://h/x'",
    ]
