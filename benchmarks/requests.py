"""Request bodies as kube-scheduler sends them: the bytes differ, since every call is about another pod."""

import random
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter

from benchmarks import generate
from benchmarks.bodies import names_body, nodes_body, victims_body
from benchmarks.generate import JSON
from benchmarks.world import World
from extender.core.engine import Candidate
from extender.k8s.objects import Pod

REPLICAS = 8
"""Number of replicas of one template that are sent in turn."""


def replicas(pod: JSON) -> Iterator[JSON]:
    for number in range(REPLICAS):
        own = {"name": f"{pod['metadata']['name']}-{number}", "uid": f"{pod['metadata']['uid'][:-1]}{number}"}
        yield pod | {"metadata": pod["metadata"] | own}


def filter_bodies(world: World, fits: bool, count: int = 0) -> list[bytes]:
    """Bodies for a pod that fits everywhere or nowhere, on `count` nodes (0: all), names rotated for each replica."""
    pod = generate.undemanding(world.plan) if fits else generate.incoming(world.plan)
    chance, names = random.Random(world.plan.seed), world.node_names
    return [names_body(one, rotated(some(names, count, chance), chance)) for one in replicas(pod)]


def preempt_body(world: World, count: int = 0) -> bytes:
    """Body with the first `count` candidates (0: all), victims by UID.

    The preemptor is always the same: victims approved for another preemptor would change the next decision.
    """
    return victims_body(generate.incoming(world.plan), world.candidates[: count or None])


def new_preempt_bodies(world: World, count: int, how_many: int, first: int = 1) -> list[bytes]:
    """Return the bodies number `first`, `first` + 1, and so on, each with its own sample of candidates and victims.

    The number is added to NumPDBViolations: no candidate is sent twice, and it hardly helps a service to keep what it
    read. Nodes are sorted as in Go's maps, victims by importance.
    """
    pod, every, bodies = generate.incoming(world.plan), world.candidates, list[bytes]()
    for number in range(first, first + how_many):
        chance = random.Random(number)
        chosen = chance.sample(every, min(count or len(every), len(every)))
        changed = [_changed(one, world.evictable[one.node], number, chance) for one in chosen]
        bodies.append(victims_body(pod, sorted(changed, key=attrgetter("node"))))
    return bodies


def _changed(candidate: Candidate, evictable: list[Pod], violations: int, chance: random.Random) -> Candidate:
    """Return the candidate with one victim more or less, and with so many violations more."""
    toggled = chance.choice(evictable).metadata.uid
    uids = {victim.metadata.uid for victim in candidate.victims} ^ {toggled} or {toggled}
    victims = tuple(pod for pod in evictable if pod.metadata.uid in uids)
    return Candidate(candidate.node, victims, candidate.num_pdb_violations + violations)


def full_nodes_body(world: World, fits: bool, replica: int = 0) -> bytes:
    """Body with all Node objects in full, for this replica of the pod."""
    pod = generate.undemanding(world.plan) if fits else generate.incoming(world.plan)
    pod = next(islice(replicas(pod), replica, None))
    return nodes_body(pod, (generate.full_node(world.plan, row) for row in range(world.plan.nodes)))


def templates_body(world: World, count: int, fits: bool, replica: int = 0) -> bytes:
    """Body with so many template nodes, as Cluster Autoscaler makes them of nodes of the cluster."""
    pod = generate.undemanding(world.plan) if fits else generate.incoming(world.plan)
    pod = next(islice(replicas(pod), replica, None))
    return nodes_body(pod, (template(world, row) for row in range(count)))


def template(world: World, row: int) -> JSON:
    node, name = generate.full_node(world.plan, row % world.plan.nodes), f"template-node-for-pool-{row}"
    labels = node["metadata"]["labels"] | {"kubernetes.io/hostname": name}
    return node | {"metadata": node["metadata"] | {"name": name, "uid": f"uid-{name}", "labels": labels}}


def some(names: list[str], count: int, chance: random.Random) -> list[str]:
    return chance.sample(names, min(count, len(names))) if count else names


def rotated(names: list[str], chance: random.Random) -> list[str]:
    """Rotate the names as kube-scheduler does, which starts after the last node it tried (nextStartNodeIndex)."""
    start = chance.randrange(len(names))
    return names[start:] + names[:start]
