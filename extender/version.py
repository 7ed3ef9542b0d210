"""The version of this release, equal to that in pyproject.toml; shown by metrics, recordings and `--version`."""

__version__ = "0.1.0"
