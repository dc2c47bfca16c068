"""GPU kernels for apps: compiled from the app's own source and placed where the app finds them.

PATH ─► installation.py     find the app's source folder, program and version
  │
  ▼
recipe.py ◄─ profiles/apps/   choose the sources, the flags and the file name that the app expects
  │
  ▼
cache.py ── compile.py      run clang with progress; check.py inspects the result
  │
  ▼
placement.py                write to a linked copy of the app's resources or to the installation; `--undo`
  │
  ▼
placed.py                   records of placed kernels, which `launch` reads
"""
