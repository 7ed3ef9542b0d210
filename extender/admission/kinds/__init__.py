"""Checks and defaults of other kinds than Pod that depend on several fields; rules.toml names them."""
