"""DefaultTolerationSeconds: tolerate nodes that are not ready or unreachable for five minutes.

Mirrors plugin/pkg/admission/defaulttolerationseconds/admission.go (v1.37) with the default flags of kube-apiserver.
"""

from extender.admission.plugins.shared import spec_of
from extender.admission.request import Request

KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
SECONDS = 300


def admit(request: Request) -> None:
    """Add a toleration for each taint that the pod does not tolerate yet, whatever its operator or value."""
    spec = spec_of(request)
    given = spec.get("tolerations") or ()
    tolerated = {one.get("key") or "" for one in given if (one.get("effect") or "NoExecute") == "NoExecute"}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}
        for key in KEYS
        if not tolerated & {key, ""}
    ]
    if added:
        spec["tolerations"] = [*given, *added]
