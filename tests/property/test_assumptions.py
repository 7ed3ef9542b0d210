"""H6: whatever callers say, the cluster cache shows every object of the API server, and soon nothing else.

Beside each other: a cache that hostile calls reach, and one that gets only the lists and events. A seed gives both the
same history.

    python -c 'from tests.property.test_assumptions import check; check(4711)'
"""

from collections.abc import Iterator
from random import Random

import numpy as np
from hypothesis import given
from msgspec.structs import replace

from extender.cluster.cache import cache as cache_module
from extender.cluster.cache.assume import ASSUMPTION_TTL_SECONDS, MAX_UNKNOWN_PREEMPTORS
from extender.cluster.cache.cache import Change, ClusterCache
from extender.core import engine
from extender.core.profile import PreemptionPolicy, Profile
from extender.core.snapshot.pod_table import ASSUMED_DELETION_TIMESTAMP, is_finished
from extender.k8s.candidates import SentCandidate
from extender.k8s.objects import Pod
from tests.builders import STARTED, cluster, node, pod, stored_cluster, typed
from tests.fakes.clock import Clock
from tests.profiles import SEEDS, examples

STEPS = 60
NODES = ("n1", "n2", "n3")
NAMES = tuple("abcdef")
GHOSTS = ("ghost", "phantom")
"""Names of pods that no API server ever had."""

ALL_NODES = Profile(preemption=PreemptionPolicy(candidates="AllNodes"))


class World:
    """An API server with a few pods, a cache that hostile calls reach, and one that they do not."""

    def __init__(self, seed: int) -> None:
        self.chance, self.clock = Random(seed), Clock()
        self.attacked, self.plain = ClusterCache(self.clock), ClusterCache(self.clock)
        self.caches = self.attacked, self.plain
        self.pods: dict[str, Pod] = {}
        """Name -> the pod that the API server has now."""
        self.uids: list[str] = []
        self.states: list[Pod] = []
        """All states that the API server sent, and what was made of them."""
        self.history: list[Change] = []
        self.undelivered: list[Change] = []
        self.version = 10
        nodes = stored_cluster(cluster({node(name): [] for name in NODES}))
        for one in self.caches:
            one.replace(nodes)

    # --- the API server ---

    def write(self) -> None:
        """One pod is created, changed or deleted; its event is on its way."""
        name = self.chance.choice(NAMES)
        there = self.pods.get(name)
        self.version += 1
        version = {"resourceVersion": str(self.version)}
        if there is None:
            uid = f"{name}#{sum(one.startswith(name) for one in self.uids)}"
            self.uids.append(uid)
            on = self.chance.choice(("", "", *NODES))
            self.pods[name] = typed(
                pod(name, priority=self.chance.randint(0, 20), metadata={"uid": uid} | version, nodeName=on)
            )
        elif self.chance.random() < 0.3:
            last = replace(there, metadata=replace(there.metadata, resource_version=str(self.version)))
            self.note(Change("Pod", last, deleted=True))
            del self.pods[name]
            return
        else:
            self.pods[name] = self.changed(there)
        self.note(Change("Pod", self.pods[name]))

    def changed(self, one: Pod) -> Pod:
        """The pod after some update; a deletion is never taken back, and no pod changes its node."""
        metadata, spec, status = one.metadata, one.spec, one.status
        match self.chance.randrange(5):
            case 0:
                metadata = replace(metadata, labels={"app": self.chance.choice(NAMES)})
            case 1:
                metadata = replace(metadata, deletion_timestamp=STARTED)
            case 2:
                spec = replace(spec, node_name=spec.node_name or self.chance.choice(NODES))
            case 3:
                status = replace(status, nominated_node_name=self.chance.choice(NODES))
            case _:
                status = replace(status, phase="Failed")
        return replace(one, metadata=replace(metadata, resource_version=str(self.version)), spec=spec, status=status)

    def note(self, change: Change) -> None:
        self.history.append(change)
        self.undelivered.append(change)
        assert isinstance(change.object, Pod)
        self.states.append(change.object)

    def deliver(self) -> None:
        """Some events arrive, possibly together with old ones."""
        count = self.chance.randint(1, 4)
        arriving, self.undelivered = self.undelivered[:count], self.undelivered[count:]
        if self.history and self.chance.random() < 0.2:
            arriving.append(self.chance.choice(self.history))
        for change in arriving:
            for one in self.caches:
                one.apply(change)

    def relist(self) -> None:
        """A list arrives, with calls between its parts."""
        listed = tuple(self.pods.values())
        self.attack_during(self.attacked.relist("Pod", listed))
        for _ in self.plain.relist("Pod", listed):
            pass
        for one in self.caches:
            one.listed_at["Pod"] = str(self.version)

    def rebuild(self) -> None:
        self.attack_during(self.attacked.rebuild())

    def attack_during(self, steps: Iterator[None]) -> None:
        for _ in steps:
            if self.chance.random() < 0.3:
                self.attack()

    # --- hostile calls ---

    def preemptor(self) -> Pod:
        """A pod that claims to be whatever helps: a name, UID and state of others."""
        if self.states and self.chance.random() < 0.4:
            return self.chance.choice(self.states)
        next_uids = [f"{name}#{number}" for name in NAMES for number in range(3)]
        claims = {
            "uid": self.chance.choice((*self.uids, *next_uids, "uid-ghost", "")),
            "resourceVersion": self.chance.choice(("", "1", "9" * 18)),
        }
        return typed(
            pod(
                self.chance.choice((*NAMES, *GHOSTS)),
                priority=100,
                metadata=claims,
                phase=self.chance.choice(("Pending", "Pending", "Running")),
                nodeName=self.chance.choice(("", "", "", *NODES)),
            )
        )

    def attack(self) -> None:
        """One call for such a preemptor, or a binding."""
        preemptor, on = self.preemptor(), self.chance.choice(NODES)
        snapshot = self.attacked.snapshot()
        match self.chance.randrange(8):
            case 0:
                self.attacked.assumed.forget_preemption(preemptor)
            case 1:
                metadata = preemptor.metadata
                self.attacked.assumed.assume_bound(metadata.namespace, metadata.name, metadata.uid, on)
            case 2 | 3:
                others = self.chance.sample(self.states, min(len(self.states), 3))
                self.attacked.assumed.assume_preempted(preemptor, on, [*snapshot.pods_on(on), *others])
            case _:
                self.decide(preemptor, on)

    def decide(self, preemptor: Pod, on: str) -> None:
        """Decide as /preempt does; the victims must run, and must be others."""
        snapshot = self.attacked.snapshot()
        victims = tuple(one.metadata.uid for one in snapshot.pods_on(on))
        decision = engine.preempt(snapshot, preemptor, {on: SentCandidate(victims)}, ALL_NODES)
        for candidate in decision.kept:
            for victim in candidate.victims:
                assert victim.metadata.uid != preemptor.metadata.uid, "a pod is its own victim"
                assert victim.metadata.uid in self.uids, "a victim that does not exist"
            assert not preemptor.spec.node_name, "a preemption for a pod that runs"
            assert preemptor.metadata.deletion_timestamp is None, "a preemption for a terminating pod"
            self.attacked.assumed.assume_preempted(preemptor, candidate.node, candidate.victims)

    # --- what must hold ---

    def check(self) -> None:
        """Every object of the API server is there as it sent it, but for what an assumption may say about it."""
        snapshot, plain = self.attacked.snapshot(), self.plain.snapshot()
        shown, sent = snapshot.objects.pods, plain.objects.pods
        from_api = {one.metadata.name: one for one in self.attacked.api_objects().pods}
        assert from_api == {one.metadata.name: one for one in sent.values()}, (
            "an object of the API server is displaced or hidden"
        )
        for key, one in sent.items():
            assert without_assumptions(shown[key], one) == one, "an assumption changes another field"
        uids = {one.metadata.uid for one in sent.values()}
        added = [one for key, one in shown.items() if key not in sent]
        assert len(added) <= MAX_UNKNOWN_PREEMPTORS, "more unknown preemptors than the limit"
        for one in added:
            assert one.status.nominated_node_name
            assert not one.spec.node_name
            assert one.metadata.uid not in uids
        running = [one for one in shown.values() if one.spec.node_name and not is_finished(one)]
        assert {one.metadata.uid for one in running} == snapshot.pod_table.row_of.keys(), (
            "a row for a pod that does not run, or none for one that does"
        )
        assert all(snapshot.running_row(one) is not None for one in sent.values() if runs(one))

    def check_end(self) -> None:
        """Nothing is assumed any more, and the two caches are the same."""
        self.clock.now += ASSUMPTION_TTL_SECONDS
        snapshot, plain = self.attacked.snapshot(), self.plain.snapshot()
        assert len(self.attacked.assumed) == 0, "assumptions are left"
        assert not self.attacked.assumed.effects()
        assert snapshot.objects.pods == plain.objects.pods, "pods differ from the API server"
        assert np.array_equal(snapshot.used, plain.used), "used resources differ"
        assert snapshot.pod_table.row_of.keys() == plain.pod_table.row_of.keys()
        assert {one.key for one in snapshot.nominees} == {one.key for one in plain.nominees}, "nominated pods differ"


def runs(one: Pod) -> bool:
    return bool(one.spec.node_name) and not is_finished(one)


def without_assumptions(shown: Pod, sent: Pod) -> Pod:
    """What is shown, with the API server's word on what an assumption may change."""
    metadata, spec, status = shown.metadata, shown.spec, shown.status
    if metadata.deletion_timestamp == ASSUMED_DELETION_TIMESTAMP:
        metadata = replace(metadata, deletion_timestamp=sent.metadata.deletion_timestamp)
    if not sent.spec.node_name:
        spec = replace(spec, node_name="")
        status = replace(status, nominated_node_name=sent.status.nominated_node_name)
    return replace(shown, metadata=metadata, spec=spec, status=status)


def check(seed: int) -> None:
    """Run the history of a seed."""
    world = World(seed)
    in_place = cache_module.MAX_CHANGES_IN_PLACE
    cache_module.MAX_CHANGES_IN_PLACE = world.chance.choice((0, in_place))
    steps = {world.write: 6, world.deliver: 6, world.relist: 1, world.rebuild: 1, world.attack: 8}
    try:
        for _ in range(STEPS):
            (step,) = world.chance.choices(list(steps), list(steps.values()))
            step()
            world.clock.now += world.chance.choice((0.0, 0.0, 1.0, 10.0))
            world.check()
        world.check_end()
    finally:
        cache_module.MAX_CHANGES_IN_PLACE = in_place


@examples(8, 400, 40_000)
@given(SEEDS)
def test_H6_no_call_displaces_or_hides_an_object_of_the_api_server(seed):
    check(seed)
