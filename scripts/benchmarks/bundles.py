"""The time it takes to write a bundle and to create an env from it."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from benchmarks.create import wipe
from benchmarks.measure import MB, at_most, middle, progress, ratio, remove, settle

if TYPE_CHECKING:
    from benchmarks.measure import Bench, Figure, Run

_SET = ("--rocm", "6.4", "--target", "gfx1100", "--yes", "--no-verify")


def figures(bench: Bench) -> list[Figure]:
    """Compare `bundle` with tar and sha256sum, and `create` from a bundle with `create` from packages."""
    if not (bench.home / "envs" / "lab").exists():
        bench.run(bench.rocenv, "create", "lab", *_SET)
    lock = bench.folder / "lab.lock"
    bench.run(bench.rocenv, "lock", "lab", "-o", str(lock))
    artifacts = [each for part in json.loads(lock.read_text())["components"] for each in part["artifacts"]]
    names = sorted(each["sha256"] for each in artifacts)
    packages = [bench.home / "cache" / "artifacts" / name for name in names]
    bundle, archive = bench.folder / "lab.tar", bench.folder / "plain.tar"
    words = shlex.join(names)
    by_tar = f"cd {shlex.quote(str(packages[0].parent))} && tar -cf {shlex.quote(str(archive))} {words}"
    by_tar += f" && sha256sum {words}"
    runs: dict[str, list[Run]] = {"bundle": [], "tar": [], "from bundle": [], "from packages": []}
    for _ in range(bench.repetitions):
        for name, argv in (
            ("bundle", (bench.rocenv, "bundle", "lab", "-o", str(bundle))),
            ("tar", ("sh", "-c", by_tar)),
        ):
            remove(bundle if name == "bundle" else archive)
            settle(packages)
            runs[name].append(bench.run(*argv))
    other = bench.folder / "elsewhere"
    for _ in range(bench.repetitions):
        remove(other)
        settle([bundle])
        create = ("create", "lab", "--yes", "--no-verify", "--offline", "--from")
        home = f"ROCENV_HOME={other}"
        runs["from bundle"].append(bench.run("env", home, bench.rocenv, *create, str(bundle)))
        wipe(bench)
        settle(packages)
        runs["from packages"].append(bench.run(bench.rocenv, *create, str(lock)))
    progress(runs)
    ours, tar, bundled, fetched = (middle(each) for each in runs.values())
    files = f"of its {len(packages)} packages"
    return [
        ratio("bundle the 6.4 set", ours.seconds, "s", f"tar and sha256sum {files}", tar.seconds, 1.3),
        at_most("its peak memory", ours.peak_bytes / MB, "MB", 150),
        ratio(
            "create from a bundle, new home",
            bundled.seconds,
            "s",
            "create from a lock and fetched packages",
            fetched.seconds,
            1.1,
        ),
        at_most("its peak memory", bundled.peak_bytes / MB, "MB", 300),
    ]
