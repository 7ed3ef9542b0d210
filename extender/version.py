"""Version of this release, as shown by the package, metrics, recordings and `--version`."""

__version__ = "0.1.0"
