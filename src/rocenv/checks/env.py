"""Env checks: files, Python, GPU, and last verification.

Quick checks compare the presence, size and type of all files, and the hashes of the libraries that replace
CUDA's. Only the slow check hashes the other files.
"""

from __future__ import annotations

import datetime
import os
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError, PrefixError, RocenvError
from rocenv.core.model import Machine
from rocenv.core.variables import VISIBLE
from rocenv.findings import Observation, set_known_to_fail
from rocenv.install import store
from rocenv.integrity import differences, replaced_packages
from rocenv.prefix import all_prefixes
from rocenv.preload import preload, shims_of, zluda_of
from rocenv.presence import damaged, lost_files
from rocenv.resolve.request import rebuild_command
from rocenv.resolve.verdicts import known_broken
from rocenv.system.machine import list_folder, machine_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocenv.checks.context import CheckContext, Env
    from rocenv.core.model import FileEntry
    from rocenv.integrity import Replaced
    from rocenv.prefix import Prefix

_SHOWN = 10
_TORCH = ("torch", "torchvision", "torchaudio")
_MODULES = ("updates/dkms", "extra", "kernel/drivers/gpu/drm/amd/amdgpu")  # where amdgpu may be installed


def env_unusable(context: CheckContext) -> tuple[Observation, ...]:
    """An env is incomplete, was renamed, or has a damaged record."""
    prefix = context.broken or (context.env.prefix if context.env else None)
    # An unusable env is an error only if it is the env to check.
    severity = "error" if prefix else ""
    found = []
    for each in [prefix] if prefix else all_prefixes(context.home):
        if row := _row_of_state(each):
            found.append(Observation(row, {"env": each.name}, (str(each.path),), severity))
    return tuple(found)


def _row_of_state(prefix: Prefix) -> str:
    state = prefix.state
    if state != "complete":
        return "env_incomplete" if state == "incomplete" else "env_foreign"
    try:
        prefix.files(prefix.record())
    except PrefixError as error:
        return "env_foreign" if error.code == "env-link" else "env_moved"
    except (RocenvError, ValueError):
        return "env_record_damaged"
    return ""


def env_shims_missing(context: CheckContext) -> Observation | None:
    """Files from which ZLUDA is loaded are missing or changed."""
    env = context.the_env
    if env.record.lock.part("zluda") is None:
        return None
    files = files_of(env)
    hashed = _hashed_shims(env)
    wrong = damaged(env.prefix.path, {path: files[path] for path in _shims(env, files) if path in files})
    whole = {path: files[path] for path in hashed if path in files and path not in wrong}
    wrong |= differences(env.prefix.path, whole)
    return _wrong_files("env_shims_missing", wrong, env)


def env_torch_replaced(context: CheckContext) -> Observation | None:
    """The env's PyTorch is not the locked build, usually because pip replaced it."""
    return _replaced("env_torch_replaced", context, lambda each: each.name in _TORCH)


def env_rocm_mixed(context: CheckContext) -> Observation | None:
    """Some ROCm wheels are from a different release than the locked one."""
    return _replaced("env_rocm_mixed", context, lambda each: each.part.kind == "rocm")


def _replaced(row: str, context: CheckContext, matches: Callable[[Replaced], bool]) -> Observation | None:
    env = context.the_env
    replaced = [each for each in replaced_packages(env.prefix.path, env.record.lock) if matches(each)]
    if not replaced:
        return None
    evidence = tuple(
        f"{each.name}: {each.found or 'ENOENT'}, lock: {each.locked}" for each in replaced[:_SHOWN]
    )
    values = {"env": env.name, "package": replaced[0].name, "locked": replaced[0].locked}
    values |= {"name": env.prefix.free_name(), "other": replaced[0].found}
    return Observation(row, values, evidence)


def env_files_missing(context: CheckContext) -> Observation | None:
    """Other files in the env are missing, have the wrong size, or link elsewhere.

    Before an app starts, all files are compared only if a main part of the env is missing, and the finding
    is only a warning, because the app may not need the files.
    """
    env = context.the_env
    wrong = _lost(env) if context.launch else damaged(env.prefix.path, files_of(env))
    shims = _shims(env, files_of(env)) if wrong else ()
    wrong = {path: what for path, what in wrong.items() if path not in shims}
    return _wrong_files("env_files_missing", wrong, env, severity="warning" if context.launch else "")


def env_files_changed(context: CheckContext) -> Observation | None:
    """Files in the env have the right size but the wrong content."""
    env = context.the_env
    files = files_of(env)
    wrong = damaged(env.prefix.path, files)
    rest = {path: entry for path, entry in files.items() if path not in wrong}
    return _wrong_files("env_files_changed", differences(env.prefix.path, rest), env)


def env_store_damaged(context: CheckContext) -> Observation | None:
    """A component of the env is damaged in the store, so new envs would get the damaged files."""
    home, env = context.home, context.the_env
    for part in env.record.lock.components:
        for artifact in part.artifacts:
            if not store.holds(home, artifact):
                continue
            folder = store.tree_of(home, artifact)
            try:
                wrong = damaged(folder, store.manifest_of(home, artifact))
            except DataError as error:
                wrong = {"manifest.json": error.message}
            if wrong:
                evidence = tuple(f"{path}: {what}" for path, what in list(wrong.items())[:_SHOWN])
                values = {"env": env.name, "folder": str(folder.parent)}
                return Observation("env_store_damaged", values, evidence)
    return None


def env_python_missing(context: CheckContext) -> Observation | None:
    """The env's Python or its base interpreter is missing; in `launch`, only if the command uses it."""
    env = context.the_env
    lock, path = env.record.lock, env.prefix.path
    venv = next((part.into for part in lock.components if part.layout and part.layout.python), "")
    python = path / lock.python
    is_needed = str(python) in context.launch.start.words if context.launch else bool(venv)
    if not is_needed or python.exists():
        return None
    base = os.readlink(python) if python.is_symlink() else ""
    if not (venv or lock.part("torch")):
        values = {"env": env.name, "another": env.prefix.free_name()}
        return Observation("env_without_python", values, (str(python),))
    values = {"env": env.name}
    # `repair` creates a missing venv but keeps the interpreter of an existing one.
    folder = venv or getattr(lock.part("torch"), "into", "")
    keeps_venv = bool(folder) and (path / folder / "pyvenv.cfg").exists()
    create = rebuild_command(env.prefix.free_name(), str(env.prefix.lock_file)) if keeps_venv else ""
    evidence = (f"{python} -> {base}" if base else str(python),)
    return Observation("env_python_missing", values, evidence, commands={"create": create})


def env_known_broken(context: CheckContext) -> Observation | None:
    """The env's set is known to fail, regardless of the driver."""
    env = context.the_env
    rows = [row for row in known_broken(env.record.lock, context.matrix) if not row.driver]
    if not rows:
        return None
    machine = Machine(platform=context.platform, driver=context.host.driver.release)
    app = context.launch.app if context.launch else ""
    return set_known_to_fail(env.prefix, env.record.lock, rows, context.matrix, machine, app)


def env_gpu_absent(context: CheckContext) -> Observation | None:
    """The machine has no GPU with the env's target."""
    env, gpus = context.the_env, context.host.gpus
    targets = [target for target in env.record.lock.targets if target]  # empty for a compiler
    if not targets or any(gpu.target in targets for gpu in gpus):
        return None
    there = ", ".join(gpu.target or gpu.name for gpu in gpus)
    values = {"env": env.name, "target": ", ".join(targets), "there": there}
    return Observation("env_gpu_absent", values, tuple(f"{gpu.name} {gpu.target}".strip() for gpu in gpus))


def env_gpu_hidden(context: CheckContext) -> Observation | None:
    """The first GPU that is visible to programs in the env does not have the env's target."""
    env = context.the_env
    lock = env.record.lock
    own = next((each.value for each in lock.environment if each.name == VISIBLE), "")
    environ = context.launch.start.environ if context.launch else context.environ
    value = (own if not context.launch else "") or environ.get(VISIBLE, "")
    wanted = context.host.visible_devices(*lock.targets) if lock.target else ""
    if not wanted or value.split(",")[0] == wanted.split(",")[0]:
        return None
    create = rebuild_command(env.prefix.free_name(), str(env.prefix.lock_file)) if own else ""
    values = {"env": env.name, "target": " / ".join(lock.targets), "visible": wanted, "set": value}
    evidence = (f"{VISIBLE}={value}",) if value else ()
    return Observation("env_gpu_hidden", values, evidence, commands={"create": create})


def env_never_verified(context: CheckContext) -> Observation | None:
    """The env was never verified."""
    env = context.the_env
    return None if env.prefix.verification() else Observation("env_never_verified", {"env": env.name})


def env_verify_failed(context: CheckContext) -> Observation | None:
    """The env failed its last verification."""
    env = context.the_env
    last = env.prefix.verification()
    if last is None or not last.broken:
        return None
    rung = last.broken[0]
    values = {"env": env.name, "rung": rung.rung, "code": str(rung.exit_code or "")}
    evidence = (f"{rung.rung}: {rung.detail}",) if rung.detail else ()
    return Observation("env_verify_failed", values, evidence)


def env_verified_without_gpu(context: CheckContext) -> Observation | None:
    """The last verification found no GPU, but the machine has one now."""
    env = context.the_env
    is_usable = any(gpu.usable and gpu.target in env.record.lock.targets for gpu in context.host.gpus)
    last = env.prefix.verification()
    if not is_usable or last is None or not last.no_device:
        return None
    return Observation("env_verified_without_gpu", {"env": env.name})


def env_verified_before_driver(context: CheckContext) -> Observation | None:
    """The kernel's GPU driver was installed after the last verification."""
    env = context.the_env
    driver_s = None if context.elsewhere else _driver_installed_s(context.host.driver.kernel)
    last = env.prefix.verification()
    if driver_s is None or last is None or not last.when:
        return None
    if datetime.datetime.fromisoformat(last.when).timestamp() >= driver_s:
        return None
    installed = datetime.datetime.fromtimestamp(driver_s, datetime.timezone.utc)
    evidence = (f"verified {last.when}", f"amdgpu {installed.isoformat(timespec='seconds')}")
    return Observation("env_verified_before_driver", {"env": env.name}, evidence)


def _driver_installed_s(kernel: str) -> float | None:
    """When the running kernel's amdgpu was installed: its ctime. Its mtime is the package's build time."""
    for folder in (f"/lib/modules/{kernel}/{each}" for each in _MODULES if kernel):
        for name in list_folder(folder):
            if name.startswith("amdgpu.ko"):
                return machine_path(f"{folder}/{name}").stat().st_ctime
    return None


def files_of(env: Env) -> dict[str, FileEntry]:
    """The files in the env's record, or {} if the record is damaged, which `env_unusable` reports."""
    try:
        return env.prefix.files(env.record)
    except (RocenvError, ValueError):
        return {}


def _lost(env: Env) -> dict[str, str]:
    try:
        return lost_files(env.prefix, env.record)
    except (RocenvError, ValueError):  # `env_unusable` reports this
        return {}


def _shims(env: Env, files: Mapping[str, FileEntry]) -> frozenset[str]:
    """The files from which ZLUDA is loaded."""
    preloaded = preload(env.record.lock, files, in_torch=env.record.shims_in_torch)
    return _hashed_shims(env) | frozenset(preloaded)


def _hashed_shims(env: Env) -> frozenset[str]:
    """The libraries that replace CUDA's.

    The AMD libraries that they load are too large to hash every time.
    """
    lock = env.record.lock
    build = zluda_of(lock)
    drivers = (f"{build.into}/{name}" for name in build.shims.driver) if build and build.shims else ()
    return frozenset({*drivers, *(shim.path for shim in shims_of(lock, in_torch=env.record.shims_in_torch))})


def _wrong_files(row: str, wrong: Mapping[str, str], env: Env, severity: str = "") -> Observation | None:
    if not wrong:
        return None
    values = {"env": env.name, "file": next(iter(wrong)), "count": str(len(wrong))}
    evidence = tuple(f"{path}: {what}" for path, what in list(wrong.items())[:_SHOWN])
    return Observation(row, values, evidence, severity)
