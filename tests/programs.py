"""The first lines of programs that tests write."""

from __future__ import annotations

import sys

# Starts this Python from a script. `#!` alone does not work, because its path must not contain a space.
PYTHON = f"""#!/bin/sh
'''exec' '{sys.executable}' "$0" "$@"
' '''
"""
