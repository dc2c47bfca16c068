"""The apps lane: Debian's real Blender, llama.cpp and clang, in envs that the real `rocenv` makes.

It takes minutes and the Debian mirror of this machine's own apt; `scripts/apps-lane` runs it.
"""
