"""GPU kernels of apps, compiled from the app's own source, and put where the app finds them.

PATH ─► installation.py          the source folder and the program of that very app; version.py, target.py
  │     program.py               what the program holds about how it was built
  ▼
recipe.py ◄─ profiles/apps/      file, flags, names; source.py: hash, and the app's own name for a kernel
  │
  ▼
cache.py ── compile.py           clang, with progress; check.py: what it made
  │
  ▼
places/                          the app's cache, a linked copy of its resources, or its own folder
  │
  ▼
placed.py                        what was put where: for `launch`; undo.py takes it back
"""
