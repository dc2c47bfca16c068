"""The checks, each a function that says what it saw, or nothing; those that take long are run last.

The texts of what they tell lie in `profiles/checks/`.
"""

from __future__ import annotations

from rocenv.doctor.check import Check
from rocenv.doctor.checks import (
    caches,
    data,
    databases,
    devices,
    kernel,
    memory,
    of_env,
    variables,
    windows,
    windows_files,
    windows_gpus,
    wsl,
)

__all__ = ["CHECKS", "Check"]

CHECKS: tuple[Check, ...] = (
    Check("no_gpu", devices.no_gpu, "linux"),
    *wsl.CHECKS,
    Check("kfd_closed", devices.kfd_closed, "linux"),
    Check("render_node_closed", devices.render_node_closed, "linux"),
    Check("kfd_refuses", devices.kfd_refuses, "linux"),
    Check("container_without_devices", devices.container_without_devices, "linux"),
    Check("gpu_without_driver", devices.gpu_without_driver, "linux"),
    Check("kfd_missing", devices.kfd_missing, "linux"),
    Check("gpu_not_set_up", devices.gpu_not_set_up, "linux"),
    Check("gpu_left_out", kernel.gpu_left_out, "linux"),
    Check("driver_apart", kernel.driver_apart, "linux"),
    Check("kernel_too_old_for_env", kernel.kernel_too_old_for_env, "linux"),
    Check("igpu_first", devices.igpu_first, "linux"),
    Check("gpus_hidden", devices.gpus_hidden, "linux"),
    Check("override_wrong", variables.override_wrong, "linux", tells="override_foreign"),
    Check("rocm_path_stale", variables.rocm_path_stale, "linux"),
    Check("rocm_paths_differ", variables.rocm_paths_differ, "linux"),
    Check("two_rocms", variables.two_rocms, "linux"),
    Check("apu_memory_small", memory.apu_memory_small, "linux"),
    Check("apu_carve_out_only", memory.apu_carve_out_only, "linux"),
    Check("disk_nearly_full", memory.disk_nearly_full, "any"),
    Check("data_old", data.data_old, "any"),
    Check("iommu_between_gpus", kernel.iommu_between_gpus, "linux"),
    *windows_gpus.CHECKS,
    *windows.CHECKS,
    *windows_files.CHECKS,
    *of_env.CHECKS,
    Check("cache_on_network", caches.cache_on_network, "linux", slow=True),
    Check("cache_read_only", caches.cache_read_only, "linux", slow=True),
    Check("cache_without_locks", caches.cache_without_locks, "linux", slow=True),
    Check("miopen_database_damaged", databases.miopen_database_damaged, "linux", slow=True),
    Check("gpu_init_failed", kernel.gpu_init_failed, "linux", slow=True),
    Check("gpu_resets", kernel.gpu_resets, "linux", slow=True),
    Check("gpu_page_faults", kernel.gpu_page_faults, "linux", slow=True),
    Check("iommu_faults", kernel.iommu_faults, "linux", slow=True),
)
