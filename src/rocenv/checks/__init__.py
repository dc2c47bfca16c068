"""Checks for the machine, an env, and an app before it starts.

Each check is a function in its subject's module, a line in `table.py`, and a row in `profiles/checks/`. The
function's docstring states the problem that the check finds.
"""
