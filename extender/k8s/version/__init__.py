"""Kubernetes versions: `features` says what changes between them, `gates` the stage of each feature gate by minor."""
