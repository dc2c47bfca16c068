"""Stands in for AMD's `rocm-sdk`. For tests only; see ../../README.md."""

import argparse
import ctypes
import json
import sys
from pathlib import Path

from rocm_sdk import _devel, _dist_info, find_libraries


def main():
    """Run `rocm-sdk path|init|test|version|targets`."""
    parser = argparse.ArgumentParser(prog="rocm-sdk")
    commands = parser.add_subparsers(dest="command", required=True)
    kinds = commands.add_parser("path").add_mutually_exclusive_group(required=True)
    for kind in ("root", "bin", "cmake"):
        kinds.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind)
    commands.add_parser("init").add_argument("--quiet", action="store_true")
    for name in ("test", "version", "targets"):
        commands.add_parser(name)
    arguments = parser.parse_args()
    globals()[f"_{arguments.command}"](arguments)


def _say(text):
    sys.stdout.write(f"{text}\n")


def _root():
    try:
        return _devel.get_devel_root()
    except ModuleNotFoundError as error:
        sys.exit(f"ERROR: {error}")


def _path(arguments):
    below = {"root": "", "bin": "bin", "cmake": "lib/cmake"}[arguments.kind]
    _say(_root() / below)


def _init(arguments):
    root = _root()
    if not arguments.quiet:
        _say(f"Devel contents expanded to '{root}'")


def _test(_):
    for name in _dist_info.LIBRARIES:
        for path in find_libraries(name):
            ctypes.CDLL(str(path))
    _say("OK")


def _version(_):
    _say(_dist_info.__version__)


def _targets(_):
    import _rocm_sdk_core

    file = Path(_rocm_sdk_core.__file__).parent / "share" / "therock" / "dist_info.json"
    _say(json.loads(file.read_text())["dist_amdgpu_targets"])


if __name__ == "__main__":
    main()
