"""Bundles are reproducible and work offline; damaged files are named, and malicious ones rejected."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.core.errors import RocenvError
from rocenv.install.bundle import open_bundle
from tests.aptrepo import Key
from tests.network import cannot_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.mini import Mini

    Members = list[tuple[tarfile.TarInfo, bytes]]


@pytest.fixture
def bundle(mini: Mini) -> Path:
    """A bundle of two envs that share packages."""
    mini.create("lab")
    mini.create("other")
    return write(mini, "lab", "other")


def write(mini: Mini, *names: str, to: str = "lab.tar") -> Path:
    done = mini.run("bundle", *names, "-o", to)
    assert done.returncode == 0, done.stderr
    return mini.root / to


def elsewhere(
    mini: Mini, name: str, *options: str, file: str = "lab.tar"
) -> subprocess.CompletedProcess[str]:
    """Create an env in a new home, offline."""
    home = str(mini.root / "elsewhere")
    argv = ("create", name, "--from", file, "--no-verify", *options)
    return mini.run(*argv, ROCENV_HOME=home, ROCENV_OFFLINE="1")


def members_of(bundle: Path) -> Members:
    with tarfile.open(bundle) as archive:
        return [(each, (archive.extractfile(each) or io.BytesIO()).read()) for each in archive]


def rewritten(bundle: Path, change: Callable[[Members], object]) -> None:
    members = members_of(bundle)
    change(members)
    with tarfile.open(bundle, "w", format=tarfile.GNU_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))


def manifest_in(members: Members) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(members[0][1])
    return found


def put_manifest(members: Members, manifest: dict[str, Any]) -> None:
    text = json.dumps(manifest).encode()
    members[0][0].size = len(text)
    members[0] = (members[0][0], text)


def packages_in(members: Members) -> list[int]:
    return [at for at, (info, _) in enumerate(members) if info.name.startswith("artifacts/")]


# ---------------------------------------------------------------- writing


def test_a_bundle_is_reproducible_and_contains_shared_files_once(mini: Mini, bundle: Path) -> None:
    first = bundle.read_bytes()
    os.utime(next((mini.home / "cache" / "artifacts").glob("?" * 64)), (1, 1))
    assert write(mini, "other", "lab", to="again.tar").read_bytes() == first
    members = members_of(bundle)
    assert len(packages_in(members)) == 2
    assert sorted(manifest_in(members)["envs"]) == ["lab", "other"]
    names = [info.name for info, _ in members]
    assert names == sorted(names)
    assert {(info.uid, info.gid, info.uname, info.mode, info.mtime) for info, _ in members} == {
        (0, 0, "", 0o644, members[0][0].mtime)
    }
    listed = subprocess.run(["tar", "-tf", bundle], capture_output=True, text=True, check=True)
    assert listed.stdout.split() == names
    assert not listed.stderr


def test_missing_and_damaged_packages_are_downloaded_again(mini: Mini, bundle: Path) -> None:
    first = bundle.read_bytes()
    gone, damaged = sorted((mini.home / "cache" / "artifacts").glob("?" * 64))
    gone.unlink()
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    done = mini.run("bundle", "lab", "other", "-o", "again.tar", "--json")
    assert done.returncode == 0, done.stderr
    assert (mini.root / "again.tar").read_bytes() == first
    answer = json.loads(done.stdout)
    assert answer["sha256"] == hashlib.sha256(first).hexdigest()
    assert (answer["envs"], answer["artifacts"], answer["size_bytes"]) == (["lab", "other"], 2, len(first))


def test_an_existing_bundle_survives_a_failure(mini: Mini, bundle: Path) -> None:
    first = bundle.read_bytes()
    shutil.rmtree(mini.home / "cache" / "artifacts")
    done = mini.run("bundle", "lab", "-o", "lab.tar", ROCENV_OFFLINE="1")
    assert done.returncode == 1
    assert "mini5-" in done.stderr
    assert bundle.read_bytes() == first
    assert not list(mini.root.glob(".lab.tar*"))
    unwritable = mini.run("bundle", "lab", "-o", "nowhere/lab.tar")
    assert unwritable.returncode == 1
    assert "nowhere/lab.tar" in unwritable.stderr


# ---------------------------------------------------------------- creating


def test_an_env_is_created_without_any_network(mini: Mini, bundle: Path) -> None:
    """The bundle contains the signed index of its packages, so there is nothing to approve."""
    renamed = bundle.rename(mini.root / "lab.lock")  # the contents determine the file type
    home = str(mini.root / "elsewhere")
    command = mini.command("create", "lab", "--from", str(renamed), "--json", "--no-verify")
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode:
        cannot_run("unshare cannot make a network namespace here")
    done = subprocess.run(
        ["unshare", "-rn", *command],
        env={**mini.env, "ROCENV_HOME": home, "ROCENV_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plan"]["foreign_files"] == []
    ran = mini.run("run", "lab", "--", "hipconfig", ROCENV_HOME=home)
    assert ran.stdout == "hipconfig of the env\n"
    cached = [path for path in (mini.root / "elsewhere/cache/artifacts").glob("*") if len(path.name) == 64]
    assert not cached, "packages are read from the bundle, not copied"
    again = mini.run("lock", "lab").stdout
    assert mini.run("lock", "lab", ROCENV_HOME=home).stdout == again


def test_the_name_of_the_new_env_selects_one_of_several_locks(mini: Mini, bundle: Path) -> None:
    done = elsewhere(mini, "third")
    assert done.returncode == 1
    assert "lab, other" in done.stderr
    write(mini, "other", to="one.tar")
    assert elsewhere(mini, "third", file="one.tar").returncode == 0


def test_files_of_unknown_origin_need_approval(mini: Mini, bundle: Path) -> None:
    """The URLs in a lock do not prove where the files in a bundle come from."""
    (mini.sysroot / "usr/share/keyrings/mini.gpg").write_bytes(Key.new().keyring)
    done = elsewhere(mini, "lab", "-y")
    assert done.returncode == 1
    assert "mini5-" in done.stderr
    assert "--trust-lock" in done.stderr
    plan = json.loads(elsewhere(mini, "lab", "--dry-run", "--json").stdout)
    assert sorted(plan["foreign_files"]) == ["mini5-blas", "mini5-hip"]
    assert elsewhere(mini, "lab", "--trust-lock").returncode == 0


def test_a_package_that_the_signed_index_does_not_list_needs_approval(mini: Mini, bundle: Path) -> None:
    def replace(members: Members) -> None:
        """Replace a package, and its hash in the lock and the manifest."""
        manifest = manifest_in(members)
        at = packages_in(members)[0]
        info, content = members[at]
        old, evil = info.name.removeprefix("artifacts/"), content[:-4] + b"evil"
        new = hashlib.sha256(evil).hexdigest()
        info.name, info.size = f"artifacts/{new}", len(evil)
        members[at] = (info, evil)
        del manifest["files"][f"artifacts/{old}"]
        manifest["files"][info.name] = {"sha256": new, "size_bytes": len(evil)}
        for place, (lock, text) in enumerate(members):
            if lock.name.startswith("locks/"):
                changed = text.replace(old.encode(), new.encode())
                manifest["files"][lock.name]["sha256"] = hashlib.sha256(changed).hexdigest()
                members[place] = (lock, changed)
        put_manifest(members, manifest)

    rewritten(bundle, replace)
    done = elsewhere(mini, "lab", "-y")
    assert done.returncode == 1
    assert "from an unknown author" in " ".join(done.stderr.split())


@pytest.mark.parametrize("where", ["envs", "files", ""])
def test_a_manifest_cannot_add_lines_to_the_output(mini: Mini, bundle: Path, where: str) -> None:
    def change(members: Members) -> None:
        manifest = manifest_in(members)
        part = manifest[where] if where else manifest
        part |= {"x\nhint: run `evil`": next(iter(part.values()))}
        put_manifest(members, manifest)

    rewritten(bundle, change)
    done = elsewhere(mini, "third")
    assert done.returncode == 1
    assert "is damaged" in done.stderr
    assert "\nhint: run" not in done.stderr


def with_lock(members: Members, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the locks, and their hashes in the manifest."""
    manifest = manifest_in(members)
    for place, (info, text) in enumerate(members):
        if info.name.startswith("locks/"):
            lock = json.loads(text)
            change(lock)
            changed = json.dumps(lock).encode()
            info.size = len(changed)
            digest = hashlib.sha256(changed).hexdigest()
            manifest["files"][info.name] = {"sha256": digest, "size_bytes": len(changed)}
            members[place] = (info, changed)
    put_manifest(members, manifest)


@pytest.mark.parametrize("url", ["https://../evil", "https://x/%00", "https://x/a%5Cevil", "https://x/"])
def test_a_mirror_of_a_bundle_with_foreign_urls_stays_in_its_folder(
    mini: Mini, bundle: Path, url: str
) -> None:
    """rocenv creates the env without using the URLs."""

    def change(lock: dict[str, Any]) -> None:
        lock["components"][0]["artifacts"][0].update(url=url, repo="", path="")

    rewritten(bundle, lambda members: with_lock(members, change))
    refused = elsewhere(mini, "lab", "-y")  # the packages are signed, but the env would keep the URL
    assert refused.returncode == 1
    assert "needs your approval" in refused.stderr
    assert elsewhere(mini, "lab", "--trust-lock").returncode == 0
    done = mini.run("mirror", "mirror/sub", "--json", ROCENV_HOME=str(mini.root / "elsewhere"))
    assert done.returncode == 0, done.stderr
    assert url in "".join(json.loads(done.stdout)["problems"])
    assert [each.name for each in (mini.root / "mirror").iterdir()] == ["sub"]


# ---------------------------------------------------------------- damage


def refusal(mini: Mini) -> str:
    done = elsewhere(mini, "lab", "--trust-lock")
    assert done.returncode == 1, done.stderr
    assert not (mini.root / "elsewhere/envs/lab/.rocenv/record.json").exists()
    return " ".join(done.stderr.split())


def test_the_error_names_a_changed_package(mini: Mini, bundle: Path) -> None:
    def change(members: Members) -> None:
        at = packages_in(members)[0]
        members[at] = (members[at][0], members[at][1][:-1] + b"!")

    rewritten(bundle, change)
    before = bundle.read_bytes()
    said = refusal(mini)
    assert "mini5-" in said
    assert "has changed" in said
    assert "sha256sum" in said
    assert bundle.read_bytes() == before


@pytest.mark.parametrize("from_manifest", [False, True])
def test_the_error_names_a_missing_package(mini: Mini, bundle: Path, from_manifest: bool) -> None:
    def remove(members: Members) -> None:
        info, _ = members.pop(packages_in(members)[0])
        if from_manifest:
            manifest = manifest_in(members)
            del manifest["files"][info.name]
            put_manifest(members, manifest)

    rewritten(bundle, remove)
    assert "does not contain `mini5-" in refusal(mini)


def test_the_error_names_a_package_of_the_wrong_size(mini: Mini, bundle: Path) -> None:
    def append(members: Members) -> None:
        at = packages_in(members)[0]
        members[at][0].size += 1
        members[at] = (members[at][0], members[at][1] + b"!")

    rewritten(bundle, append)
    assert re.search("`mini5-.*its size is different", refusal(mini))


@pytest.mark.parametrize("text", [b"{", b'{"schema": 1}', b"[]"])
def test_the_error_names_a_damaged_manifest_and_the_remedy(mini: Mini, bundle: Path, text: bytes) -> None:
    def damage(members: Members) -> None:
        members[0][0].size = len(text)
        members[0] = (members[0][0], text)

    rewritten(bundle, damage)
    said = refusal(mini)
    assert "is damaged" in said
    assert "MANIFEST.json" in said
    assert "sha256sum lab.tar" in said


def test_a_package_cannot_be_the_lock_of_an_env(mini: Mini, bundle: Path) -> None:
    """A package may be missing or of any size, so a lock there would escape the checks for locks."""

    def change(members: Members) -> None:
        manifest = manifest_in(members)
        at = packages_in(members)[0]
        manifest["envs"] = {"lab": members.pop(at)[0].name}
        put_manifest(members, manifest)

    rewritten(bundle, change)
    assert "is not in `locks/`" in refusal(mini)


def test_an_empty_copy_of_a_bundle_is_rejected(mini: Mini, bundle: Path) -> None:
    bundle.write_bytes(b"")
    assert "neither a lock nor a bundle" in refusal(mini)


def test_a_changed_lock_in_a_bundle_is_rejected(mini: Mini, bundle: Path) -> None:
    bundle.write_bytes(bundle.read_bytes().replace(b'"gfx1100"', b'"gfx1101"'))
    assert "has changed" in refusal(mini)


def test_a_truncated_bundle_is_rejected(mini: Mini, bundle: Path) -> None:
    content = bundle.read_bytes()
    for size in (len(content) - 1024, len(content) // 2, 700, 512):
        bundle.write_bytes(content[:size])
        assert "is truncated" in refusal(mini)


def test_a_tar_file_that_is_not_a_bundle_is_rejected(mini: Mini) -> None:
    with tarfile.open(mini.root / "lab.tar", "w") as archive:
        archive.add(mini.root / "profiles" / "mini.toml", "data.json")
    assert "not a bundle" in refusal(mini)
    prefixed = bytearray(member("MANIFEST.json")[0].tobuf(tarfile.USTAR_FORMAT))
    prefixed[345:350] = b"locks"  # found by fuzzing: the name is `locks/MANIFEST.json`
    (mini.root / "lab.tar").write_bytes(with_sum(prefixed) + bytes(1024))
    assert "not a bundle" in refusal(mini)


@pytest.mark.parametrize("name", ["lab.tar", "lab.tar.gz", "lab.tgz"])
def test_a_compressed_bundle_is_rejected_with_the_remedy(mini: Mini, bundle: Path, name: str) -> None:
    content = bundle.read_bytes()
    bundle.unlink()
    (mini.root / name).write_bytes(gzip.compress(content))
    done = elsewhere(mini, "lab", file=name)
    assert done.returncode == 1
    (command,) = re.findall("decompress it first: `(.*)`", done.stderr)
    subprocess.run(["sh", "-c", command], cwd=mini.root, check=True)
    assert content in [each.read_bytes() for each in mini.root.glob("*.tar")]


def test_a_bundle_is_rejected_on_a_machine_with_an_older_c_library(mini: Mini, bundle: Path) -> None:
    """A bundle without a C library, from a newer machine. Its libraries would not load here."""
    rewritten(
        bundle, lambda members: with_lock(members, lambda lock: lock["components"][0].update(glibc="99.0"))
    )
    assert "requires glibc 99.0, but this machine has" in refusal(mini)


def with_sum(header: bytearray) -> bytes:
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def member(name: str, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, b""


@pytest.mark.parametrize(
    ("added", "why"),
    [
        (member("/etc/passwd"), "does not belong"),
        (member("../evil"), "does not belong"),
        (member("indices/../../evil"), "does not belong"),
        (member("indices/x", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "not a regular file"),
        (member("indices/x", type=tarfile.LNKTYPE, linkname="data.json"), "not a regular file"),
        (member("indices/x", type=tarfile.CHRTYPE), "not a regular file"),
        (member("indices/x", type=tarfile.GNUTYPE_SPARSE), "not a regular file"),
        (member("indices/x", type=tarfile.XHDTYPE), "not a regular file"),
        (member("data.json"), "twice"),
        (member("MANIFEST.json"), "twice"),
        (member("indices/x"), "does not list"),
    ],
    ids=lambda value: value[0].name if isinstance(value, tuple) else "",
)
def test_hostile_members_are_rejected(bundle: Path, added: tuple[tarfile.TarInfo, bytes], why: str) -> None:
    with bundle.open("r+b") as out:
        out.seek(-1024, os.SEEK_END)
        out.write(added[0].tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(RocenvError, match=why):
        open_bundle(bundle)


def test_giant_sizes_are_rejected_with_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.tar"
    for size, why in ((1 << 40, "truncated"), (1 << 30, "too large"), (1 << 62, "truncated")):
        with path.open("wb") as out:
            out.write(member("MANIFEST.json", size=size)[0].tobuf(tarfile.GNU_FORMAT))
            out.truncate(min(size, 1 << 30) + 2048)  # sparse
        with pytest.raises(RocenvError, match=why):
            open_bundle(path)
    deep = b"[" * (3 << 20)
    with tarfile.open(path, "w") as archive:
        info = member("MANIFEST.json", size=len(deep))[0]
        archive.addfile(info, io.BytesIO(deep))
    with pytest.raises(RocenvError, match="nested"):
        open_bundle(path)


def test_reading_a_bundle_takes_little_memory(tmp_path: Path) -> None:
    """Measured in a new process, because the test process already uses a lot of memory."""
    path = tmp_path / "many.tar"
    with path.open("wb") as out:
        out.write(member("MANIFEST.json")[0].tobuf(tarfile.GNU_FORMAT))
        out.writelines(member(f"indices/{number}")[0].tobuf(tarfile.GNU_FORMAT) for number in range(200_000))
    code = (
        "import resource, sys, pathlib\n"
        "from rocenv.install.bundle import open_bundle\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: open_bundle(pathlib.Path(sys.argv[1]))\n"
        "except Exception as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    message, grown_kb = done.stdout.splitlines()
    assert "too many members" in message
    assert int(grown_kb) < 50_000
