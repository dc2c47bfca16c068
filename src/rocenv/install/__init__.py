"""Turning a plan into a finished prefix."""
