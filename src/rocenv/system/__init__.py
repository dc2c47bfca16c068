"""Operating system access: differences between Linux and Windows, and all questions to the machine.

If `ROCENV_SYSROOT` is set, facts about the machine are read below it, so a copy of another machine's files
can be examined. No other package checks `sys.platform`.
"""

import sys

WINDOWS = sys.platform == "win32"
