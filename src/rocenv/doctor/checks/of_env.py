"""Checks of the env that was named, and of folders that should be envs and are not whole.

`CHECKS` are rows of the table. Files are compared by presence, size and kind; those
that stand for CUDA's also by hash. All others are hashed by the slow check alone, as `verify` does.
"""

from __future__ import annotations

import datetime
import os
from typing import TYPE_CHECKING

from rocenv.activate.shells import SHELLS
from rocenv.core.errors import DataError, PrefixError, RocenvError
from rocenv.core.model import Machine
from rocenv.core.variables import VISIBLE
from rocenv.doctor.check import Check
from rocenv.doctor.env_files import damaged, files_of, shims
from rocenv.doctor.seen import Seen
from rocenv.install import store
from rocenv.integrity import differences, replaced_packages
from rocenv.prefix import all_prefixes
from rocenv.preload import shims_of
from rocenv.resolve.request import rebuild_command
from rocenv.resolve.suggest import suggest_env
from rocenv.resolve.verdicts import known_broken
from rocenv.system.machine import list_folder, machine_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rocenv.doctor.scene import Env, Scene
    from rocenv.integrity import Replaced
    from rocenv.prefix import Prefix

_SHOWN = 10
_TORCH = ("torch", "torchvision", "torchaudio")
_MODULES = ("updates/dkms", "extra", "kernel/drivers/gpu/drm/amd/amdgpu")  # where the kernel has amdgpu


def env_unusable(scene: Scene) -> tuple[Seen, ...]:
    """Folders of envs that were never finished, were moved to another name, or have a damaged record."""
    asked = scene.named or (scene.asked.prefix if scene.asked else None)
    found = []
    for prefix in [asked] if asked else all_prefixes(scene.home):
        if tells := _state(prefix):
            # Of many envs one that is left over is no error; of the one that was named it is.
            found.append(Seen(tells, {"env": prefix.name}, (str(prefix.path),), grave=asked is not None))
    return tuple(found)


def _state(prefix: Prefix) -> str:
    """Return the row that tells of what is wrong with an env's folder as a whole, "" where nothing is."""
    state = prefix.state
    if state != "complete":
        return "env_incomplete" if state == "incomplete" else "env_foreign"
    try:
        prefix.files(prefix.record())
    except PrefixError:
        return "env_moved"
    except (RocenvError, ValueError):
        return "env_record_damaged"
    return ""


def env_moved_home(scene: Scene) -> Seen | None:
    """The scripts of the env name another place than where it lies, as after ROCENV_HOME was moved."""
    env = _asked(scene)
    path = str(env.prefix.path)
    shells = [shell for shell in SHELLS.values() if env.record.lock.platform in shell.platforms]
    texts = [text for shell in shells if (text := _read(env.prefix.path.joinpath(shell.file_name)))]
    # Each shell quotes odd characters in its own way.
    plain = all(char.isascii() and (char.isalnum() or char in r"/\:._- ") for char in path)
    if not plain or not texts or any(path in text for text in texts):
        return None
    return Seen("env_moved_home", {"env": env.name}, (path,))


def env_shims_missing(scene: Scene) -> Seen | None:
    """Files that ZLUDA is loaded from are missing or were changed."""
    env = _asked(scene)
    files = files_of(env)
    wanted = shims(env, files)
    wrong = damaged(env.prefix.path, {path: files[path] for path in wanted if path in files})
    hashed = {shim.path for shim in shims_of(env.record.lock, in_torch=env.record.shims_in_torch)}
    whole = {path: files[path] for path in hashed if path in files and path not in wrong}
    wrong |= differences(env.prefix.path, whole)
    return _files_seen("env_shims_missing", wrong, env)


def env_torch_replaced(scene: Scene) -> Seen | None:
    """Another build of PyTorch is in the env than the locked one, as pip brings it."""
    return _replaced_seen("env_torch_replaced", scene, lambda each: each.name in _TORCH)


def env_rocm_mixed(scene: Scene) -> Seen | None:
    """Packages of ROCm's wheels are of another release than the env's."""
    return _replaced_seen("env_rocm_mixed", scene, lambda each: each.part.kind == "rocm")


def _replaced_seen(tells: str, scene: Scene, concerns: Callable[[Replaced], bool]) -> Seen | None:
    env = _asked(scene)
    replaced = [each for each in replaced_packages(env.prefix.path, env.record.lock) if concerns(each)]
    if not replaced:
        return None
    evidence = tuple(
        f"{each.name}: {each.found or 'ENOENT'}, lock: {each.locked}" for each in replaced[:_SHOWN]
    )
    return Seen(tells, {"env": env.name, "package": replaced[0].name, "locked": replaced[0].locked}, evidence)


def env_files_missing(scene: Scene) -> Seen | None:
    """Other files of the env are missing, of another size, or links that lead elsewhere."""
    env = _asked(scene)
    files = files_of(env)
    own = shims(env, files)
    rest = {path: entry for path, entry in files.items() if path not in own}
    return _files_seen("env_files_missing", damaged(env.prefix.path, rest), env)


def env_files_changed(scene: Scene) -> Seen | None:
    """Files of the env that have their size and not their content."""
    env = _asked(scene)
    files = files_of(env)
    seen_before = damaged(env.prefix.path, files)
    rest = {path: entry for path, entry in files.items() if path not in seen_before}
    return _files_seen("env_files_changed", differences(env.prefix.path, rest), env)


def env_store_damaged(scene: Scene) -> Seen | None:
    """What the store keeps of the env's parts is not whole, so that new envs would not be either."""
    home, lock = scene.home, _asked(scene).record.lock
    for part in lock.components:
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
                found = {"env": _asked(scene).name, "folder": str(folder.parent)}
                return Seen("env_store_damaged", found, evidence)
    return None


def env_python_missing(scene: Scene) -> Seen | None:
    """The env's Python is gone, or the one that it was made from."""
    env = _asked(scene)
    parts = env.record.lock.components
    venv = next((part.into for part in parts if part.layout is not None and part.layout.python), "")
    python, lock = env.prefix.path / env.record.lock.python, str(env.prefix.lock_file)
    if not venv or python.exists():
        return None
    base = os.readlink(python) if python.is_symlink() else ""
    found = {"env": env.name}
    # `repair` makes a venv where there is none at all, and leaves one that is there to its Python.
    if (env.prefix.path / venv / "pyvenv.cfg").exists():
        found["create"] = rebuild_command(env.prefix.free_name(), lock)
    return Seen("env_python_missing", found, (f"{python} -> {base}" if base else str(python),))


def env_known_broken(scene: Scene) -> Seen | None:
    """What is known today calls the env's set broken, whatever the driver."""
    env = _asked(scene)
    rows = [row for row in known_broken(env.record.lock, scene.matrix) if not row.driver]
    if not rows:
        return None
    machine = Machine(platform=scene.platform, driver=scene.host.driver.release)
    create = suggest_env(env.record.lock, scene.matrix, machine, name=env.prefix.free_name())
    told = tuple(f"{row.what} (source: {row.source.partition(';')[0]})" for row in rows)
    return Seen("env_known_broken", {"env": env.name, "create": create}, told)


def env_gpu_absent(scene: Scene) -> Seen | None:
    """The machine has no GPU of the target that the env was made for."""
    env, host = _asked(scene), scene.host
    target = env.record.lock.target
    if not target or any(
        gpu.target in env.record.lock.targets for gpu in host.gpus
    ):  # a compiler is for no GPU
        return None
    there = ", ".join(gpu.target or gpu.name for gpu in host.gpus)
    found = {"env": env.name, "target": target, "there": there}
    return Seen("env_gpu_absent", found, tuple(f"{gpu.name} {gpu.target}".strip() for gpu in host.gpus))


def env_gpu_hidden(scene: Scene) -> Seen | None:
    """Programs in the env get another GPU first than the one that it was made for."""
    env = _asked(scene)
    target = env.record.lock.target
    own = next((each.value for each in env.record.lock.environment if each.name == VISIBLE), "")
    is_set = own or scene.environ.get(VISIBLE, "")
    wanted = scene.host.visible_devices(*env.record.lock.targets) if target else ""
    if not wanted or is_set.split(",")[0] == wanted.split(",")[0]:
        return None
    lock = str(env.prefix.lock_file)
    found = {"env": env.name, "target": target, "visible": wanted, "set": is_set}
    if own:
        found["create"] = rebuild_command(env.prefix.free_name(), lock)
    return Seen("env_gpu_hidden", found, (f"{VISIBLE}={is_set}",) if is_set else ())


def env_never_verified(scene: Scene) -> Seen | None:
    """Nothing has shown that the env works."""
    env = _asked(scene)
    return None if env.prefix.verification() else Seen("env_never_verified", {"env": env.name})


def env_verify_failed(scene: Scene) -> Seen | None:
    """The last verification did not pass."""
    env = _asked(scene)
    last = env.prefix.verification()
    if last is None or not last.broken:
        return None
    rung = last.broken[0]
    found = {"env": env.name, "rung": rung.rung, "code": str(rung.exit_code or "")}
    return Seen("env_verify_failed", found, (f"{rung.rung}: {rung.detail}",))


def env_verified_without_gpu(scene: Scene) -> Seen | None:
    """The last verification found no GPU, and there is one now."""
    env = _asked(scene)
    usable = any(gpu.usable and gpu.target in env.record.lock.targets for gpu in scene.host.gpus)
    last = env.prefix.verification()
    if not usable or last is None or not last.no_device:
        return None
    return Seen("env_verified_without_gpu", {"env": env.name})


def env_verified_before_driver(scene: Scene) -> Seen | None:
    """The kernel's GPU driver was installed after the last verification."""
    env = _asked(scene)
    driver_s = None if scene.elsewhere else _driver_installed_s(scene.host.driver.kernel)
    last = env.prefix.verification()
    if driver_s is None or last is None or not last.when:
        return None
    if datetime.datetime.fromisoformat(last.when).timestamp() >= driver_s:
        return None
    installed = datetime.datetime.fromtimestamp(driver_s, datetime.timezone.utc)
    evidence = (f"verified {last.when}", f"amdgpu {installed.isoformat(timespec='seconds')}")
    return Seen("env_verified_before_driver", {"env": env.name}, evidence)


def _driver_installed_s(kernel: str) -> float | None:
    """Return when amdgpu of the running kernel was put where it lies: packages keep the time of the build."""
    for folder in (f"/lib/modules/{kernel}/{each}" for each in _MODULES if kernel):
        for name in list_folder(folder):
            if name.startswith("amdgpu.ko"):
                return machine_path(f"{folder}/{name}").stat().st_ctime
    return None


def _asked(scene: Scene) -> Env:
    assert scene.asked is not None, "a check of an env is left out where none was named"
    return scene.asked


def _files_seen(tells: str, wrong: Mapping[str, str], env: Env) -> Seen | None:
    if not wrong:
        return None
    found = {"env": env.name, "file": next(iter(wrong)), "count": str(len(wrong))}
    return Seen(tells, found, tuple(f"{path}: {what}" for path, what in list(wrong.items())[:_SHOWN]))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


CHECKS: tuple[Check, ...] = (
    Check("env_unusable", env_unusable, "any", tells="env_incomplete"),
    Check("env_moved_home", env_moved_home, "any", of_env=True),
    Check("env_shims_missing", env_shims_missing, "any", of_env=True),
    Check("env_torch_replaced", env_torch_replaced, "any", of_env=True),
    Check("env_rocm_mixed", env_rocm_mixed, "any", of_env=True),
    Check("env_files_missing", env_files_missing, "any", of_env=True),
    Check("env_python_missing", env_python_missing, "any", of_env=True),
    Check("env_known_broken", env_known_broken, "any", of_env=True),
    Check("env_gpu_absent", env_gpu_absent, "any", of_env=True),
    Check("env_gpu_hidden", env_gpu_hidden, "any", of_env=True),
    Check("env_never_verified", env_never_verified, "any", of_env=True),
    Check("env_verify_failed", env_verify_failed, "any", of_env=True),
    Check("env_verified_without_gpu", env_verified_without_gpu, "any", of_env=True),
    Check("env_verified_before_driver", env_verified_before_driver, "linux", of_env=True),
    Check("env_store_damaged", env_store_damaged, "any", slow=True, of_env=True),
    Check("env_files_changed", env_files_changed, "any", slow=True, of_env=True),
)
