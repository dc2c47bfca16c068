"""Tables of another shape in `profiles/` than in the dossiers: rows that were split, joined or reworded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dossiers.lookup import Fault, one, plain, same
from rocenv.data.checks import series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dossiers.lookup import Row
    from rocenv.data.rows import Matrix


def target(row: Row, matrix: Matrix) -> None:
    found = one(matrix, "target", {"name": row["name"]})
    same(found, {name: row[name] for name in ("arch", "wave", "products", "codename", "memory", "gc_ip")})
    same(found, {"kfd": row.get("kfd_gfx_target_version"), "kind": "apu" if row["kind"] == "apu" else "card"})
    same(found, {"generic": row["llvm_generic"], "family": row["therock_family"]})


def release(row: Row, matrix: Matrix) -> None:
    found = one(matrix, "release", {"version": row["version"], "channel": row["channel"]})
    same(found, {name: row.get(name) for name in ("deb_build", "apt_dir", "note")})
    named = {
        name: row.get(name) for name in ("hip", "rocblas", "miopen", "hipblas", "hipblaslt", "comgr", "rocr")
    }
    parts = {name: str(value) for name, value in {**named, "llvm": row.get("llvm_major")}.items() if value}
    if found.parts != parts:
        raise Fault(f"`parts` is {found.parts!r}, and {parts!r} in the dossier")


def support(row: Row, matrix: Matrix) -> None:
    require_support(matrix, "linux", row["rocm"], row["level"], [row["gfx"]])


def require_support(matrix: Matrix, platform: str, rocm: str, level: str, targets: Iterable[str]) -> None:
    levels = {
        target: found.level
        for found in matrix.support
        if (found.platform, found.rocm) == (platform, rocm)
        for target in found.targets
    }
    for target in targets:
        if levels.get(target) != level:
            raise Fault(f"{rocm} {level} {target}: here it is {levels.get(target, 'nothing')}")


def windows_support(row: Row, matrix: Matrix) -> None:
    rocm = series(row["hip_sdk"])
    bare = {
        name: [re.split("[ :]", text)[0] for text in row.get(name, ())] for name in row if name != "source"
    }
    require_support(matrix, "windows", rocm, "official", bare["sdk_supported"])
    require_support(matrix, "windows", rocm, "runtime", bare["runtime_only"])
    # What its files hold counts for more than the list of what is not supported.
    only_files = [target for target in bare.get("libs_shipped", ()) if target not in bare["sdk_supported"]]
    require_support(matrix, "windows", rocm, "libraries", only_files)
    unsupported = [target for target in bare["listed_unsupported"] if target not in only_files]
    require_support(matrix, "windows", rocm, "unsupported", unsupported)


def torch(row: Row, matrix: Matrix) -> None:
    found = one(matrix, "torch", {"version": row["torch"], "rocm": row["rocm"]})
    companions = {name: row[name] for name in ("torchvision", "torchaudio") if row[name]}
    values = {"index": row["index"], "python": row["python"], "triton": row["triton"]}
    values |= {"glibc": "2.28" if "manylinux_2_28" in row["platform_tag"] else ""}
    # Against its own lists of what the rocBLAS of 6.2 holds, the dossier has these two in one wheel with it.
    wrong = {"gfx1200", "gfx1201"} if (row["torch"], row["rocm"]) == ("2.7", "6.2.4") else set()
    targets = [target for target in row["archs_with_blas"] if target not in wrong]
    values |= {"targets": targets, "released": row["status"] == "released"}
    same(found, values)
    if plain(found.compiled or found.targets) != plain(row["archs"]) or dict(found.companions) != companions:
        raise Fault("`compiled` or `companions` differ from the dossier")


def torch_wheel(row: Row, matrix: Matrix) -> None:
    told = [str(row[name]) for name in ("file", "size_mb", "sha256") if row.get(name)]
    wheels = [fact.text for fact in matrix.fact if (fact.about, fact.key) == ("torch", "wheel")]
    if not any(all(text in wheel for text in told) for wheel in wheels):
        raise Fault(f"not there: {row['file']}")


def index(row: Row, matrix: Matrix) -> None:
    found = one(matrix, "index", {"name": row["name"]})
    same(found, {"platforms": row["platforms"], "note": row["note"]})
    # A mirror of Debian is whichever the machine has.
    same(found, {"url": re.sub(r"^\{debian-mirror\}/", "debian:", row["url"])})


def library(row: Row, matrix: Matrix) -> None:
    found = one(matrix, "library", {"component": row["component"]})
    same(found, {name: [text.split(" ")[0] for text in row[name]] for name in ("linux", "windows")})


def app(row: Row, matrix: Matrix) -> None:
    found = one(matrix, "app", {"name": row["name"]})
    same(found, {name: row[name] for name in ("repo", "launch", "zluda_dir", "shim", "zluda", "torch")})
    several = {name: row.get(name, []) for name in ("hip", "hip_unsupported", "python")}
    same(found, {name: [text] if isinstance(text, str) and text else text for name, text in several.items()})


def dll_names(row: Row, matrix: Matrix) -> None:
    found = one(matrix, "dll_names", {"torch_flavour": row["torch_flavour"]})
    same(found, {"names": [text.split(" ")[0] for text in row["names"]]})


def driver_pair(row: Row, matrix: Matrix) -> None:
    drivers = row["kmd"] if "kmd" in row else [row["kmd_rocm"]]
    rocm = row["userspace"] if isinstance(row["userspace"], list) else [row["userspace"]]
    one(matrix, "driver_pair", {"drivers": drivers, "rocm": rocm})


def incident(row: Row, matrix: Matrix) -> None:
    found = one(matrix, "incident", {"code": row["id"].replace("ROCm/ROCm#", "rocm-")})
    said = " ".join((found.text, found.title, *found.facts.values()))
    for name in ("gpu", "opened", "closed", "date", "state", "torch", "works_with", "rocm", "os", "kernel"):
        value = row.get(name, "")
        for text in value if isinstance(value, list) else [value]:
            if text.split(" (")[0] not in said:
                raise Fault(f"{found.code} does not say {name} = {text!r}")


def zluda(row: Row, matrix: Matrix) -> None:
    tag = row["tag"] if re.fullmatch(r"[\w.-]+", row["tag"]) else ""
    commit = row["commit"].replace("unknown", "")
    found = one(matrix, "zluda", {"project": row["repo"].partition("/")[0], "tag": tag, "commit": commit})
    theirs = {"url": "url_pattern", "cuda": "reports_cuda_driver", "capability": "reports_compute_capability"}
    theirs |= {"nightly_files": "nightly_extra_files", "nightly_note": "nightly_confidence"}
    theirs |= {name: name for name in ("built_against", "default_in")}
    same(found, {ours: row.get(name) for ours, name in theirs.items()})
    if row["version"] not in (found.title, found.version):
        raise Fault(
            f"{tag}: it is called {found.title or found.version}, and {row['version']} in the dossier"
        )
    begins(found, {"date": row.get("date", ""), "caveats": row["caveats"]})
    lost = {name for name in row.get("archive_files", ()) if re.fullmatch(r"[\w*]+\.(dll|exe)", name)}
    if not lost <= set(found.files):
        raise Fault(f"{tag}: `files` lacks {lost - set(found.files)}")
    names = {text.split(" ")[0] for text in row["assets"]}
    if {asset.name for asset in found.assets} != names:
        raise Fault(f"{tag}: its assets are {names} in the dossier")
    hashed = row.get("sha256_of", "").split(" ")[0]
    if hashed and row["sha256"] not in [asset.sha256 for asset in found.assets if asset.name == hashed]:
        raise Fault(f"{tag}: the sha256 of {hashed} differs")
    served = {each for asset in found.assets for each in asset.rocm}
    for text in row["works_with_hip_sdk"] if found.assets else ():
        rocm = text.split(" ")[0].removesuffix(".x")
        if rocm[0].isdigit() and rocm not in served:
            raise Fault(f"{tag}: no asset serves HIP SDK {rocm}")


def begins(found: Any, values: Row) -> None:
    """Raise Fault where a text says more or other than the dossier; remarks at its end may be left out."""
    for name, value in values.items():
        if not value.startswith(getattr(found, name)):
            raise Fault(f"`{name}` is {getattr(found, name)!r}, and {value!r} in the dossier")


def hip_sdk(row: Row, matrix: Matrix) -> None:
    found = one(matrix, "hip_sdk", {"version": row["version"]})
    names = [text.split(" ")[0] for text in row["env"]]
    same(found, {"variables": names, "msi_path": row.get("msi_path", "").strip()})
    same(
        found, {name: row.get(name) for name in ("installer", "url", "server_installer", "os", "install_dir")}
    )


def hip_dll(row: Row, matrix: Matrix) -> None:
    found = next((sdk for sdk in matrix.hip_sdk if series(sdk.version) == row["hip_sdk"]), None)
    if found is None:
        raise Fault(f"no HIP SDK {row['hip_sdk']}")
    theirs = {"runtime": "runtime", "comgr": "comgr", "hiprtc": "hiprtc", "libraries": "libs"}
    theirs["not_included"] = "not_included"
    same(found, {ours: [text.split(" ")[0] for text in row[name]] for ours, name in theirs.items()})


def pack(row: Row, matrix: Matrix) -> None:
    absent = row["asset"].startswith("none")
    is_named = not absent and not row["asset"].startswith("exact file name not seen")
    targets = row["gfx"] if isinstance(row["gfx"], list) else [row["gfx"]]
    targets = [target for target in targets if re.fullmatch(r"gfx[0-9a-f]+(:xnack[+-])?", target)]
    key = {"provider": row["provider"], "rocm": row["hip_sdk"].split(" and "), "absent": absent}
    if absent:  # the row may name more targets, which the dossier has in its prose
        if not set(targets) <= set(one(matrix, "pack", key).targets):
            raise Fault(f"absent for {targets}")
        return
    found = one(matrix, "pack", {**key, "asset": row["asset"] if is_named else "", "targets": targets})
    is_tag = re.fullmatch(r"v[\d.]+", row["tag"])
    same(found, {"url": row.get("url"), "sha256": row.get("sha256"), "tag": row["tag"] if is_tag else ""})


def wheels(row: Row, matrix: Matrix) -> None:
    found = one(matrix, "rocm_wheels", {"index": row["url"]})
    prefix = row["gfx"].split(" ")[0].split("/")[0].rstrip("X")
    if not all(target.startswith(prefix[:6]) for target in found.targets):
        raise Fault(f"{row['url']} is for {row['gfx']}")


def known_issue(row: Row, matrix: Matrix) -> None:
    targets = set(re.findall("gfx[0-9a-f]+", row["gfx"]))
    if not any(found.source == row["source"] and targets <= set(found.targets) for found in matrix.verdict):
        raise Fault(f"no verdict on {row['gfx']} from {row['source']}")
