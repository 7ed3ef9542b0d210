"""Scenarios of many kinds of volumes, requests, owners and devices at once; quantities are canonical."""

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from tests.upstream.generate.basic import ORDER, TOPICS, add_topics
from tests.upstream.generate.cluster import add_incoming_pod, random_cluster
from tests.upstream.generate.scenario import Scenario
from tests.upstream.generate.wide.configuration import add_service, add_what_arguments_read, random_configuration
from tests.upstream.generate.wide.devices import add_claims, add_extended_resources
from tests.upstream.generate.wide.features import add_features
from tests.upstream.generate.wide.owners import add_owners
from tests.upstream.generate.wide.podlevel import add_pod_level_resources
from tests.upstream.generate.wide.volume_objects import CLOUD_ZONES
from tests.upstream.generate.wide.volumes import add_volumes
from tests.upstream.generate.words import JSON

COMBINED: Final[Mapping[str, Callable[[Scenario], None]]] = {
    "podlevel": add_pod_level_resources,
    "volumes2": add_volumes,
    "owners": add_owners,
    "devices": add_extended_resources,
    "features": add_features,
}
"""What `everything` has two or three of."""


def wide_scenario(category: str, seed: str, number: int) -> JSON:
    """Return a scenario of the category; those of `config` have a configuration."""
    random = Random(f"own/wide/{category}/{seed}/{number}")
    scenario = Scenario(random, category, f"{category}-{seed}-{number:04}")
    BUILDERS[category](scenario)
    document = scenario.document()
    if category in ("volumes2", "everything"):
        document = _with_cloud_zones(document)
    if category == "config":
        document["config"] = random_configuration(scenario)
        document["tags"] = sorted(scenario.tags)
    return document


def _with_cloud_zones(document: JSON) -> JSON:
    """Return the scenario with zones that the translation of in-tree volumes takes for a cloud's."""
    text = json.dumps(document)
    for short, name in CLOUD_ZONES.items():
        text = text.replace(f'"{short}"', f'"{name}"')
        text = text.replace(f'"{short}__', f'"{name}__').replace(f'__{short}"', f'__{name}"')
    result: JSON = json.loads(text)
    return result


def _podlevel(scenario: Scenario) -> None:
    random_cluster(scenario, roomy=0.5, pressure="both", nodes=scenario.random.choice([2, 3, 4, 5, 6, 8]))
    add_incoming_pod(scenario, share=0.4)
    scenario.random_budgets(0, 3, 0.8)
    add_pod_level_resources(scenario)


def _volumes(scenario: Scenario) -> None:
    _add_cluster(scenario, 0.5, 0.4, [2, 3, 4, 5, 6, 8])
    add_incoming_pod(scenario, share=scenario.random.choice([0.1, 0.1, 0.3]))
    scenario.random_budgets(0, 3, 0.8)
    add_volumes(scenario)


def _owners(scenario: Scenario) -> None:
    _add_cluster(scenario, 0.3, 0.6, [3, 4, 6, 8, 10])
    add_incoming_pod(scenario, share=0.1, namespace=scenario.random.choice(["default", "default", "prod"]))
    scenario.random_budgets(0, 2, 0.8)
    add_owners(scenario)


def _devices(scenario: Scenario) -> None:
    _add_cluster(scenario, 0.5, 0.5, [2, 3, 4, 5, 6])
    add_incoming_pod(scenario, share=scenario.random.choice([0.1, 0.3]))
    scenario.random_budgets(0, 2, 0.8)
    add_extended_resources(scenario)


def _claims(scenario: Scenario) -> None:
    _add_cluster(scenario, 0.4, 0.5, [2, 3, 4, 5, 6])
    add_incoming_pod(scenario, share=scenario.random.choice([0.05, 0.2]))
    scenario.random_budgets(0, 2, 0.8)
    add_claims(scenario)


def _features(scenario: Scenario) -> None:
    _add_cluster(scenario, 0.5, 0.5, [2, 3, 4, 5, 6, 8])
    add_incoming_pod(scenario, share=scenario.random.choice([0.1, 0.3, 0.5]))
    scenario.random_budgets(0, 3, 0.8)
    add_features(scenario)


def _config(scenario: Scenario) -> None:
    """Add a mixed workload, with what the arguments of plugins look at."""
    random = scenario.random
    _add_cluster(scenario, 0.6, 0.6, [3, 4, 5, 6, 8])
    namespace = "default" if scenario.chance(0.85) else "prod"
    add_incoming_pod(scenario, namespace=namespace, share=random.choice([0.1, 0.2, 0.4]))
    scenario.random_budgets(0, 3, 0.8)
    add_what_arguments_read(scenario)
    topics = [topic for topic in ORDER if topic not in ("resources", "eligibility", "pdb")]
    for topic in sorted(random.sample(topics, random.randint(1, 4)), key=ORDER.index):
        TOPICS[topic](scenario)
    if scenario.chance(0.4):
        add_service(scenario)


def _everything(scenario: Scenario) -> None:
    random = scenario.random
    tight = scenario.chance(0.6)
    pressure = random.choice(["cpu", "both", "both", "pods"])
    random_cluster(scenario, tight=tight, roomy=0.5, pressure=pressure, nodes=random.choice([3, 4, 5, 6, 8]))
    share = random.choice([0.1, 0.3, 0.5])
    add_incoming_pod(scenario, share=share, namespace="default" if scenario.chance(0.8) else "prod")
    scenario.random_budgets(0, 3, 0.8)
    chosen = random.sample([*COMBINED], random.choice([2, 2, 3]))
    for name in sorted(chosen, key=lambda name: name != "podlevel"):  # it replaces the containers
        COMBINED[name](scenario)
        scenario.tag(f"w-{name}")
    topics = [topic for topic in ORDER if topic not in ("images", "resources", "volumes")]
    add_topics(scenario, random.sample(topics, random.randint(1, 3)))


def _add_cluster(scenario: Scenario, tight: float, roomy: float, nodes: Sequence[int]) -> None:
    """Add a cluster of one of these numbers of nodes; `tight`: the probability that nodes are full."""
    full = scenario.chance(tight)
    random_cluster(scenario, tight=full, roomy=roomy, nodes=scenario.random.choice(nodes))


BUILDERS: Final[Mapping[str, Callable[[Scenario], None]]] = {
    "podlevel": _podlevel,
    "volumes2": _volumes,
    "owners": _owners,
    "devices": _devices,
    "dra": _claims,
    "features": _features,
    "config": _config,
    "everything": _everything,
}
