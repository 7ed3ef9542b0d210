"""A snapshot that was changed step by step decides as one that is built from the same objects.

python -c 'from tests.property.test_changes import check; check(4711)'
"""

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from msgspec.structs import replace

from extender.core.engine import prepare
from extender.core.evaluation import Evaluation
from extender.core.profile import KubeScheduler, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import KINDS, key_of
from extender.k8s.objects import Pod
from tests.builders import stored_cluster, typed
from tests.profiles import SEEDS, examples
from tests.property.generate import case
from tests.property.policies import question

SOME = examples(4, 120, 20_000)

STEPS = 12
MOST_CHANGES = 8


def objects_of(seed: int) -> Iterator[tuple[str, Any]]:
    """(kind, object) of a generated cluster; names of different seeds overlap, so that objects replace each other."""
    objects = stored_cluster(case(seed).cluster)
    for kind, of_kind in KINDS.items():
        for one in getattr(objects, of_kind.field):
            yield kind, with_uid_of_its_own(one)


def with_uid_of_its_own(one):
    """The generator gives pods of the same name in two namespaces the same UID: these take turns in one cluster."""
    metadata, namespace = one.metadata, one.metadata.namespace
    owners = [replace(owner, uid=f"{owner.uid}-{namespace}") for owner in metadata.owner_references or ()]
    return replace(one, metadata=replace(metadata, uid=f"{metadata.uid}-{namespace}", owner_references=owners))


def check(seed: int) -> None:
    """Change a snapshot at random and compare after every few changes."""
    chance = random.Random(seed)
    pods = [typed(case(seed + number).pod) for number in range(3)]
    material = [one for number in range(3) for one in objects_of(seed + number)]
    changing = prepare(Snapshot())
    for kind, one in objects_of(seed):
        put(changing, kind, one)
    for _ in range(STEPS):
        for _ in range(chance.randint(1, MOST_CHANGES)):
            change(changing, chance, material)
        changing.refresh_layout()
        compare(changing, chance.choice(pods))


def change(snapshot: Snapshot, chance: random.Random, material: list[tuple[str, Any]]) -> None:
    if chance.random() < 0.3:
        change_a_running_pod(snapshot, chance, [one for kind, one in material if kind == "Pod"])
        return
    kind, one = chance.choice(material)
    if chance.random() < 0.5:
        again = "" if chance.random() < 0.9 else "-again"
        put(snapshot, kind, replace(one, metadata=replace(one.metadata, uid=one.metadata.uid + again)))
        return
    held = snapshot.objects.of(kind)
    if held:
        snapshot.remove(kind, chance.choice(list(held)))


PARTS = {
    "labels": lambda pod, other: metadata(pod, labels=other.metadata.labels),
    "annotations": lambda pod, other: metadata(pod, annotations=other.metadata.annotations),
    "owners": lambda pod, other: metadata(pod, owner_references=other.metadata.owner_references),
    "leaving": lambda pod, other: metadata(pod, deletion_timestamp=other.metadata.deletion_timestamp),
    "spec": lambda pod, other: replace(pod, spec=replace(other.spec, node_name=pod.spec.node_name)),
    "node": lambda pod, other: replace(pod, spec=replace(pod.spec, node_name=other.spec.node_name)),
    "status": lambda pod, other: replace(pod, status=other.status),
    "nothing": lambda pod, other: pod,
}
"""Which part of a pod becomes another's, which may have the same."""


def metadata(pod: Pod, **parts: Any) -> Pod:
    changed: Pod = replace(pod, metadata=replace(pod.metadata, **parts))
    return changed


def change_a_running_pod(snapshot: Snapshot, chance: random.Random, others: list[Pod]) -> None:
    """It becomes in one or two parts as another one."""
    running = [pod for _, pod in snapshot.running_pods()]
    if not running or not others:
        return
    pod = chance.choice(running)
    for part in chance.sample(sorted(PARTS), chance.choice((1, 1, 2))):
        pod = PARTS[part](pod, chance.choice(others))
    snapshot.put("Pod", metadata(pod, resource_version=str(chance.randrange(10**6))))


def check_policies(seed: int) -> None:
    """Change running pods at random; after every few changes, policies that read all there is of them decide alike."""
    chance, asked = random.Random(seed), question(seed)
    objects = stored_cluster(asked.cluster)
    changing = prepare(Snapshot.build(objects), KubeScheduler((asked.profile,)))
    others = [*objects.pods, *(typed(one) for one in question(seed + 1).cluster["items"] if one["kind"] == "Pod")]
    for _ in range(6):
        for _ in range(chance.randint(1, 4)):
            change_a_running_pod(changing, chance, others)
        changing.refresh_layout()
        assert asked.ask(changing) == asked.ask(Snapshot.build(changing.objects.frozen())), (
            "the changed snapshot answers otherwise than a new one"
        )


def put(snapshot: Snapshot, kind: str, one: Any) -> None:
    """As the store does: an object of the same name with another UID is another object."""
    held: Any = snapshot.objects.of(kind).get(key_of(kind, one))
    if held is not None and held.metadata.uid != one.metadata.uid:
        snapshot.remove(kind, key_of(kind, one))
    snapshot.put(kind, one)


def compare(changed: Snapshot, pod) -> None:
    rebuilt = Snapshot.build(changed.objects.frozen())
    assert Evaluation(changed, pod, Profile()).to_dict() == Evaluation(rebuilt, pod, Profile()).to_dict(), (
        "the changed snapshot decides otherwise than a new one"
    )


@SOME
@given(SEEDS)
def test_a_changed_snapshot_decides_as_a_new_one(seed):
    check(seed)


@SOME
@given(SEEDS)
def test_policies_decide_by_the_parts_of_running_pods_that_changed(seed):
    check_policies(seed)
