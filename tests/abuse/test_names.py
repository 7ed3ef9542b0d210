"""H4: names of any length leave nothing behind in the process."""

import pytest

from tests.abuse.service import MIB, service
from tests.builders import JSON, incoming

NODE = "worker-a1"
LONG = 60 * MIB
"""Characters of a resource name in a body that the limit of the body admits."""

IDLE_MIB = 40
"""Growth that is allowed to the process: freed memory that the allocator keeps, code that runs for the first time."""


@pytest.fixture(scope="module")
def running():
    """A service that keeps no decisions: everything else is measured."""
    with service(DEBUG__DECISIONS="0") as process:
        process.call("/filter", {"Pod": incoming(), "NodeNames": [NODE]})
        yield process


def test_H4_names_of_60_MiB_are_refused_with_a_reason_and_not_kept(running):
    before = running.rss
    for nth in range(4):
        name = f"example.com/{nth}-" + "x" * LONG
        status, answer = running.call("/preempt", _preempt(incoming(requests={name: "1"})))
        assert (status, answer.startswith(b'{"Error":"Pod: 629')) == (413, True), answer
    assert running.rss < before + IDLE_MIB


KEY = "example.com/{nth}-" + "k" * (MIB // 4)
"""A name of a quarter of a MiB: ten of them fit into a pod that is not too large."""


def _selector(key: str) -> JSON:
    return {"labelSelector": {"matchLabels": {key: "x"}}}


def _affinity(terms: list[JSON]) -> JSON:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


LONG_NAMES = {
    "selector": lambda key: _affinity([{"topologyKey": "zone"} | _selector(key)]),
    "topology key": lambda key: _affinity([{"topologyKey": key} | _selector("app")]),
    "nodeSelector": lambda key: {"nodeSelector": {key: "x"}},
    "toleration": lambda key: {"tolerations": [{"key": key, "value": key}]},
    "spread constraint": lambda key: {
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key, **_selector(key)}]
    },
    "image": lambda key: {"containers": [{"name": "c", "image": key}]},
    "claim": lambda key: {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": key}}]},
    "disk": lambda key: {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": key}}]},
    "label": lambda key: {"metadata": {"labels": {key: key}}},
    "owner": lambda key: {
        "metadata": {"ownerReferences": [{"kind": key, "name": key, "uid": key, "controller": True}]}
    },
}


def test_H4_pods_with_other_long_names_in_every_field_leave_nothing_behind(running):
    before = running.rss
    for nth in range(15):
        for name, fields in LONG_NAMES.items():
            pod = incoming(f"{name.replace(' ', '-')}-{nth}", **fields(KEY.format(nth=nth)))
            for path, body in (("/filter", _filter(pod)), ("/preempt", _preempt(pod))):
                status, answer = running.call(path, body)
                assert (status, len(answer) < 10_000) == (200, True), (name, path, status, answer[:200])
    assert running.rss < before + IDLE_MIB


def test_H4_names_of_unknown_nodes_and_victims_are_not_kept(running):
    before = running.rss
    for nth in range(10):
        names = [f"{nth}-{part}-" + "n" * MIB for part in range(4)]
        victims = {name: {"Pods": [{"UID": name}], "NumPDBViolations": 0} for name in names}
        status, _ = running.call("/preempt", {"Pod": incoming(), "NodeNameToMetaVictims": victims})
        assert status == 200
    assert running.rss < before + IDLE_MIB


def _filter(pod: JSON) -> JSON:
    return {"Pod": pod, "NodeNames": [NODE]}


def _preempt(pod: JSON) -> JSON:
    return {"Pod": pod, "NodeNameToMetaVictims": {NODE: {"Pods": [], "NumPDBViolations": 0}}}
