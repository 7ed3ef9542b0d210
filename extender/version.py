"""The version of this release, as pyproject.toml has it; metrics, recordings and `--version` show it."""

__version__ = "0.1.0"
