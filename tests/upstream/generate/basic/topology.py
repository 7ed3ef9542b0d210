"""Pods that look at other pods: topology spread constraints, affinity and anti-affinity between pods."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from tests.upstream.generate.cluster import LATER
from tests.upstream.generate.scenario import Scenario, expression
from tests.upstream.generate.words import HOST, JSON, PREFERRED, REGION, REQUIRED, ZONE

# --- selectors --------------------------------------------------------------------------------------------------------


def _pod_selector(scenario: Scenario) -> JSON | None:
    """Return a label selector that selects some pods, rarely all or none."""
    random = scenario.random
    kind = random.random()
    if kind < 0.6:
        return {"matchLabels": {"app": random.choice(scenario.apps)}}
    if kind < 0.7:
        return {"matchLabels": {"tier": random.choice(["front", "back"])}}
    if kind < 0.95:
        operator = random.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        requirement: JSON = {"key": random.choice(["app", "tier"]), "operator": operator}
        if operator in ("In", "NotIn"):
            requirement["values"] = scenario.some(scenario.apps, 2) if requirement["key"] == "app" else ["front"]
        return {"matchExpressions": [requirement]}
    return {} if kind < 0.98 else None


def _merge_label_keys(selector: JSON, keys: Sequence[str], labels: dict[str, str], operator: str) -> None:
    """Add to the selector what an API server adds for (mis)matchLabelKeys of a new pod."""
    for key in keys:
        if key in labels:
            selector.setdefault("matchExpressions", []).append(expression(key, operator, labels[key]))


def _add_racks(scenario: Scenario) -> None:
    for node in scenario.nodes:
        node["metadata"]["labels"]["rack"] = scenario.random.choice(["r1", "r2", "r3"])


# --- topology spread --------------------------------------------------------------------------------------------------


def add_spread_constraints(scenario: Scenario) -> None:
    """Give the incoming pod constraints, and crowd some topologies with pods that they count."""
    labels = scenario.pod["metadata"].get("labels", {})
    if scenario.category == "spread" and scenario.chance(0.07) and labels:
        _add_owners(scenario, labels)
        return
    if scenario.chance(0.3):
        _add_racks(scenario)
    for node in scenario.nodes:
        if scenario.chance(0.05):
            node["metadata"]["labels"].pop(scenario.random.choice([ZONE, HOST]), None)
            scenario.tag("missing-topology")
        elif scenario.chance(0.01):
            node["metadata"]["labels"][ZONE] = ""
            scenario.tag("empty-topology-value")
    scenario.pod["spec"]["topologySpreadConstraints"] = _constraints(scenario, labels)
    if labels.get("app"):
        _crowd(scenario, labels["app"])
    if scenario.chance(0.2) and "affinity" not in scenario.pod["spec"]:
        term = {"matchExpressions": [expression("disk", "In", "ssd")]}
        scenario.pod["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    if scenario.chance(0.2):
        for node in scenario.nodes:
            if scenario.chance(0.3):
                taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
                node["spec"].setdefault("taints", []).append(taint)


def _add_owners(scenario: Scenario, labels: dict[str, str]) -> None:
    """Let a Service, and perhaps a ReplicaSet, select the pod, so that kube-scheduler's own constraints apply."""
    scenario.tag("default-spread")
    port = {"port": 80, "protocol": "TCP", "targetPort": 80}
    service: JSON = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "svc", "namespace": "default", "uid": scenario.uid()},
        "spec": {"selector": {"app": labels["app"]}, "ports": [port]},
    }
    scenario.others.append(service)
    if scenario.chance(0.5):
        selected = {"app": labels["app"], "version": "v1"}
        template = {"metadata": {"labels": selected}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        owner: JSON = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
        metadata = {"name": "rs", "namespace": "default", "uid": scenario.uid()}
        spec = {"replicas": 3, "selector": {"matchLabels": selected}, "template": template}
        scenario.others.append({**owner, "metadata": metadata, "spec": spec})
        reference = {**owner, "name": "rs", "uid": scenario.uid(), "controller": True}
        scenario.pod["metadata"]["ownerReferences"] = [reference]


def _constraints(scenario: Scenario, labels: dict[str, str]) -> list[JSON]:
    random = scenario.random
    constraints: dict[tuple[str, str], JSON] = {}
    for _ in range(random.choice([1, 1, 2, 3])):
        key = random.choice([ZONE, ZONE, HOST, HOST, "rack", REGION, "disk"])
        action = random.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"])
        if (key, action) not in constraints:
            constraints[key, action] = _constraint(scenario, labels, key, action)
    return [*constraints.values()]


def _constraint(scenario: Scenario, labels: dict[str, str], key: str, action: str) -> JSON:
    random = scenario.random
    constraint: JSON = {"maxSkew": random.choice([1, 1, 1, 2, 3]), "topologyKey": key, "whenUnsatisfiable": action}
    own = bool(labels.get("app")) and scenario.chance(0.6)
    selector = {"matchLabels": {"app": labels["app"]}} if own else _pod_selector(scenario)
    if selector is None:
        scenario.tag("spread-nil-selector")
    else:
        constraint["labelSelector"] = selector
    if selector == {}:
        scenario.tag("spread-empty-selector")
    if action == "DoNotSchedule" and scenario.chance(0.25):
        constraint["minDomains"] = random.randint(1, 5)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if scenario.chance(0.3):
            constraint[policy] = random.choice(["Honor", "Ignore"])
    if selector is not None and scenario.chance(0.25):
        constraint["matchLabelKeys"] = random.sample(["version", "tier", "absent"], random.randint(1, 2))
        if scenario.chance(0.8):
            _merge_label_keys(selector, constraint["matchLabelKeys"], labels, "In")
        scenario.tag("spread-matchlabelkeys")
    return constraint


def _crowd(scenario: Scenario, app: str) -> None:
    """Let pods of some nodes be of the incoming pod's namespace and app."""
    random = scenario.random
    count = max(1, round(len(scenario.nodes) * random.choice([0.3, 0.5, 0.8, 1.0])))
    for node in random.sample(scenario.nodes, count):
        for pod in scenario.running_on(node["metadata"]["name"]):
            if scenario.chance(0.6):
                metadata = pod["metadata"]
                metadata["namespace"] = scenario.incoming_namespace if scenario.chance(0.95) else "default"
                metadata.setdefault("labels", {})["app"] = app
                if scenario.chance(0.4):
                    metadata["labels"]["version"] = "v1"
                if scenario.chance(0.04):
                    metadata["deletionTimestamp"] = LATER
                    scenario.tag("spread-terminating")


# --- affinity between pods --------------------------------------------------------------------------------------------


def add_pod_affinity(scenario: Scenario) -> None:
    """Give the incoming pod and running ones terms: required and preferred, towards and away from pods."""
    random = scenario.random
    scenario.namespace_labels = {"prod": {"team": "red"}, "dev": {"team": "blue"}}
    if scenario.chance(0.3):
        scenario.namespace_labels["default"] = {"team": "red"}
    if scenario.chance(0.4):
        _add_racks(scenario)
    labels = scenario.pod["metadata"].setdefault("labels", {"app": scenario.apps[0]})
    affinity = scenario.pod["spec"].setdefault("affinity", {})
    mode = random.choice(["anti", "anti", "sym", "sym", "aff", "both", "pref"])
    scenario.tag(f"ipa-{mode}")
    if mode in ("anti", "both"):
        affinity.setdefault("podAntiAffinity", {})[REQUIRED] = [
            _anti_affinity_term(scenario, labels) for _ in range(random.choice([1, 1, 2]))
        ]
    if mode in ("aff", "both"):
        _require_affinity(scenario, affinity.setdefault("podAffinity", {}), labels)
    if mode == "pref" or scenario.chance(0.5):
        for kind in ("podAffinity", "podAntiAffinity"):
            if scenario.chance(0.7):
                affinity.setdefault(kind, {})[PREFERRED] = [
                    {"weight": random.choice([1, 10, 50, 100]), "podAffinityTerm": _term(scenario, labels)}
                    for _ in range(random.randint(1, 3))
                ]
    share = 0.45 if mode in ("sym", "both") else 0.15
    for pod in scenario.running():
        if scenario.chance(share):
            _add_term(scenario, pod, labels["app"])
    if not affinity:
        del scenario.pod["spec"]["affinity"]


def _anti_affinity_term(scenario: Scenario, labels: dict[str, str]) -> JSON:
    random = scenario.random
    selector = {"matchLabels": {"app": random.choice(scenario.apps)}} if scenario.chance(0.7) else None
    return _term(scenario, labels, selector, random.choice([HOST, HOST, HOST, ZONE]))


def _require_affinity(scenario: Scenario, affinity: JSON, labels: dict[str, str]) -> None:
    random = scenario.random
    affinity[REQUIRED] = [
        _term(scenario, labels, key=random.choice([ZONE, ZONE, HOST, REGION])) for _ in range(random.choice([1, 1, 2]))
    ]
    if scenario.chance(0.25):  # it matches the pod itself and no other
        labels["solo"] = "yes"
        affinity[REQUIRED] = [
            {"topologyKey": random.choice([ZONE, HOST]), "labelSelector": {"matchLabels": {"solo": "yes"}}}
        ]
        scenario.tag("ipa-self")


def _add_term(scenario: Scenario, pod: JSON, incoming_app: str) -> None:
    """Give a running pod a term about pods like the incoming one, or any."""
    random = scenario.random
    labels = pod["metadata"].get("labels", {})
    kind = random.random()
    selector = {"matchLabels": {"app": incoming_app}} if scenario.chance(0.6) else None
    affinity: dict[str, Any] = pod["spec"].setdefault("affinity", {})
    side = affinity.setdefault("podAffinity" if 0.55 <= kind < 0.85 else "podAntiAffinity", {})
    if kind < 0.55:
        side[REQUIRED] = [_term(scenario, labels, selector, random.choice([HOST, HOST, HOST, ZONE]))]
    elif kind < 0.7:
        side[REQUIRED] = [_term(scenario, labels, selector)]
    else:
        weight = random.choice([1, 30, 100])
        side[PREFERRED] = [{"weight": weight, "podAffinityTerm": _term(scenario, labels, selector)}]


def _term(scenario: Scenario, labels: dict[str, str], selector: JSON | None = None, key: str | None = None) -> JSON:
    """Return a term of a pod with these labels."""
    random = scenario.random
    selector = _pod_selector(scenario) if selector is None else selector
    term: JSON = {"topologyKey": key or random.choice([ZONE, HOST, HOST, "disk", "rack"])}
    if selector is None:
        scenario.tag("term-nil-selector")
    else:
        term["labelSelector"] = deepcopy(selector)
    kind = random.random()
    if kind < 0.12:
        term["namespaces"] = random.sample(["default", "prod", "dev"], random.randint(1, 2))
    elif kind < 0.3:
        term["namespaceSelector"] = _namespace_selector(scenario)
        if scenario.chance(0.2):
            term["namespaces"] = ["dev"]
    if selector is not None and scenario.chance(0.15):
        matching = scenario.chance(0.5)
        term["matchLabelKeys" if matching else "mismatchLabelKeys"] = ["version"]
        if scenario.chance(0.85):
            _merge_label_keys(term["labelSelector"], ["version"], labels, "In" if matching else "NotIn")
        scenario.tag("term-labelkeys")
    return term


def _namespace_selector(scenario: Scenario) -> JSON:
    random = scenario.random
    kind = random.random()
    if kind < 0.25:
        return {}
    if kind < 0.6:
        return {"matchLabels": {"team": random.choice(["red", "blue"])}}
    if kind < 0.75:
        return {"matchExpressions": [expression("team", "In", "red", "blue")]}
    # What these select changes once namespaces without the label are merged into the term's own ones.
    negative = random.choice([expression("team", "NotIn", "red"), expression("team", "DoesNotExist")])
    scenario.tag("nssel-negative")
    return {"matchExpressions": [negative]}
