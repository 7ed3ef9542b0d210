"""Implementations of the functions of expressions, by overload: `implementation(run, *arguments)`."""
