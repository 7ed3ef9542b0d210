"""The version of this release, which the package, metrics, recordings and `--version` show."""

__version__ = "0.1.0"
