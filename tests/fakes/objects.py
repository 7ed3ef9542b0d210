"""The barest pods, for tests of the fakes themselves, which know nothing of what an extender reads in a pod.

Rule: nothing of the extender is imported here; what it is to understand comes from `tests.builders`.
"""

from typing import Any

from tests.fakes.api_server import FakeAPI


def bare_pod(name: str, namespace: str = "default", uid: str = "", **spec: Any) -> dict[str, Any]:
    """A pod with the UID `uid-<name>`, unless said."""
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"},
        "spec": spec,
    }


def put_pods(api: FakeAPI, count: int) -> None:
    """Puts the pods p0, p1, … one by one: the first into an empty server is at resourceVersion 2."""
    for number in range(count):
        api.put("Pod", bare_pod(f"p{number}"))
