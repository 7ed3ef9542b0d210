"""DefaultTolerationSeconds: which tolerations are added."""

import pytest

from extender.admission.plugins import default_toleration_seconds
from tests.admission.plugins.requests import cluster, pod, request

NOT_READY, UNREACHABLE = (
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
)


@pytest.mark.parametrize(
    ("given", "added"),
    [
        (None, [NOT_READY, UNREACHABLE]),
        ([{"key": "gpu", "operator": "Exists"}], [NOT_READY, UNREACHABLE]),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoExecute"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
        ([{"key": NOT_READY["key"], "operator": "Exists"}], [UNREACHABLE]),
        # Neither operator nor value counts.
        ([{"key": UNREACHABLE["key"], "value": "x", "effect": "NoExecute"}], [NOT_READY]),
        ([{"key": UNREACHABLE["key"], "operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
    ],
)
def test_nodes_that_are_not_ready_are_tolerated_for_five_minutes(given, added):
    one = pod() if given is None else pod(tolerations=given)
    made = request("Pod", one, cluster())
    default_toleration_seconds.admit(made)
    assert made.object["spec"].get("tolerations", []) == [*(given or ()), *added]
