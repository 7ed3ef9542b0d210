"""A cluster in which every field of a pod matters, and what one hostile pod costs in it, step by step.

Rule: the cost is CPU time of this thread; nothing is remembered from one call to the next (derived values are dropped),
because a tenant can send another pod each time.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from extender.cluster.watch.decode import Decoder
from extender.core import engine
from extender.core.profile import UPSTREAM
from extender.core.record import RecordedPod, record_filter, record_preempt, record_prioritize
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.kinds import Key
from extender.k8s.objects import Pod, PodDisruptionBudget
from extender.report.facts.node_facts import facts_of_decision
from extender.server.guard.guard import guard_filter, guard_preempt
from extender.server.observability.decision_log import VERBS, KeptDecision
from extender.server.recording.redact import redact_request
from extender.utilities.time_share import TimeShare
from extender.wire.decode import decode_filter
from extender.wire.encode import encode_filter, encode_preempt
from tests.abuse.hostile_fields import HOSTNAME, ZONE, hostile
from tests.builders import JSON, budget, built, cluster, node, pod, thing

CLAIMS = 1024
"""Claims of each sort; as many as the largest hostile pod has."""

_AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "other"}}}
        ]
    }
}

PLAIN = pod(
    "plain",
    "2",
    priority=100,
    start=None,
    phase="Pending",
    labels={"app": "web"},
    ports=[{"hostPort": 8000}],
    affinity=_AFFINITY,
    volumes=[
        {"name": "claim", "persistentVolumeClaim": {"claimName": "claim-1"}},
        {"name": "disk", "gcePersistentDisk": {"pdName": "disk-0"}},
    ],
)
"""Another tenant's pod, which has something of everything."""


def hostile_cluster(nodes: int) -> Snapshot:
    """Nodes with taints, zones, images and volume limits; four pods each, some with ports, volumes and extended
    resources; budgets, a Service, claims and volumes."""
    found = {}
    for n in range(nodes):
        effect = ("NoSchedule", "PreferNoSchedule", "NoExecute")[n % 3]
        one = node(
            f"n{n}",
            labels={ZONE: f"z{n % 5}", "pool": f"p{n % 11}"},
            taints=[{"key": f"t{n % 7}", "effect": effect}] if n % 10 == 0 else [],
            images=[{"names": [f"app:{n % 20}"], "sizeBytes": 10**9}],
            allocatable={"example.com/gpu-0": "8"},
        )
        found[one] = [_running(n, k) for k in range(4)]
    others = [thing("Service", "web", namespace="default", spec={"selector": {"app": "web"}}), *_storage(nodes)]
    budgets = [budget("web", 3, app="web"), budget("all", 300, selector={})]
    namespaces = [{"kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "a"}}}]
    return engine.prepare(built(cluster(found, budgets=budgets, namespaces=namespaces, others=others)))


def _running(n: int, k: int) -> JSON:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": f"claim-{n % 100}"}}
    return pod(
        f"r{n}-{k}",
        "900m",
        priority=k,
        labels={"app": ("web", "db")[k % 2]},
        ports=[{"hostPort": 8000 + k}] if n % 5 == 0 else [],
        volumes=[volume] if k == 1 and n % 3 == 0 else [],
        requests={"example.com/gpu-0": "1"} if k == 0 else {},
    )


def _storage(nodes: int) -> Iterator[JSON]:
    size = {"requests": {"storage": "1Gi"}}
    spec: JSON
    yield thing("StorageClass", "fast", provisioner="csi.example.com", volumeBindingMode="WaitForFirstConsumer")
    for n in range(CLAIMS):
        bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        modes = ["ReadWriteOnce" if n % 2 else "ReadWriteOncePod"]
        spec = {"volumeName": f"pv-{n}", "accessModes": modes}
        yield thing("PersistentVolumeClaim", f"claim-{n}", namespace="default", metadata=bound, spec=spec)
        spec = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": size}
        yield thing("PersistentVolumeClaim", f"waiting-{n}", namespace="default", spec=spec)
        csi, capacity = {"driver": "csi.example.com", "volumeHandle": f"volume-{n}"}, {"storage": "1Gi"}
        labels = {"labels": {ZONE: f"z{n % 5}"}} if n % 9 == 0 else {}
        yield thing("PersistentVolume", f"pv-{n}", metadata=labels, spec={"csi": csi, "capacity": capacity})
        if n < CLAIMS // 2:
            spec = {"csi": csi, "capacity": capacity, "storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}
            yield thing("PersistentVolume", f"free-{n}", spec=spec, status={"phase": "Available"})
    for n in range(nodes):
        drivers = [{"name": name, "allocatable": {"count": 5}} for name in ("csi.example.com", "pd.csi.storage.gke.io")]
        yield thing("CSINode", f"n{n}", spec={"drivers": drivers})


# --- what a pod costs -------------------------------------------------------------------------------------------------

Costs = dict[str, float]
"""Step -> CPU seconds."""


def costs(snapshot: Snapshot, role: str, field: str, n: int) -> Costs:
    """Return what the steps cost with a hostile pod in this role.

    `incoming`: it is sent; `running`, `nominated`: it is in the cluster, and another pod is sent; `all of them`: it is
    sent, beside two running pods and a nominated one like it.
    """
    spent: Costs = {}
    sent = hostile("incoming", field, n, priority=100) if role in ("incoming", "all of them") else PLAIN
    there = [
        *(hostile(f"evil-{k}", field, n, priority=1, nodeName="n3") for k in range(2) if role in _RUNNING),
        *(_nominated(hostile("evil-n", field, n, priority=200)) for _ in range(1) if role in _NOMINATED),
    ]
    with _in_cluster(snapshot, there, spent):
        call_costs(snapshot, sent, spent)
    return spent


def costs_of_budgets(snapshot: Snapshot, budgets: list[JSON]) -> Costs:
    """Return what the steps cost with these PodDisruptionBudgets, when a pod with labels of its own arrives as well."""
    spent: Costs = {}
    arriving = pod("arriving", "1m", priority=1, labels={"app": "web", "pod": "arriving"}, nodeName="n3")
    with _in_cluster(snapshot, budgets, spent), _in_cluster(snapshot, [arriving], spent):
        call_costs(snapshot, PLAIN, spent)
    return spent


_RUNNING, _NOMINATED = ("running", "all of them"), ("nominated", "all of them")


def _nominated(raw: JSON) -> JSON:
    return raw | {"status": raw["status"] | {"phase": "Pending", "nominatedNodeName": "n3"}}


_DECODERS = {kind: Decoder(kind) for kind in ("Pod", "PodDisruptionBudget")}


@contextmanager
def _timed(spent: Costs, step: str) -> Iterator[None]:
    before = time.thread_time()
    yield
    spent[step] = spent.get(step, 0.0) + time.thread_time() - before


@contextmanager
def _in_cluster(snapshot: Snapshot, raw: list[JSON], spent: Costs) -> Iterator[None]:
    """Put the objects into the snapshot as the watch does; remove them in the end."""
    there = list[tuple[str, Key]]()
    try:
        for one in raw:
            encoded = json.dumps(one).encode()
            with _timed(spent, "watch"):
                decoded = _DECODERS[one["kind"]].decode(encoded)
            assert isinstance(decoded, (Pod, PodDisruptionBudget))
            with _timed(spent, "put"):
                snapshot.put(one["kind"], decoded)
                snapshot.refresh_layout()
            there.append((one["kind"], (decoded.metadata.namespace, decoded.metadata.name)))
        yield
    finally:
        for kind, key in there:
            with _timed(spent, "remove"):
                snapshot.remove(kind, key)
                snapshot.refresh_layout()


def call_costs(snapshot: Snapshot, raw: JSON, spent: Costs) -> None:
    """Add what each verb costs for the pod, and what its records, explanations and recordings cost."""
    names = list(snapshot.node_names)
    victims = {f"n{n}": SentCandidate((f"uid-r{n}-0", f"uid-r{n}-1")) for n in range(0, len(names), 3)}
    body = json.dumps({"Pod": raw, "Nodes": None, "NodeNames": names}).encode()
    with _timed(spent, "decode"):
        request = decode_filter(body)
    with _timed(spent, "redact"):
        redact_request("filter", msgspec.Raw(body))
    snapshot._derived.clear()
    with _timed(spent, "filter"):
        filtered = engine.filter(snapshot, request.pod, names, UPSTREAM)
        guard_filter(names, filtered)
        encode_filter(request, filtered.accepted, filtered.failed, filtered.unresolvable)
    with _timed(spent, "prioritize"):
        scored = engine.prioritize(snapshot, request.pod, names, UPSTREAM)
    snapshot._derived.clear()
    with _timed(spent, "preempt"):
        found = engine.preempt(snapshot, request.pod, victims, UPSTREAM)
        kept = guard_preempt(snapshot, request.pod, victims, found.kept, as_sent=found.as_sent)
        encode_preempt(kept.kept)
    records = _records(spent, lambda: record_filter(filtered), lambda: record_prioritize(scored))
    records += _records(spent, lambda: record_preempt(found, victims))
    for verb, evaluation in (("filter", filtered.evaluation), ("preempt", found.evaluation)):
        assert evaluation is not None
        with _timed(spent, f"facts of {verb}"):
            facts_of_decision(evaluation, TimeShare(1, 1))
    with _timed(spent, "explain"):
        for verb, record in zip(VERBS, records, strict=True):
            decision = KeptDecision(f"{verb}-1", 0, 1.0, RecordedPod.of(request.pod), UPSTREAM, "answered", "", record)
            msgspec.json.encode(decision.decision())


def costs_of_others(snapshot: Snapshot, running: list[JSON]) -> Costs:
    """Return what each verb costs for another tenant's pod beside these running pods, with everything remembered."""
    names, plain = list(snapshot.node_names), msgspec.convert(PLAIN, Pod)
    victims = {f"n{n}": SentCandidate((f"uid-r{n}-0", f"uid-r{n}-1")) for n in range(0, len(names), 3)}
    lowest: Costs = {}
    with _in_cluster(snapshot, running, {}):
        for _ in range(5):
            spent: Costs = {}
            snapshot._versions["any"] += 1  # what /prioritize takes over from /filter is computed again
            with _timed(spent, "filter"):
                engine.filter(snapshot, plain, names, UPSTREAM)
            with _timed(spent, "prioritize"):
                engine.prioritize(snapshot, plain, names, UPSTREAM)
            with _timed(spent, "preempt"):
                engine.preempt(snapshot, plain, victims, UPSTREAM)
            keep_lowest(lowest, spent)
    return lowest


def keep_lowest(lowest: Costs, spent: Costs) -> None:
    """Take over what is lower: other processes only ever add time."""
    for step, seconds in spent.items():
        lowest[step] = min(seconds, lowest.get(step, seconds))


def _records(spent: Costs, *makes: Callable[[], object]) -> list:
    with _timed(spent, "record"):
        return [make() for make in makes]
