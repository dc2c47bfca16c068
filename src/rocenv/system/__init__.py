"""Operating system access: differences between Linux and Windows, and all queries about the machine.

If `ROCENV_SYSROOT` is set, facts about the machine are read below that path, so rocenv can examine a copy of
another machine's files. No other package checks `sys.platform`.
"""

import sys

WINDOWS = sys.platform == "win32"
