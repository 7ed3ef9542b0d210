"""Random scenarios: small clusters with an incoming pod, and what kube-scheduler is configured with.

`CATEGORIES` names every kind of them; `python -m tests.upstream.generate` prints some.
"""

from tests.upstream.generate.catalogue import CATEGORIES, Category

__all__ = ["CATEGORIES", "Category"]
