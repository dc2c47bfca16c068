"""Stands in for the tables in AMD's `rocm_sdk`. For tests only; see ../../README.md.

The tests append the values that differ between releases: `__version__` and the lists of targets.
"""

import os
import subprocess

LINUX_ONLY = ""
# Name -> package, file on Linux, file on Windows, folder on Linux.
LIBRARIES = {
    "amdhip64": ("core", "libamdhip64.so*", "amdhip64*.dll", "lib"),
    "hipfile": ("core", "libhipfile.so*", LINUX_ONLY, "lib"),
    "hiprtc": ("core", "libhiprtc.so*", "hiprtc0*.dll", "lib"),
    "roctx64": ("core", "libroctx64.so*", LINUX_ONLY, "lib"),
    "rocprofiler-sdk": ("core", "librocprofiler-sdk.so*", LINUX_ONLY, "lib"),
    "rocprofiler-sdk-roctx": ("core", "librocprofiler-sdk-roctx.so*", LINUX_ONLY, "lib"),
    "roctracer64": ("core", "libroctracer64.so*", LINUX_ONLY, "lib"),
    "rocm_sysdeps_liblzma": ("core", "librocm_sysdeps_liblzma.so.*", LINUX_ONLY, "lib/rocm_sysdeps/lib"),
    "rocm-openblas": ("core", "librocm-openblas.so.*", "rocm-openblas*.dll", "lib/host-math/lib"),
    "amd_comgr": ("core", "libamd_comgr.so*", "amd_comgr*.dll", "lib"),
    "rocm_kpack": ("core", "librocm_kpack.so*", "rocm_kpack*.dll", "lib"),
    "rocm_smi64": ("core", "librocm_smi64.so*", LINUX_ONLY, "lib"),
    "amd_smi": ("core", "libamd_smi.so*", LINUX_ONLY, "lib"),
    "rocdxg": ("core", "librocdxg*.so*", LINUX_ONLY, "lib"),
    "hipblas": ("libraries", "libhipblas.so*", "*hipblas*.dll", "lib"),
    "hipblaslt": ("libraries", "libhipblaslt.so*", "*hipblaslt*.dll", "lib"),
    "hipfft": ("libraries", "libhipfft.so*", "hipfft*.dll", "lib"),
    "hiprand": ("libraries", "libhiprand.so*", "hiprand*.dll", "lib"),
    "hipsparse": ("libraries", "libhipsparse.so*", "hipsparse*.dll", "lib"),
    "hipsparselt": ("libraries", "libhipsparselt.so*", LINUX_ONLY, "lib"),
    "hipsolver": ("libraries", "libhipsolver.so*", "hipsolver*.dll", "lib"),
    "rccl": ("libraries", "librccl.so*", LINUX_ONLY, "lib"),
    "miopen": ("libraries", "libMIOpen.so*", "MIOpen*.dll", "lib"),
    "origami": ("libraries", "liborigami.so*", "origami*.dll", "lib"),
    "hipdnn": ("libraries", "libhipdnn_backend.so*", "hipdnn_backend*.dll", "lib"),
}
OPTIONAL = ("rocdxg",)
PACKAGES = {"core": "_rocm_sdk_core", "libraries": "_rocm_sdk_libraries", "devel": "_rocm_sdk_devel"}


def package_name(target):
    """Remove characters that package names cannot contain: `gfx942:xnack+` becomes `gfx942`."""
    return target.partition(":")[0]


def determine_target_family():
    """Return the target for the `device` extra; raise ValueError if there is no wheel for it."""
    target = os.getenv("ROCM_SDK_TARGET_FAMILY") or _detected() or DEFAULT_TARGET_FAMILY
    if target not in AVAILABLE_TARGET_FAMILIES:
        available = ", ".join(AVAILABLE_TARGET_FAMILIES)
        raise ValueError(f"ROCM_SDK_TARGET_FAMILY={target} is not one of {available}")
    return target


def _detected():
    try:
        listed = subprocess.check_output(["offload-arch"], text=True, stderr=subprocess.DEVNULL).split()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return next((target for target in listed if target in AVAILABLE_TARGET_FAMILIES), "")


def requirements():
    """Return the requirements for `rocm` and for each extra."""
    extras = {name: [f"rocm-sdk-{name}=={__version__}"] for name in ("libraries", "devel")}
    extras["profiler"] = [f"rocm-profiler=={__version__}"]
    extras["device"] = [f"rocm-sdk-device-{package_name(determine_target_family())}=={__version__}"]
    extras["device-all"] = []
    for target in sorted(set(map(package_name, AVAILABLE_TARGET_FAMILIES))):
        extras[f"device-{target}"] = [f"rocm-sdk-device-{target}=={__version__}"]
        extras["device-all"] += extras[f"device-{target}"]
    return [f"rocm-sdk-core=={__version__}"], extras


__version__ = "0"
PY_PACKAGE_SUFFIX_NONCE = ""
DEFAULT_TARGET_FAMILY = ""
AVAILABLE_TARGET_FAMILIES = []
