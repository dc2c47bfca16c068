"""All checks, in the order in which findings of equal severity are shown.

The rows in `profiles/checks/` contain the messages, and list the commands that run each check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocenv.checks import (
    app,
    arguments,
    caches,
    devices,
    env,
    kernel,
    machine,
    release,
    variables,
    windows,
    windows_files,
    wsl,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.checks.context import CheckContext
    from rocenv.findings import CheckResult


@dataclass(frozen=True, slots=True)
class Check:
    """A check, named after the fault that it finds, and the conditions under which it runs."""

    name: str
    function: Callable[[CheckContext], CheckResult]
    platform: Literal["linux", "windows", "any"]
    is_slow: bool = False
    needs_env: bool = False  # skipped if there is no env to check
    each_env: bool = False  # `doctor` runs it for every env if no env was specified, so it must be quick


CHECKS: tuple[Check, ...] = (
    Check("no_gpu", devices.no_gpu, "linux"),
    Check("wsl_without_gpu", wsl.wsl_without_gpu, "linux"),
    Check("wsl_windows_silent", wsl.wsl_windows_silent, "linux"),
    Check("wsl_driver_old", wsl.wsl_driver_old, "linux"),
    Check("wsl_gpu_unlisted", wsl.wsl_gpu_unlisted, "linux"),
    Check("wsl_without_runtime", wsl.wsl_without_runtime, "linux"),
    Check("wsl_env_without_library", wsl.wsl_env_without_library, "linux", needs_env=True),
    Check("wsl_detection_off", wsl.wsl_detection_off, "linux"),
    Check("kfd_closed", devices.kfd_closed, "linux"),
    Check("render_node_closed", devices.render_node_closed, "linux"),
    Check("kfd_refuses", devices.kfd_refuses, "linux"),
    Check("container_without_devices", devices.container_without_devices, "linux"),
    Check("gpu_never_supported", devices.gpu_never_supported, "linux"),
    Check("gpu_without_driver", devices.gpu_without_driver, "linux"),
    Check("kfd_missing", devices.kfd_missing, "linux"),
    Check("gpu_not_set_up", devices.gpu_not_set_up, "linux"),
    Check("gpu_left_out", kernel.gpu_left_out, "linux"),
    Check("driver_apart", kernel.driver_apart, "linux"),
    Check("kernel_too_old_for_env", kernel.kernel_too_old_for_env, "linux"),
    Check("igpu_first", devices.igpu_first, "any"),
    Check("gpus_hidden", devices.gpus_hidden, "any"),
    Check("override_wrong", variables.override_wrong, "linux"),
    Check("rocm_path_stale", variables.rocm_path_stale, "linux"),
    Check("rocm_paths_differ", variables.rocm_paths_differ, "linux"),
    Check("two_rocms", variables.two_rocms, "linux"),
    Check("apu_memory_small", machine.apu_memory_small, "linux"),
    Check("apu_carve_out_only", machine.apu_carve_out_only, "linux"),
    Check("disk_nearly_full", machine.disk_nearly_full, "any"),
    Check("data_old", machine.data_old, "any"),
    Check("iommu_between_gpus", kernel.iommu_between_gpus, "linux"),
    Check("no_gpu_on_windows", windows.no_gpu_on_windows, "windows"),
    Check("display_driver_missing", windows.display_driver_missing, "windows"),
    Check("driver_breaks_env", windows.driver_breaks_env, "windows"),
    Check("driver_reported", windows.driver_reported, "windows"),
    Check("hip_runtime_absent", windows.hip_runtime_absent, "windows"),
    Check("hip_runtime_shadowed", windows.hip_runtime_shadowed, "windows"),
    Check("hip_sdk_damaged", windows.hip_sdk_damaged, "windows"),
    Check("hip_path_stale", windows.hip_path_stale, "windows"),
    Check("hip_path_unset", windows.hip_path_unset, "windows"),
    Check("hip_path_differs", windows.hip_path_differs, "windows"),
    Check("vc_runtime_missing", windows_files.vc_runtime_missing, "windows"),
    Check("vc_runtime_old", windows_files.vc_runtime_old, "windows"),
    Check("defender_took", windows_files.defender_took, "windows"),
    Check("defender_not_told", windows_files.defender_not_told, "windows"),
    Check("home_too_deep", windows_files.home_too_deep, "windows"),
    Check("home_in_cloud", windows_files.home_in_cloud, "windows"),
    Check("other_zluda_on_path", windows_files.other_zluda_on_path, "windows"),
    Check("zluda_in_system32", windows_files.zluda_in_system32, "windows"),
    Check("other_hip_on_path", windows_files.other_hip_on_path, "windows"),
    Check("app_torch_missing", app.app_torch_missing, "any"),
    Check("env_python_missing", env.env_python_missing, "any", needs_env=True, each_env=True),
    Check("app_missing", app.app_missing, "any"),
    Check("env_unusable", env.env_unusable, "any"),
    Check("env_shims_missing", env.env_shims_missing, "any", needs_env=True, each_env=True),
    Check("app_own_zluda", app.app_own_zluda, "any"),
    Check("app_deletes_zluda", app.app_deletes_zluda, "any"),
    Check("app_own_python", app.app_own_python, "any"),
    Check("app_wrapper", app.app_wrapper, "any"),
    Check("app_argument_missing", app.app_argument_missing, "any"),
    Check("app_settings_not_read", app.app_settings_not_read, "any"),
    Check("app_shims_elsewhere", app.app_shims_elsewhere, "any"),
    Check("app_release_unfit", release.app_release_unfit, "any"),
    Check("app_without_gpu", arguments.app_without_gpu, "any"),
    Check("app_device_named", arguments.app_device_named, "any"),
    Check("app_not_held", arguments.app_not_held, "any"),
    Check("app_option_missing", arguments.app_option_missing, "any"),
    Check("app_blas_fails", arguments.app_blas_fails, "any"),
    Check("app_model_too_large", arguments.app_model_too_large, "any"),
    Check("env_torch_replaced", env.env_torch_replaced, "any", needs_env=True, each_env=True),
    Check("env_rocm_mixed", env.env_rocm_mixed, "any", needs_env=True, each_env=True),
    Check("env_files_missing", env.env_files_missing, "any", needs_env=True, each_env=True),
    Check("env_gpu_absent", env.env_gpu_absent, "any", needs_env=True),
    Check("env_gpu_hidden", env.env_gpu_hidden, "any", needs_env=True),
    Check("env_never_verified", env.env_never_verified, "any", needs_env=True, each_env=True),
    Check("env_verify_failed", env.env_verify_failed, "any", needs_env=True, each_env=True),
    Check("env_known_broken", env.env_known_broken, "any", needs_env=True, each_env=True),
    Check("env_verified_without_gpu", env.env_verified_without_gpu, "any", needs_env=True),
    Check("env_verified_before_driver", env.env_verified_before_driver, "linux", needs_env=True),
    Check("env_store_damaged", env.env_store_damaged, "any", is_slow=True, needs_env=True),
    Check("env_files_changed", env.env_files_changed, "any", is_slow=True, needs_env=True),
    Check("cache_on_network", caches.cache_on_network, "linux", is_slow=True),
    Check("cache_read_only", caches.cache_read_only, "linux", is_slow=True),
    Check("cache_without_locks", caches.cache_without_locks, "linux", is_slow=True),
    Check("miopen_database_damaged", caches.miopen_database_damaged, "linux", is_slow=True),
    Check("gpu_init_failed", kernel.gpu_init_failed, "linux", is_slow=True),
    Check("gpu_resets", kernel.gpu_resets, "linux", is_slow=True),
    Check("gpu_page_faults", kernel.gpu_page_faults, "linux", is_slow=True),
    Check("iommu_faults", kernel.iommu_faults, "linux", is_slow=True),
)
