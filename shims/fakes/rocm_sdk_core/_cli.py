"""Start a program from the unpacked development files, or else from the runtime. For tests only."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

INFO_TOOLS = ("amd-smi", "rocm_agent_enumerator", "rocminfo", "rocm-smi", "offload-arch", "hipInfo")


def main():
    """Run the program that this script is named after."""
    name = Path(sys.argv[0]).stem
    import _rocm_sdk_core

    root = Path(_rocm_sdk_core.__file__).parent
    if name not in INFO_TOOLS and importlib.util.find_spec("rocm_sdk_devel"):
        from rocm_sdk import _devel

        root = _devel.get_devel_root()  # unpacks the development files on the first call
    suffix = ".exe" if sys.platform == "win32" else ""
    program = str(root / "bin" / (name + suffix))
    if sys.platform == "win32":  # where `execv` would end this process at once
        sys.exit(subprocess.call([program, *sys.argv[1:]]))
    os.execv(program, [program, *sys.argv[1:]])
