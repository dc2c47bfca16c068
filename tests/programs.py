"""Programs that tests write."""

from __future__ import annotations

import sys

# The first lines of a program in Python, wherever that lies: a path with a space cannot stand after `#!`.
PYTHON = f"""#!/bin/sh
'''exec' '{sys.executable}' "$0" "$@"
' '''
"""
