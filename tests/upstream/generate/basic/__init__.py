"""Scenarios of one topic each, with quantities in all spellings, and of several together (`mixed`)."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from tests.upstream.generate.basic.placement import add_host_ports, add_images, add_node_affinity, add_taints
from tests.upstream.generate.basic.preemption import (
    add_budgets,
    add_nominated_pods,
    change_eligibility,
    change_priorities,
)
from tests.upstream.generate.basic.resources import add_resources
from tests.upstream.generate.basic.topology import add_pod_affinity, add_spread_constraints
from tests.upstream.generate.basic.volumes import add_volumes
from tests.upstream.generate.cluster import add_incoming_pod, random_cluster
from tests.upstream.generate.scenario import Scenario
from tests.upstream.generate.words import JSON

TOPICS: Final[Mapping[str, Callable[[Scenario], None]]] = {
    "resources": add_resources,
    "pdb": add_budgets,
    "priorities": change_priorities,
    "taints": add_taints,
    "affinity": add_node_affinity,
    "ports": add_host_ports,
    "spread": add_spread_constraints,
    "interpod": add_pod_affinity,
    "nominated": add_nominated_pods,
    "eligibility": change_eligibility,
    "volumes": add_volumes,
    "images": add_images,
}
ORDER: Final = (
    "images",
    "resources",
    "priorities",
    "taints",
    "affinity",
    "ports",
    "spread",
    "interpod",
    "volumes",
    "nominated",
    "eligibility",
    "pdb",
)
"""Topics of one scenario, in this order: images replaces the containers, eligibility looks at running pods."""
SMALL_SHARE: Final = {"ports": 0.6, "volumes": 0.6, "interpod": 0.65, "spread": 0.65}
"""Topic -> probability that resources suffice everywhere, so that only what the topic adds can fail."""


def basic_scenario(category: str, seed: str, number: int) -> JSON:
    """Return a scenario of a topic, or of several if the category is `mixed`."""
    random = Random(f"own/{category}/{seed}/{number}")
    scenario = Scenario(random, category, f"{category}-{seed}-{number:04}")
    small = _add_cluster(scenario)
    namespace = "default" if scenario.chance(0.85) else "prod"
    add_incoming_pod(scenario, namespace=namespace, share=0.1 if small else None)
    if category == "pdb":
        add_budgets(scenario)
    elif scenario.chance(0.75):
        scenario.random_budgets(1, 4, 0.85)
    else:
        scenario.random_budgets(0, 1, 0.3)
    if category == "mixed":
        _mix(scenario)
    elif category != "pdb":
        TOPICS[category](scenario)
    if category in ("mixed", "affinity") and scenario.chance(0.04):
        _declare_features(scenario)
    return scenario.document()


def _add_cluster(scenario: Scenario) -> bool:
    """Add the cluster; return whether the incoming pod is to be small, as resources suffice everywhere."""
    category = scenario.category
    if category in SMALL_SHARE:
        small = scenario.chance(SMALL_SHARE[category])
        random_cluster(scenario, tight=not small, roomy=0.3)
        return small
    if category == "resources":
        fancy = scenario.chance(0.75)
        pressure = scenario.random.choice(["cpu", "memory", "both", "both", "pods"])
        random_cluster(scenario, roomy=0.3, fancy=fancy, pressure=pressure)
    elif category == "mixed":
        random_cluster(scenario, tight=scenario.chance(0.8), roomy=0.4, fancy=scenario.chance(0.3))
    else:
        random_cluster(scenario, roomy={"images": 0.8, "nominated": 0.5}.get(category, 0.35))
    return False


def _mix(scenario: Scenario) -> None:
    """Add several topics; volumes only rarely, as they leave little to the others."""
    topics = scenario.random.sample([topic for topic in TOPICS if topic != "volumes"], scenario.random.randint(3, 6))
    if scenario.chance(0.15):
        topics.append("volumes")
    add_topics(scenario, topics)


def add_topics(scenario: Scenario, topics: list[str]) -> None:
    """Add the topics in the order that they need, and tag the scenario with each."""
    for topic in sorted(topics, key=ORDER.index):
        TOPICS[topic](scenario)
        scenario.tag(f"f-{topic}")


def _declare_features(scenario: Scenario) -> None:
    """Let the incoming pod need a node that declares a feature."""
    scenario.pod["spec"] |= {"hostNetwork": True, "hostUsers": False}
    for node in scenario.nodes:
        if scenario.chance(0.6):
            node["status"]["declaredFeatures"] = ["UserNamespacesHostNetworkSupport"]
    scenario.tag("declared-features")
