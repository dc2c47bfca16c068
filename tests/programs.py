"""First lines for scripts that tests write."""

from __future__ import annotations

import sys

# Starts this Python from a script. A plain `#!` line fails if the path contains a space.
PYTHON = f"""#!/bin/sh
'''exec' '{sys.executable}' "$0" "$@"
' '''
"""
