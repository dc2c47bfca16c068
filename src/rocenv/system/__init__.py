"""The seam to the operating system: what differs between Linux and Windows, and every look at the machine.

Facts about the machine are read below `ROCENV_SYSROOT` when that is set, so that a copy of another
machine's files can be examined. Nothing else in the package asks `sys.platform`.
"""

import sys

WINDOWS = sys.platform == "win32"
