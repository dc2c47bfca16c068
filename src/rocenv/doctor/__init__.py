"""Checks of a machine, and of an env, for known troubles: before they bite."""
