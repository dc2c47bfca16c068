"""GPU kernels for Cycles, Blender's renderer: compiled from its source, and placed where Blender finds them.

PATH ─► installation.py     find Blender's source folder, program and version
  │
  ▼
recipe.py ◄─ profiles/apps/   choose the sources, the flags and the file name that Blender expects
  │
  ▼
cache.py ── compile.py      run clang with progress, and check the result
  │
  ▼
placement.py                write to an overlay of Blender's resources or to the installation; `--undo`
  │
  ▼
placed.py                   records of placed kernels, which `launch` reads
"""

APP = "blender"  # the only app with recipes; the key of its profile
