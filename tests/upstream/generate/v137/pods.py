"""Pods that preemption and affinity must tell apart: not started, under several budgets, gated, of other namespaces."""

from datetime import timedelta
from typing import Final

from tests.upstream.generate.basic.preemption import anti_affinity, share_host_port
from tests.upstream.generate.scenario import Scenario, expression
from tests.upstream.generate.words import CREATED, EPOCH, HOST, JSON, PREFERRED, REQUIRED, ZONE, timestamp

ANY_APP: Final = expression("app", "Exists")
NOT_BACK: Final = expression("tier", "NotIn", "back")
EVERY_POD: Final = expression("nolabel", "DoesNotExist")
MOST_OF_A_PRIORITY: Final = 2000000000


# --- start times ------------------------------------------------------------------------------------------------------


def leave_unstarted(scenario: Scenario) -> None:
    """Let running pods of mostly one priority have no start time, or nearly the same one."""
    random = scenario.random
    priority = random.choice(scenario.lower_priorities) if scenario.lower_priorities else 0
    share, alike = random.choice([0.3, 0.6, 1.0]), random.choice([0.5, 0.8, 1.0])
    for pod in scenario.running():
        spec, status = pod["spec"], pod["status"]
        if scenario.chance(alike) and (spec.get("priority") or 0) < scenario.priority:
            if priority is None:
                spec.pop("priority", None)
            else:
                spec["priority"] = priority
        if scenario.chance(share):
            status.pop("startTime", None)
            status["phase"] = "Pending"
        elif scenario.chance(0.5):
            status["startTime"] = timestamp(EPOCH + timedelta(seconds=random.choice([0, 0, 1, 3600])))


# --- budgets ----------------------------------------------------------------------------------------------------------


def add_overlapping_budgets(scenario: Scenario) -> None:
    """Add budgets that select the same pods: by no label, by several, with pods that are evicted already."""
    random = scenario.random
    crowd = scenario.chance(0.5)  # most pods are under several budgets, of which one allows nothing
    for pod in scenario.running():
        if scenario.chance(0.1):
            pod["metadata"].pop("labels", None)
        if scenario.chance(0.95 if crowd else 0.6):
            pod["metadata"]["namespace"] = "default"
    if crowd:
        _add_crowd(scenario)
    for _ in range(random.choice([0, 1]) if crowd else random.choice([1, 2, 3, 4])):
        evicted = [pod["metadata"]["name"] for pod in scenario.running() if scenario.chance(0.15)]
        namespace = random.choice(["default"] * 6 + ["prod"])
        selector = _budget_selector(scenario)
        allowed = random.choice([0, 0, 1, 1, 2, 3])
        disrupted = dict.fromkeys(evicted, CREATED) if scenario.chance(0.25) and evicted else None
        scenario.add_budget(namespace, selector, allowed, disrupted)


def _add_crowd(scenario: Scenario) -> None:
    random = scenario.random
    wide = [{"matchExpressions": [one]} for one in (ANY_APP, EVERY_POD, NOT_BACK)]
    budgets: list[tuple[JSON, int]] = [({"matchLabels": {"app": random.choice(scenario.apps)}}, 0)]
    budgets.append((random.choice(wide), random.choice([1, 1, 2, 3])))
    for _ in range(random.choice([0, 1, 2])):
        budgets.append((random.choice(wide), random.choice([0, 1, 2])))
    random.shuffle(budgets)
    for selector, allowed in budgets:
        scenario.add_budget("default", selector, allowed)
    scenario.tag("crowd")


def _budget_selector(scenario: Scenario) -> JSON | None:
    random = scenario.random
    selectors: list[JSON | None] = [
        {},
        {"matchLabels": {"app": random.choice(scenario.apps)}},
        {"matchLabels": {"app": random.choice(scenario.apps)}},
        {"matchExpressions": [ANY_APP]},
        {"matchExpressions": [expression("tier", random.choice(["In", "NotIn"]), "back")]},
        {"matchExpressions": [EVERY_POD]},
        None,
    ]
    return random.choice(selectors)


# --- scheduling gates -------------------------------------------------------------------------------------------------


def add_gated_pods(scenario: Scenario) -> None:
    """Add nominated pods, most of which have scheduling gates; the incoming pod may have one, too."""
    random, incoming = scenario.random, scenario.pod
    for _ in range(random.choice([1, 1, 2, 3])):
        scenario.pods.append(_gated_pod(scenario))
    if scenario.chance(0.15):
        incoming["spec"]["schedulingGates"] = [] if scenario.chance(0.5) else [{"name": "example.com/h"}]
    if scenario.chance(0.2):
        incoming["status"]["nominatedNodeName"] = random.choice(scenario.node_names())


def _gated_pod(scenario: Scenario) -> JSON:
    random, own = scenario.random, scenario.priority
    namespace = random.choice(["default", "prod"])
    above = own + 1 if own < MOST_OF_A_PRIORITY else own
    priority = random.choice([own, own, above, max(own - 1, -5)])
    labels = scenario.random_labels()
    cpu = max(1, int(scenario.cpu_unit * random.choice([0.5, 1, 2])))
    containers = [scenario.container({"cpu": cpu, "memory": scenario.memory_unit // 2})]
    pod = scenario.new_pod("nom", namespace, None, priority, labels, containers)
    pod["status"]["nominatedNodeName"] = random.choice(scenario.node_names())
    if scenario.chance(0.75):
        pod["spec"]["schedulingGates"] = [{"name": "example.com/g"}]
        scenario.tag("gated")
    if scenario.chance(0.1):
        pod["spec"]["schedulerName"] = "other"
    kind = random.random()
    if kind < 0.15:
        share_host_port(pod, scenario.pod)
    elif kind < 0.35:
        affinity = anti_affinity(random.choice([HOST, ZONE]), scenario.pod["metadata"]["labels"]["app"])
        affinity["podAntiAffinity"][REQUIRED][0]["namespaces"] = ["default"]
        pod["spec"]["affinity"] = affinity
    elif kind < 0.45:
        pod["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": "absent"}]
    return pod


# --- namespaces -------------------------------------------------------------------------------------------------------


def add_namespace_selectors(scenario: Scenario) -> None:
    """Give the incoming pod and some running ones terms that select namespaces by their labels."""
    random = scenario.random
    for name in scenario.namespaces:
        labels = {"team": random.choice(["a", "b"]), "env": random.choice(["x", "y"])}
        scenario.namespace_labels[name] = {key: value for key, value in labels.items() if scenario.chance(0.7)}
    scenario.pod["spec"]["affinity"] = _affinity(scenario, random.choice(scenario.apps))
    for pod in scenario.running():
        if scenario.chance(0.12):
            pod["spec"]["affinity"] = _affinity(scenario, scenario.pod["metadata"]["labels"]["app"])


def _affinity(scenario: Scenario, app: str) -> JSON:
    random = scenario.random
    affinity: JSON = {}
    sides = ["podAffinity", "podAntiAffinity", "podAntiAffinity"]
    for side in random.sample(sides, random.choice([1, 1, 2])):
        if scenario.chance(0.6):
            affinity[side] = {REQUIRED: [_term(scenario, app) for _ in range(random.choice([1, 1, 2]))]}
        else:
            terms = [
                {"weight": random.choice([1, 50, 100]), "podAffinityTerm": _term(scenario, app)}
                for _ in range(random.choice([1, 2]))
            ]
            affinity[side] = {PREFERRED: terms}
    return affinity


def _term(scenario: Scenario, app: str) -> JSON:
    random = scenario.random
    term: JSON = {"topologyKey": random.choice([HOST, ZONE])}
    term["labelSelector"] = {"matchLabels": {"app": app}} if scenario.chance(0.9) else {}
    if random.random() < 0.85:
        term["namespaceSelector"] = random.choice(_namespace_selectors())
    if scenario.chance(0.3):
        term["namespaces"] = random.sample([*scenario.namespaces, "nowhere"], random.randint(1, 2))
    return term


def _namespace_selectors() -> list[JSON]:
    return [
        {},
        {"matchLabels": {"team": "a"}},
        {"matchExpressions": [expression("team", "NotIn", "a")]},
        {"matchExpressions": [expression("team", "NotIn", "a", "b")]},
        {"matchExpressions": [expression("env", "DoesNotExist")]},
        {"matchExpressions": [expression("team", "Exists")]},
        {"matchExpressions": [expression("team", "In", "a"), expression("env", "NotIn", "x")]},
        {"matchLabels": {"team": "nobody"}},
    ]
