"""Load ROCm before torch's own libraries, as AMD's builds do. For tests only."""

import sys

NAMES = ("amd_comgr", "amdhip64", "hiprtc", "hipblas", "hipfft", "hiprand", "hipsparse", "hipsolver")
NAMES += ("hipblaslt", "miopen", "rocm-openblas")
LINUX = ("amd_smi", "hipsparselt", "rocm_sysdeps_liblzma", "rocm_smi64", "roctx64", "rccl")


def initialize():
    """Load the ROCm libraries that torch needs, and check that ROCm's version matches."""
    import rocm_sdk
    from torch import version

    names = NAMES if sys.platform == "win32" else (*LINUX, *NAMES)
    rocm_sdk.initialize_process(preload_shortnames=list(names), check_version=version.rocm)
