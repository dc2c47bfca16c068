"""Programs written by tests."""

from __future__ import annotations

import sys

# The first lines of a Python program anywhere: `#!` does not support paths with spaces.
PYTHON = f"""#!/bin/sh
'''exec' '{sys.executable}' "$0" "$@"
' '''
"""
