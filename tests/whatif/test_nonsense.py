"""Manifests with nonsense at any place: each is answered or refused, by every path and in linear time."""

import contextlib
import copy
import json
import random
import time
from typing import Any

import pytest

import extender
from extender.cluster.files.manifests import load_cluster
from extender.core.profile import KubeScheduler
from extender.errors import ExtenderError, RequestError
from extender.server.admin.simulate import simulate_request
from tests.builders import JSON, cluster, node, pod
from tests.whatif.written import default_class, pod_spec, quota, thing, workload, written_pod

NONSENSE: list[Any] = [
    *(
        None,
        3,
        -1,
        2.5,
        10**30,
        True,
        "",
        "x",
        " ",
        "\x00",
        "é",
        "a" * 300,
        "a/b/c",
        "9999999999999999999Ei",
        "-5",
        "5%",
    ),
    *([], {}, [None], [[]], [3], {"a": None}, {"a": 3}, {"": ""}, [{}], [{"name": []}], {"matchLabels": {"a": None}}),
]

TERM: JSON = {"topologyKey": "t", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["other"]}
CLAIM: JSON = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
FULL = pod_spec(
    tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]
            }
        },
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": copy.deepcopy(TERM)}]
        },
    },
    topologySpreadConstraints=[copy.deepcopy(TERM) | {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    volumes=[
        {"name": "s", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": CLAIM}}},
        {"name": "p", "persistentVolumeClaim": {"claimName": "data"}},
    ],
    initContainers=[{"name": "i", "image": "x", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}}}],
    resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    priorityClassName="important",
)
MANIFESTS = [
    written_pod() | {"spec": copy.deepcopy(FULL)},
    *(
        workload(kind, pod=copy.deepcopy(FULL))
        for kind in ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController")
    ),
]
LIMITS = {"limits": [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "9"}}]}
OTHERS = [
    thing("LimitRange", "usual", spec=LIMITS),
    quota(pods="9", requests_cpu="9"),
    thing("PriorityClass", "important", "scheduling.k8s.io/v1", value=1000),
    default_class("slow"),
    thing("PersistentVolumeClaim", "data", spec=CLAIM),
    thing("PodDisruptionBudget", "guard", "policy/v1", spec={"minAvailable": "50%", "selector": {"matchLabels": {}}}),
    thing("RuntimeClass", "heavy", "node.k8s.io/v1", handler="heavy", overhead={"podFixed": {"cpu": "1"}}),
    thing("Node", "other", status={"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}),
]
HERE = load_cluster(cluster({node("n1", labels={"k": "v"}): [pod("old")]}))


def places(value, path=()):
    """Yield the path of each value in a manifest."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield from places(one, (*path, key))


def spoilt(manifest: JSON, chance: random.Random) -> JSON:
    """A copy with a value that is left out, doubled or replaced by nonsense."""
    found = copy.deepcopy(manifest)
    *path, last = chance.choice([one for one in places(found) if one])
    at: Any = found
    for key in path:
        at = at[key]
    match chance.randrange(8):
        case 0:
            del at[last]
        case 1 if isinstance(at, list):
            at.append(copy.deepcopy(at[last]))
        case _:
            at[last] = copy.deepcopy(chance.choice(NONSENSE))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_nonsense_is_answered_or_refused(seed):
    chance, answers, refusals = random.Random(seed), 0, list[str]()
    for _ in range(10):
        given, others = chance.choice(MANIFESTS), copy.deepcopy(OTHERS)
        place = chance.randrange(len(others))
        if chance.random() < 0.3:
            others[place] = spoilt(others[place], chance)
        else:
            given = spoilt(given, chance)
        claims = [one for one in others if one.get("kind") != "Node"]
        pods, workloads = ([given], []) if given.get("kind") == "Pod" else ([], [given])
        options: JSON = chance.choice(
            [{}, {"untilFull": True}, {"gang": True}, {"strict": True}, {"admission": "none"}]
        )
        body = {"pods": pods, "claims": claims, "workloads": workloads, **options}
        for ask in (
            lambda body=body: simulate_request(HERE, KubeScheduler(), json.dumps(body).encode()),
            lambda given=given, claims=claims: extender.why(HERE, given, claims=claims),
            lambda others=others: extender.simulate({"kind": "List", "items": others}, [written_pod()]),
        ):
            try:
                ask()
                answers += 1
            except ExtenderError as error:
                refusals.append(str(error))
    assert all(0 < len(one) < 10_000 for one in refusals)
    assert answers, "some nonsense changes nothing"


def many(**fields) -> JSON:
    """A pod with these lists."""
    return written_pod() | {"spec": pod_spec() | fields}


def anti_affinity(number: int) -> JSON:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM] * number}}


@pytest.mark.parametrize(
    "make",
    [
        lambda n: many(containers=[{"name": f"c{i}", "image": "a"} for i in range(n)]),
        lambda n: many(containers=[{"name": "c", "image": "a"}] * n),
        lambda n: many(containers=[3] * n),
        lambda n: many(containers=[{f"field{i}": 1 for i in range(n)}]),
        lambda n: many(tolerations=[{"key": f"k{i}", "operator": "Exists"} for i in range(n)]),
        lambda n: many(volumes=[{"name": f"v{i}", "emptyDir": {}} for i in range(n)]),
        lambda n: many(affinity=anti_affinity(n)),
        lambda n: {
            "kind": "Pod",
            "metadata": {"name": "a", "labels": {f"k{i}": "v" for i in range(n)}},
            "spec": pod_spec(),
        },
        lambda n: {"kind": "Pod", "metadata": {"name": "a" * n * 100}, "spec": pod_spec()},
    ],
    ids=[
        "containers",
        "one name",
        "no objects",
        "unknown fields",
        "tolerations",
        "volumes",
        "terms",
        "labels",
        "a name",
    ],
)
def test_work_grows_no_faster_than_the_manifest(make):
    def seconds(number):
        manifest, started = make(number), time.process_time()
        with contextlib.suppress(RequestError):
            extender.simulate(HERE, [manifest])
        return time.process_time() - started

    seconds(10)
    assert min(seconds(1_000) for _ in range(2)) < 12 * min(seconds(250) for _ in range(3)) + 0.02


def test_pods_of_daemon_sets_are_limited_in_a_request(monkeypatch):
    monkeypatch.setattr("extender.server.admin.simulate.MAX_DAEMON_PODS", 1)
    body = json.dumps({"workloads": [workload("DaemonSet", "a"), workload("DaemonSet", "b")]}).encode()
    with pytest.raises(RequestError, match="2 pods of DaemonSets exceed the limit of 1 per request"):
        simulate_request(HERE, KubeScheduler(), body)


def test_until_full_makes_no_sense_for_a_daemon_set():
    with pytest.raises(RequestError, match="untilFull: a DaemonSet runs one pod on each node"):
        extender.simulate(HERE, workloads=[workload("DaemonSet")], until_full=True)


@pytest.mark.parametrize("given", [3, "x", None, [], [3], {}, {"kind": 3}, {"kind": "pod"}, {"kind": "Pod", "spec": 3}])
def test_the_python_api_refuses_what_is_no_object_of_its_kind(given):
    for ask in (
        lambda: extender.simulate(HERE, [given]),
        lambda: extender.evaluate(HERE, given),
        lambda: extender.simulate(HERE, [written_pod()], claims=[given]),
        lambda: extender.simulate(HERE, workloads=[given]),
        lambda: extender.simulate(HERE, add_nodes=[(given, 1)]),
    ):
        with pytest.raises(RequestError):
            ask()


def test_objects_beside_the_pods_are_no_pods_nodes_or_workloads():
    for one in (written_pod("other"), workload(), thing("ResourceClaim", "a", "example.com/v1")):
        with pytest.raises(RequestError, match="claim 1: expected a ResourceClaim, or another object that pods need"):
            extender.simulate(HERE, [written_pod()], claims=[one])


@pytest.mark.parametrize("mode", ["server", "other"])
def test_a_mode_of_admission_that_needs_an_api_server_is_refused(mode):
    for ask in (extender.evaluate, extender.why, lambda *given, **mode: extender.simulate(HERE, given[1:], **mode)):
        with pytest.raises(RequestError, match="admission: expected local or none"):
            ask(HERE, written_pod(), admission=mode)
