"""Verdicts that are kept by scheduling signature are those of a snapshot that is built from the same objects.

python -c 'from tests.property.test_scheduling_signatures import check; check(4711)'
"""

import random
from dataclasses import replace as replace_fields

import pytest
from hypothesis import given
from msgspec.structs import replace

from extender.core import engine
from extender.core.framework.filter import scheduling_context
from extender.core.framework.scheduling_signature import sign_pod
from extender.core.profile import Profile, ScoringStrategy
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import PluginFailed
from extender.k8s.objects import Container, Pod, PodStatus, ResourceRequirements
from tests.builders import typed
from tests.profiles import SEEDS, examples
from tests.property.generate import case
from tests.property.test_changes import change, metadata, objects_of, put

SOME = examples(1, 60, 20_000)
PROFILE = Profile()
PROFILES = [
    PROFILE,
    PROFILE,
    replace_fields(PROFILE, fit_strategy=ScoringStrategy("MostAllocated", (("ephemeral-storage", 2), ("cpu", 1)))),
    replace_fields(
        PROFILE,
        fit_strategy=ScoringStrategy(
            "RequestedToCapacityRatio", (("cpu", 3), ("pods", 1)), ((0, 0), (70, 10), (100, 1))
        ),
        balanced_resources=("cpu", "memory", "ephemeral-storage"),
    ),
    replace_fields(PROFILE, prefilter_plugins=(), default_spread_constraints=()),
    replace_fields(PROFILE, filter_plugins=("TaintToleration",), prescore_plugins=("TaintToleration",)),
    replace_fields(PROFILE, score_weights=(("TaintToleration", 7), ("NodeResourcesFit", 2), ("PodTopologySpread", 1))),
]
STEPS = 15


def check(seed: int) -> int:
    """Ask for the same few templates after every change; return how many answers could be kept ones."""
    chance = random.Random(seed)
    profile = chance.choice(PROFILES)
    templates = [one for number in range(3) for one in variants(typed(case(seed + number).pod), chance)]
    material = [one for number in range(3) for one in objects_of(seed + number)]
    running = [(kind, one) for kind, one in material if kind == "Pod"]
    changing, signed = engine.prepare(Snapshot()), 0
    for kind, one in objects_of(seed):
        put(changing, kind, one)
    for step in range(STEPS):
        for _ in range(chance.choice((0, 1, 1, 2))):
            change(changing, chance, material if chance.random() < 0.2 else running)
        changing.refresh_layout()
        rebuilt = Snapshot.build(changing.objects.frozen())
        for number, template in enumerate(templates):
            pod = metadata(template, name=f"replica-{step}-{number}", uid=f"uid-{step}-{number}")
            names = chance.sample(changing.node_names, chance.randint(0, len(changing.node_names)))
            for _ in range(2):
                assert answers(changing, pod, names, profile) == answers(rebuilt, pod, names, profile), (
                    "cached verdicts differ from those of a new snapshot"
                )
            signed += sign_pod(pod) is not None
    return signed


def variants(pod: Pod, chance: random.Random) -> list[Pod]:
    """The pod as it is, and one that is more likely to have kept verdicts and to fit."""
    cpu = chance.choice(("0", "10m", "500m", "2"))
    container = Container("main", "registry/app", ResourceRequirements({"cpu": cpu, "memory": "10Mi"}))
    spec = replace(
        pod.spec,
        volumes=None,
        affinity=replace(pod.spec.affinity, pod_affinity=None, pod_anti_affinity=None) if pod.spec.affinity else None,
        topology_spread_constraints=None,
        resource_claims=None,
        containers=[container],
        init_containers=None,
        resources=None,
    )
    return [pod, replace(pod, spec=spec, status=PodStatus())]


def answers(snapshot: Snapshot, pod: Pod, names: list[str], profile: Profile) -> list[object]:
    """Everything that a caller and an explanation read."""
    found: list[object] = []
    for verb in (engine.filter, engine.prioritize):
        try:
            decision = verb(snapshot, pod, names, profile)
        except PluginFailed as error:
            found.append(str(error))
            continue
        found.append(decision)
        behind = decision.evaluation
        assert behind is not None
        if verb is engine.filter:
            found += [behind.statuses.to_list(), behind.preemption_helps.tolist()]
        else:
            by_name = [snapshot.node_names[row] for row in behind.scores.rows.tolist()]
            columns = {
                name: dict(zip(by_name, column.tolist(), strict=True)) for name, column in behind.scores.plugins.items()
            }
            found += [columns, list(columns), behind.scores.highest]
    return found


@SOME
@given(SEEDS)
def test_kept_verdicts_are_those_of_a_new_snapshot(seed):
    check(seed)


@pytest.mark.slow
def test_pods_of_the_generator_have_signatures():
    assert check(1) > STEPS
    context = scheduling_context(Snapshot(), variants(typed(case(1).pod), random.Random(1))[1], PROFILE)
    assert sign_pod(context.pod) is not None
