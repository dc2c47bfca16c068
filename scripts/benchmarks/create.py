"""The time, memory, and disk space needed to create envs, compared with the system's own tools."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from benchmarks.measure import MB, SET, Figure, NotMeasured, at_most, middle, progress, ratio, remove, settle

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.measure import Bench, Run


def figures(bench: Bench) -> list[Figure]:
    """Download the set and create envs; the env `first` remains for the other benchmarks."""
    packages = fetched(bench)
    found = [*first_env(bench, packages), *second_env(bench)]
    wipe(bench)
    settle(packages)
    found.append(Figure(what="create and verify", ours=bench.create("verified").seconds, unit="s"))
    bench.create("first", "--no-verify")
    return found


def fetched(bench: Bench) -> list[Path]:
    """Download the set's missing packages, and return all of its packages."""
    bench.run(bench.rocenv, "create", "fetch", *SET, "--yes", "--no-verify")
    lock = json.loads((bench.home / "envs" / "fetch" / "rocenv.lock").read_text())
    artifacts = [artifact for part in lock["components"] for artifact in part["artifacts"]]
    return [bench.home / "cache" / "artifacts" / artifact["sha256"] for artifact in artifacts]


def first_env(bench: Bench, packages: list[Path]) -> list[Figure]:
    """Compare creating the first env with unpacking the same packages using the system's tools."""
    member = bench.folder / "data.tar.xz"
    write_data_member(max(packages, key=lambda path: path.stat().st_size), member)
    tree = bench.folder / "dpkg"
    runs: dict[str, list[Run]] = {"create": [], "dpkg": [], "xz": []}
    for _ in range(bench.repetitions):
        wipe(bench)
        settle(packages)
        runs["create"].append(bench.create("first", "--no-verify"))
        settle(packages)
        dpkg = " && ".join(f'dpkg -x "{path}" "{tree}"' for path in packages)
        runs["dpkg"].append(bench.run("sh", "-c", dpkg))
        remove(tree)
        settle([member])
        runs["xz"].append(bench.run("xz", "-dc", "-T2", str(member)))
        progress(runs)
    create, dpkg_run, xz = (middle(runs[name]) for name in ("create", "dpkg", "xz"))
    what = "create, packages downloaded, store empty"
    by_dpkg = f"dpkg -x of its {len(packages)} packages, one at a time"
    return [
        ratio(what, create.seconds, "s", by_dpkg, dpkg_run.seconds, 0.95),
        ratio(f"{what}, processor time", create.cpu_seconds, "s", by_dpkg, dpkg_run.cpu_seconds),
        ratio(what, create.seconds, "s", "xz -dc -T2 of the largest data member alone", xz.seconds, 2),
        at_most("its peak memory", create.peak_bytes / MB, "MB", 300),
    ]


def second_env(bench: Bench) -> list[Figure]:
    """Compare creating a second env from the same set with hard-linking the first env's tree."""
    envs = bench.home / "envs"
    runs: dict[str, list[Run]] = {"second": [], "cp": []}
    for _ in range(3 * bench.repetitions):
        remove(envs / "second")
        settle([])
        runs["second"].append(bench.create("second", "--no-verify"))
        remove(bench.folder / "copy")
        settle([])
        runs["cp"].append(bench.run("cp", "-al", str(envs / "first"), str(bench.folder / "copy")))
    progress(runs)
    copy = middle(runs["cp"]).seconds
    own, folders = new_bytes(envs / "second")
    return [
        Figure(
            what="a second env with the same set",
            ours=middle(runs["second"]).seconds,
            unit="s",
            reference="cp -al of the first env",
            reference_value=copy,
            goal="<= 1.5 x + 0.2 s",
            limit=1.5 * copy + 0.2,
        ),
        at_most(
            f"disk space that it adds: own files {own / MB:.2f} MB, folders {folders / MB:.2f} MB",
            (own + folders) / MB,
            "MB",
            1,
        ),
    ]


def wipe(bench: Bench) -> None:
    """Remove the store and the envs, but not the downloads."""
    for part in ("envs", "store"):
        remove(bench.home / part)


def write_data_member(package: Path, target: Path) -> None:
    """Write the data member of a .deb, which is an ar archive, to a file."""
    with package.open("rb") as stream:
        stream.seek(8)
        while header := stream.read(60):
            name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
            if name == "data.tar.xz":
                with target.open("wb") as out:
                    while size:
                        out.write(chunk := stream.read(min(size, 1 << 20)))
                        size -= len(chunk)
                return
            stream.seek(size + size % 2, os.SEEK_CUR)
    raise NotMeasured(f"`{package}` does not contain data.tar.xz")


def new_bytes(tree: Path) -> tuple[int, int]:
    """Return the disk space that a tree does not share with others: (files with one link, folders)."""
    own = folders = 0
    for path in (tree, *tree.rglob("*")):
        info = path.lstat()
        if path.is_dir() and not path.is_symlink():
            folders += info.st_blocks * 512
        elif info.st_nlink == 1:
            own += info.st_blocks * 512
    return own, folders
