"""Scenarios of what Kubernetes 1.37 changed, and of what the other packages leave out; quantities are canonical.

Other minors judge them, too: what they do not read changes nothing there.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from tests.upstream.generate.cluster import add_incoming_pod, random_cluster
from tests.upstream.generate.scenario import Scenario
from tests.upstream.generate.v137.configuration import add_workload, random_configuration
from tests.upstream.generate.v137.devices import (
    add_constraints,
    add_extended_resources_of_both_kinds,
    add_partitionable_devices,
    add_shared_devices,
    add_taint_rules,
)
from tests.upstream.generate.v137.nodes import add_image_volumes, declare_features
from tests.upstream.generate.v137.pods import (
    add_gated_pods,
    add_namespace_selectors,
    add_overlapping_budgets,
    leave_unstarted,
)
from tests.upstream.generate.v137.resize import add_resizes
from tests.upstream.generate.v137.volumes import add_driver_volumes
from tests.upstream.generate.words import JSON


def scenario_of_137(category: str, seed: str, number: int) -> JSON:
    """Return a scenario of the category; those of `config37` have a configuration, which may be refused."""
    random = Random(f"own/137/{category}/{seed}/{number}")
    scenario = Scenario(random, category, f"{category}-{seed}-{number:04}")
    BUILDERS[category](scenario)
    document = scenario.document()
    if category == "config37":
        document["config"] = random_configuration(scenario)
        document["tags"] = sorted(scenario.tags)
    return document


def _resize(scenario: Scenario) -> None:
    random = scenario.random
    random_cluster(scenario, roomy=0.5, pressure="both", nodes=random.choice([1, 2, 2, 3, 4, 5]))
    add_incoming_pod(scenario, share=random.choice([0.1, 0.25, 0.4]))
    scenario.random_budgets(0, 2, 0.8)
    add_resizes(scenario)


def _unstarted(scenario: Scenario) -> None:
    random = scenario.random
    random_cluster(scenario, roomy=0.15, nodes=random.choice([1, 1, 2, 3, 4, 6]))
    add_incoming_pod(scenario, share=random.choice([0.2, 0.3, 0.5]))
    scenario.random_budgets(0, 3, 0.7)
    leave_unstarted(scenario)


def _budgets(scenario: Scenario) -> None:
    random = scenario.random
    random_cluster(scenario, roomy=0.2, nodes=random.choice([1, 2, 2, 3, 4, 6]))
    add_incoming_pod(scenario, share=random.choice([0.2, 0.3, 0.5, 0.75]))
    add_overlapping_budgets(scenario)


def _gated(scenario: Scenario) -> None:
    random = scenario.random
    random_cluster(scenario, roomy=0.5, nodes=random.choice([1, 2, 3, 4, 6]))
    add_incoming_pod(scenario, share=random.choice([0.1, 0.2, 0.4]))
    scenario.random_budgets(0, 2, 0.8)
    add_gated_pods(scenario)


def _namespaces(scenario: Scenario) -> None:
    random = scenario.random
    tight = scenario.chance(0.4)
    random_cluster(scenario, tight=tight, roomy=0.5, nodes=random.choice([2, 3, 4, 6]))
    share = random.choice([0.1, 0.3])
    add_incoming_pod(scenario, share=share, namespace=random.choice(["default", "prod"]))
    scenario.random_budgets(0, 2, 0.8)
    add_namespace_selectors(scenario)


def _image_volumes(scenario: Scenario) -> None:
    random = scenario.random
    tight = scenario.chance(0.5)
    random_cluster(scenario, tight=tight, roomy=0.4, nodes=random.choice([2, 3, 4, 6]))
    add_incoming_pod(scenario, share=random.choice([0.05, 0.2, 0.5]))
    scenario.random_budgets(0, 1, 0.8)
    add_image_volumes(scenario)


def _declared(scenario: Scenario) -> None:
    random = scenario.random
    tight = scenario.chance(0.5)
    random_cluster(scenario, tight=tight, roomy=0.6, nodes=random.choice([2, 3, 4, 5]))
    add_incoming_pod(scenario, share=random.choice([0.1, 0.3]))
    scenario.random_budgets(0, 2, 0.8)
    declare_features(scenario)


def _volumes(scenario: Scenario) -> None:
    random = scenario.random
    tight = scenario.chance(0.35)
    random_cluster(scenario, tight=tight, roomy=0.6, nodes=random.choice([2, 3, 4, 5]))
    add_incoming_pod(scenario, share=random.choice([0.05, 0.2]))
    scenario.random_budgets(0, 1, 0.8)
    add_driver_volumes(scenario)


def _config(scenario: Scenario) -> None:
    random = scenario.random
    tight = scenario.chance(0.5)
    random_cluster(scenario, tight=tight, roomy=0.6, nodes=random.choice([2, 3, 4]))
    add_incoming_pod(scenario, share=random.choice([0.1, 0.3]))
    scenario.random_budgets(0, 2, 0.8)
    add_workload(scenario)


BUILDERS: Final[Mapping[str, Callable[[Scenario], None]]] = {
    "resize": _resize,
    "unstarted": _unstarted,
    "budgets37": _budgets,
    "gated": _gated,
    "namespaces": _namespaces,
    "taintrules": add_taint_rules,
    "capacity": add_shared_devices,
    "constraints": add_constraints,
    "counters": add_partitionable_devices,
    "extended": add_extended_resources_of_both_kinds,
    "imagevols": _image_volumes,
    "declared": _declared,
    "volumes37": _volumes,
    "config37": _config,
}
