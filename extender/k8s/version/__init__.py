"""Kubernetes versions: `features` has the changes between them, `gates` the stages of each feature gate by minor."""
