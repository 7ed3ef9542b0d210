"""Modules that the tests and the processes they start do not find: tests/conftest.py puts this folder first.

The tests' own tools bring in libraries that no installation has; those here cost every process seconds.
"""
