"""GPU kernels for Blender's renderer Cycles, compiled from its own source and placed where it finds them.

PATH ─► installation.py     find Blender's source folder, program and version
  │
  ▼
recipe.py ◄─ profiles/apps/   choose the sources, the flags and the file name that Blender expects
  │
  ▼
cache.py ── compile.py      run clang with progress, and check the result
  │
  ▼
placement.py                write to a linked copy of Blender's resources or to the installation; `--undo`
  │
  ▼
placed.py                   records of placed kernels, which `launch` reads
"""

APP = "blender"  # the only app with recipes; the key of its profile
