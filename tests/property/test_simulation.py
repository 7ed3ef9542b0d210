"""What must hold of any simulation, on the clusters of `generate.py` with several pods that wait; an example is a seed.

What follows from every step is looked at on a snapshot that is built again, never on the one that is changed.
"""

import copy
import random
from collections import Counter

from hypothesis import given

from extender.core.profile import KubeScheduler, PreemptionPolicy, Profile
from extender.core.scheduling_cycle.schedule_one import schedule_one
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.requests import incoming_requests
from extender.k8s.storage.volumes import NO_PROVISIONER, SELECTED_NODE, claim_class, is_bound
from extender.k8s.version.features import DEFAULT_FEATURES
from extender.whatif.scenario import Scenario
from extender.whatif.scheduler import Scheduler
from extender.whatif.simulator import simulate
from tests.builders import built, typed
from tests.profiles import SEEDS, examples
from tests.property.generate import Draw, case
from tests.property.policies import question
from tests.property.test_changes import metadata
from tests.property.test_scheduling_signatures import variants

SOME = examples(3, 50, 10_000)
FEW = examples(3, 30, 5_000)


def arrivals(seed):
    """The case's own pod and three others from further seeds, by other names."""
    pods = [copy.deepcopy(case(seed + number).pod) for number in range(4)]
    for number, pod in enumerate(pods):
        pod["metadata"] |= {"name": f"new-{number}", "uid": f"uid-new-{number}"}
    return [typed(pod) for pod in pods]


def world(seed):
    """(cluster, profile, history): with any policies in half of the cases, else kube-scheduler's own."""
    asked = question(seed)
    own = Draw(seed).maybe(0.5)
    return asked.cluster, Profile(preemption=PreemptionPolicy()) if own else asked.profile, asked.history


def simulated(seed, draws=None, **options):
    cluster, profile, history = world(seed)
    here = built(cluster)
    arriving = Scenario(arrivals(seed), pending=True, seed=draws)
    return here, simulate(here, KubeScheduler((profile,)), arriving, history=history, **options)


@SOME
@given(SEEDS)
def test_every_run_ends_and_every_pod_has_its_lot(seed):
    before = built(world(seed)[0])
    here, result = simulated(seed)
    tried = {one.pod for one in result.cycles}
    placed = Counter(one.uid for one in result.cycles if one.outcome == "Scheduled")
    assert not placed or max(placed.values()) == 1, "a pod is placed twice"
    last = {one.pod: one.outcome for one in result.cycles}
    counted = result.summary
    assert counted.pending == sum(outcome == "Unschedulable" for outcome in last.values()), (
        "pending pods are miscounted"
    )
    assert "Nominated" not in last.values()
    left = {pod.key for pod in here.objects.pods.values()}
    left |= {pod for pod, outcome in last.items() if outcome == "Skipped"}  # assigned to a node that does not exist
    assert counted.scheduled + counted.pending + counted.skipped == len(tried & left), "a pod has no outcome"
    nominated = sum(bool(pod.status.nominated_node_name) for pod in (*before.nominees, *arrivals(seed)))
    nominated += sum(one.outcome == "Nominated" for one in result.cycles)
    changes = len(placed) + len(result.evicted) + nominated
    assert len(result.cycles) <= len(tried) * (1 + changes), "more cycles than attempts"
    running = {pod.key: node for node in here.node_names for pod in here.pods_on(node)}
    bound = {one.pod: one.node for one in result.cycles if one.outcome == "Scheduled"}
    gone = {one.pod for one in result.evicted}
    gone -= running.keys()  # pods of StatefulSets come back under their names
    assert bound.items() - running.items() == {(pod, node) for pod, node in bound.items() if pod in gone}, (
        "other pods are bound than the cycles say"
    )


@SOME
@given(SEEDS)
def test_only_less_important_pods_are_evicted_once_and_from_where_they_run(seed):
    cluster, profile, history = world(seed)
    here, gone = built(cluster), set()

    def watch(step):
        for victim in step.cycle.victims:
            assert victim.priority < step.cycle.pod.priority, "a victim of at least the priority of the preemptor"
            assert victim.spec.node_name == step.cycle.node, "a victim of another node"
            assert victim in here.pods_on(step.cycle.node), "a victim that does not run there"
            assert victim.metadata.uid not in gone, "evicted twice"
            gone.add(victim.metadata.uid)
        assert bool(step.cycle.victims) == (step.cycle.outcome == "Nominated"), (
            "victims without a nomination, or the reverse"
        )

    arriving = Scenario(arrivals(seed), pending=True)
    result = simulate(here, KubeScheduler((profile,)), arriving, history=history, on_step=watch)
    assert {one.uid for one in result.evicted} == gone, "other pods are evicted than the cycles say"


@SOME
@given(SEEDS)
def test_no_pod_is_bound_where_there_is_no_room_for_what_it_requests(seed):
    here, result = simulated(seed)
    rebuilt = Snapshot.build(here.frozen())
    gone = {one.pod for one in result.evicted}
    for one in result.cycles:
        if one.outcome == "Scheduled" and one.pod not in gone:
            row = rebuilt.node_row[one.node]
            (pod,) = [pod for pod in rebuilt.pods_on(one.node) if pod.key == one.pod]
            requests = {name: amount for name, amount in incoming_requests(pod, DEFAULT_FEATURES).items() if amount}
            free = dict(zip(("cpu", "memory", "pods", "ephemeral-storage"), rebuilt.allocatable[:, row], strict=True))
            used = dict(zip(free, rebuilt.used[:, row], strict=True))
            for name in {*requests, "pods"}:
                if name in free:
                    assert used[name] <= free[name], (one.pod, name)
                else:
                    assert rebuilt.scalar_used(name)[row] <= rebuilt.scalar_allocatable(name)[row], (one.pod, name)


@FEW
@given(SEEDS)
def test_every_cycle_is_what_it_would_be_on_the_same_cluster_built_again(seed):
    """Also where a pod before was of the same template, so that its verdicts are kept."""
    cluster, profile, history = world(seed)
    here = built(cluster)
    templates = [one for pod in arrivals(seed)[:2] for one in variants(pod, random.Random(seed))]
    pods = [
        metadata(template, name=f"replica-{turn}-{number}", uid=f"uid-{turn}-{number}")
        for turn in range(3)
        for number, template in enumerate(templates)
    ]
    for pod in pods:
        here.put("Pod", pod)
    here.refresh_layout()
    ours = KubeScheduler((profile,))
    scheduler = Scheduler(here, ours, history)
    scheduler.add(pods)
    for step in scheduler:
        rebuilt = schedule_one(Snapshot.build(here.frozen()), step.cycle.pod, ours, scheduler.history)
        assert rebuilt == step.cycle, "the cycle differs from that on the rebuilt cluster"


@FEW
@given(SEEDS)
def test_a_seed_decides_everything(seed):
    assert simulated(seed, draws=seed)[1] == simulated(seed, draws=seed)[1], "a seed gives two results"


def test_what_is_bound_has_its_volumes_to_itself_and_claims_that_nobody_makes_volumes_for_have_one(seeds):
    """Cases whose pod has claims; `VolumeBinding` said yes, so that what is chosen must be there."""
    chosen = made = 0
    for seed in seeds(150, 500, 20_000):
        if not case(seed).pod["spec"].get("volumes"):
            continue
        here = built(world(seed)[0])
        bound_before = {key for key, one in here.objects.claims.items() if one.spec.volume_name}
        simulate(here, KubeScheduler(), Scenario(arrivals(seed), pending=True))
        volumes = [one.spec.volume_name for one in here.objects.claims.values() if one.spec.volume_name]
        fresh = {key: one for key, one in here.objects.claims.items() if key not in bound_before}
        for key, claim in fresh.items():
            annotations = claim.metadata.annotations or {}
            volume = here.objects.volumes.get(("", claim.spec.volume_name))
            if volume is not None:
                chosen += 1
                assert volumes.count(volume.metadata.name) == 1, "two claims have one volume"
                assert volume.spec.claim_ref is not None, "a bound volume without a claim"
                assert (volume.spec.claim_ref.namespace, volume.spec.claim_ref.name) == key, (
                    "the volume is bound to another claim"
                )
                assert is_bound(claim), "the claim is not bound"
            elif SELECTED_NODE in annotations and annotations != case_annotations(seed, key):
                made += 1
                provisioner = here.objects.storage_classes["", claim_class(claim)].provisioner
                assert provisioner not in ("", NO_PROVISIONER), "a volume that no provisioner makes"
    assert chosen > 5
    assert made > 5


def case_annotations(seed, key):
    """Return the class of a claim as the case has it; None for one that came with a replacement."""
    for item in world(seed)[0]["items"]:
        own = item["metadata"]
        if item["kind"] == "PersistentVolumeClaim" and (own["namespace"], own["name"]) == key:
            return own.get("annotations") or {}
    return {}
