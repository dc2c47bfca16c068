"""The apps lane: Debian's real Blender, llama.cpp and clang, in envs that the real `rocenv` creates.

`scripts/apps-lane` runs these tests. They take minutes and need the Debian mirror that apt uses.
"""
