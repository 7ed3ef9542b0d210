"""The pairs sent -> stored, and what admission makes of `sent` among the objects `given`.

    python -m tests.parity.admission.pairs [--show ID] [--minor 36]

prints the differences, one line a pair; --show: all of those whose id begins so.

A line of pairs.jsonl.gz is one manifest that was sent by a plain POST to a real kube-apiserver 1.37.2 with default
gates and default admission plugins, kube-controller-manager 1.37.2 beside it, without a kube-scheduler and a kubelet:

| field | |
|---|---|
| `id`, `kind` | case and number; kind of `sent` |
| `given` | objects created before, in this order |
| `sent` | the manifest; of namespace `default` unless it names another |
| `stored` | the answer, without volatile fields and the token volume; null if refused |
| `refused`, `code` | the message; null if stored |
| `also` | objects that appeared because of it: pods, ReplicaSets, claims |
| `podsRefused` | the workload is stored, and each of its pods is refused |
| `exempt` | why the answer need not be followed |
| `minor` | of pairs-1.36.jsonl.gz and the like, which `record` writes: the API server's minor version |
"""

import argparse
import functools
import gzip
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from extender.admission.admit import admission_of
from extender.admission.findings import Refused
from extender.cluster.files.manifests import RawManifest, read_cluster
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ExtenderError
from extender.k8s.kinds import KINDS
from extender.k8s.objects import Object, Pod
from extender.k8s.version.features import Features
from extender.whatif.arrivals import Arrivals
from extender.whatif.controllers import NameGenerator
from extender.whatif.daemon_sets import plan_daemon_set
from extender.whatif.workloads import API_VERSIONS, admitted_workloads, current_pods, plan
from tests.parity.admission.comparison import Pair, different_facts

JSON = dict[str, Any]

FILE = Path(__file__).with_name("pairs.jsonl.gz")
NEWEST = 37
OLDER = (34, 36)

WORKLOADS = tuple(API_VERSIONS)
SENT_ALONE = ("Pod", "ResourceClaim", *WORKLOADS)
"""Kinds that are sent like `--pod` and `--workload`; the others stand in a cluster file."""

CLAIMS = ("PersistentVolumeClaim", "ResourceClaim")


@dataclass
class Arrived:
    """What is there once the manifest is."""

    own: Object | None = None
    """The object itself; None of a workload, which only its pods tell."""
    pods: list[Pod] = field(default_factory=list)
    """Pods of a workload."""
    claims: list[tuple[str, Object]] = field(default_factory=list)
    """Kind and object of the claims that controllers created."""


@functools.cache
def pairs(minor: int = NEWEST) -> tuple[Pair, ...]:
    """All pairs of a minor that count. The file of an older one has those in which it differs from the newest."""
    found = {pair["id"]: pair for pair in _read(FILE)}
    if minor != NEWEST:
        found |= {pair["id"]: pair for pair in _read(FILE.with_name(f"pairs-1.{minor}.jsonl.gz"))}
    return tuple({**pair, "minor": minor} for pair in found.values() if not pair.get("exempt"))


def _read(file: Path) -> list[Pair]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def decoded(kind: str, one: dict[str, Any]) -> Object:
    """The object with the fields that decisions read."""
    loaded: Object = msgspec.convert(one, KINDS[kind].type)
    if KINDS[kind].namespaced and not loaded.metadata.namespace:
        metadata = msgspec.structs.replace(loaded.metadata, namespace="default")
        return msgspec.structs.replace(loaded, metadata=metadata)
    return loaded


def snapshot_of(objects: list[JSON], minor: int) -> Snapshot:
    """A cluster file of these objects."""
    scheduler = KubeScheduler(features=Features.of(minor), minor=minor)
    found = read_cluster({"kind": "List", "items": objects}, scheduler_of=lambda _: scheduler)
    return Snapshot.build(found.objects, scheduler.features)


def arrive(pair: Pair) -> Arrived:
    """Create `sent` among the objects `given`; raises ExtenderError if it is refused."""
    kind, sent, minor = pair["kind"], pair["sent"], pair.get("minor", NEWEST)
    if kind not in SENT_ALONE:
        return Arrived(list(snapshot_of([*pair["given"], sent], minor).objects.of(kind).values())[-1])
    snapshot = snapshot_of(pair["given"], minor)
    before = {name: set(snapshot.objects.of(name)) for name in CLAIMS}
    arrivals = Arrivals(snapshot, "local", admission_of("local", strict=False), minor)
    arrival, arrived = RawManifest("", kind, sent), Arrived()
    if kind == "ResourceClaim":
        arrivals.add_objects([arrival])
        return Arrived(list(snapshot.objects.resource_claims.values())[-1])
    if kind == "Pod":
        arrived.own = arrivals.add_pods([arrival])[0]
    else:
        arrived.pods = create_pods(snapshot, arrivals, arrival)
    for name, keys in before.items():
        arrived.claims += [(name, one) for key, one in snapshot.objects.of(name).items() if key not in keys]
    return arrived


def create_pods(snapshot: Snapshot, arrivals: Arrivals, arrival: RawManifest) -> list[Pod]:
    """Create the pods of a workload; Refused if all are."""
    (workload,) = admitted_workloads(arrivals, [arrival])
    names, current = NameGenerator(snapshot), current_pods(snapshot, [workload])[workload.key]
    if workload.kind == "DaemonSet":
        planned = plan_daemon_set(snapshot, workload, current, arrivals, names, KubeScheduler())
    else:
        planned = plan(snapshot, workload, current, names)
    created, refused = list[Pod](), list[Refused]()
    # The first pod of an ordered StatefulSet never gets ready here, and the second waits for it.
    for one in planned.pods[:1] if planned.is_ordered else planned.pods:
        try:
            created.append(arrivals.create(one))
            snapshot.put("Pod", created[-1])
        except Refused as error:
            refused.append(error)
    if refused and not created:
        raise refused[0]
    return created


def differences(pair: Pair) -> list[str]:
    """What differs, each as `field: ours …, API server …`; empty if we agree."""
    kind, refused = pair["kind"], pair["refused"]
    try:
        arrived = arrive(pair)
    except ExtenderError as error:
        is_right = refused is not None or pair.get("podsRefused")
        return [] if is_right else [f"refused, should be stored: {error}"]
    except ValueError as error:  # what admission lets pass must decode
        return [f"crash: {error}"]
    if refused is not None:
        return [f"stored, should be refused: {refused}"]
    found = []
    # 1. The object itself.
    if arrived.own is not None:
        found += different_facts("", kind, arrived.own, decoded(kind, pair["stored"]))
    # 2. Pods of a workload, and claims that controllers created.
    expected = {name: [one for one in pair["also"] if one["kind"] == name] for name in ("Pod", *CLAIMS)}
    created: dict[str, Sequence[Object]] = {"Pod": arrived.pods}
    created |= {name: [one for of, one in arrived.claims if of == name] for name in CLAIMS}
    for name, ours in created.items():
        if len(ours) != len(expected[name]):
            found.append(f"number of {name}s created: ours {len(ours)}, API server {len(expected[name])}")
        for one, other in zip(ours, expected[name], strict=False):
            found += different_facts(f"{name}.", name, one, decoded(name, other))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--show", metavar="ID", default=None, help="all differences of the pairs whose id begins so")
    parser.add_argument("--minor", type=int, default=NEWEST)
    given = parser.parse_args()
    agree, every = 0, pairs(given.minor)
    for each in every:
        differing = differences(each)
        agree += not differing
        if given.show is not None and each["id"].startswith(given.show):
            sys.stdout.writelines(f"{each['id']}: {one}\n" for one in differing)
        elif given.show is None and differing:
            sys.stdout.write(f"{each['id']}: {'; '.join(differing)}"[:240] + "\n")
    sys.stdout.write(f"{agree} of {len(every)} agree\n")
