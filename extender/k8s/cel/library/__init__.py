"""Implementations of CEL functions by overload, called with (run, *arguments)."""
