"""The rule of each table of the dossiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dossiers import shapes
from dossiers.combinations import combination
from dossiers.lookup import carried, fact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dossiers.lookup import Check

# Dossier -> its table -> (table of profiles/, what looks a row up there).
RULES: Mapping[str, Mapping[str, tuple[str, Check]]] = {
    "rocm": {
        "gfx_target": ("target", shapes.target),
        "generic_target": ("generic_target", carried("generic_target", "name", "members version note")),
        "pci": ("pci", carried("pci", "device", "target=gfx products codename", revision="")),
        "rocm_release": ("release", shapes.release),
        "support": ("support", shapes.support),
        "rocblas_targets": ("kernels", carried("kernels", "rocm kind", "targets")),
        "os_kernel": ("system_kernel", carried("system_kernel", "rocm os", "kernels=kernel")),
        "override": (
            "override",
            carried("override", "target=real value", "runs_as=masquerade verdict=status"),
        ),
        "override_rule": ("fact", fact("override", "{value}", "{key}")),
        "torch": ("torch", shapes.torch),
        "torch_wheel": ("fact", shapes.torch_wheel),
        "torch_known_issue": ("verdict", shapes.known_issue),
        "index": ("index", shapes.index),
        "therock_package": ("fact", fact("therock", "{name}: {role}", "{name}")),
        "therock_size": (
            "fact",
            fact(
                "therock",
                "{what} for {device}: {download_gb} GB to fetch, {installed_gb} GB installed",
                "size {device}",
            ),
        ),
        "repo_fact": ("fact", fact("repository", "{value}", "{key}")),
        "kmd_compat": ("driver_pair", shapes.driver_pair),
        "userspace_compat": ("driver_pair", shapes.driver_pair),
        "amdgpu_train": ("driver_train", carried("driver_train", "amdgpu", "rocm")),
        "incident": ("incident", shapes.incident),
        "env": (
            "variable",
            carried(
                "variable",
                "name",
                "value=default fragile=fragile_on_nfs_or_ro_home folder=suggested_subdir",
                by="rocm",
            ),
        ),
        "lib": ("library", shapes.library),
    },
    "zluda": {
        "zluda_build": ("zluda", shapes.zluda),
        "zluda_dll_hash": ("dll_hash", carried("dll_hash", "tag file", "size_bytes=bytes sha256")),
        "zluda_link": ("dll_needs", carried("dll_needs", "file needs crate")),
        "shim": (
            "shim",
            carried(
                "shim",
                "app file=zluda_file stands_for=target_file torch_flavour",
                "location method condition order",
            ),
        ),
        "shim_undo": ("fact", fact("shim", "{app}: {how}", "undo")),
        "torch_dll_names": ("dll_names", shapes.dll_names),
        "env": ("variable", carried("variable", "name", "value set_by", by="zluda")),
        "torch_setting": ("fact", fact("torch-setting", "{name} = {value} ({set_by})", "{name}")),
        "torch_pin": (
            "pin",
            carried(
                "pin", "app torch when", "index=index_url python torchvision torchaudio extra=extra_pins"
            ),
        ),
        "torch_rule": ("fact", fact("torch", "{rule}")),
        "hip_sdk": ("hip_sdk", shapes.hip_sdk),
        "hip_install_fact": ("fact", fact("hip-sdk", "{fact}")),
        "hip_dll": ("hip_sdk", shapes.hip_dll),
        "hip_dll_driver": ("fact", fact("hip-sdk", "{fact}")),
        "hip_gfx": ("support", shapes.windows_support),
        "rocblas_lib": ("pack", shapes.pack),
        "rocblas_install_fact": ("fact", fact("pack", "{fact}")),
        "hip_extension": ("extension", carried("extension", "name", "rocm=for_hip zluda=for_zluda contents")),
        "gpu_gfx": ("gpu_name", carried("gpu_name", "title=gpu", "target=gfx")),
        "gpu_gfx_conflict": ("fact", fact("gpu-names", "{fact}")),
        "app": ("app", shapes.app),
        "therock_index": ("rocm_wheels", shapes.wheels),
        "combo": ("verdict", combination),
        "incident": ("incident", shapes.incident),
        "zluda_cli": ("fact", fact("zluda", "{fact}")),
    },
}
