"""GPU kernels of apps: compiled from the app's own source and put where the app finds them.

PATH ─► installation.py     the app's source folder, its program and its version
  │
  ▼
recipe.py ◄─ profiles/apps/   what is compiled, with which flags, and the file name that the app expects
  │
  ▼
cache.py ── compile.py      clang, with progress; check.py inspects the result
  │
  ▼
placement.py                a linked copy of the app's resources, or the installation itself; and `--undo`
  │
  ▼
placed.py                   records of what was put where, which `launch` reads
"""
