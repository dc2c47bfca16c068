"""How a module of rocenv is run as a child of its own."""

from __future__ import annotations

from pathlib import Path

PACKAGE_PARENT = Path(__file__).parents[2]


def own_child(module: str, *words: str) -> list[str]:
    """Return what follows the Python in the command line of a child that runs `main` of a module.

    Args:
        module: Its dotted name.
        words: What `main` is called with.
    """
    # Not `-m`: isolated mode hides a rocenv that lies in the user's own site folder or on PYTHONPATH.
    start = "import sys; sys.path.append(sys.argv.pop(1))"
    code = f"{start}; from {module} import main; sys.exit(main(*sys.argv[1:]))"
    return ["-I", "-c", code, str(PACKAGE_PARENT), *words]
