"""Services and controllers of the incoming pod: kube-scheduler's own spread constraints take their selectors."""

from typing import Final

from tests.upstream.generate.cluster import LATER
from tests.upstream.generate.scenario import Scenario, expression
from tests.upstream.generate.words import HOST, JSON, ZONE

KINDS: Final = (
    ("Service", "v1"),
    ("Service", "v1"),
    ("ReplicationController", "v1"),
    ("ReplicaSet", "apps/v1"),
    ("StatefulSet", "apps/v1"),
    ("ReplicaSet", "apps/v1"),
)
GROUPS: Final = ("apps/v1", "batch/v1", "v1", "apps/v1beta1", "extensions/v1beta1")
ABSENT_OWNERS: Final = ("ReplicaSet", "Job", "DaemonSet", "StatefulSet", "Deployment", "ReplicationController")


def add_owners(scenario: Scenario) -> None:
    """Take topology labels from some nodes, crowd the incoming pod's namespace, add Services and controllers."""
    random = scenario.random
    _change_topology(scenario)
    labels: dict[str, str] = scenario.pod["metadata"]["labels"]
    if scenario.chance(0.1):
        labels = {}
        del scenario.pod["metadata"]["labels"]
    for pod in scenario.running():
        if scenario.chance(0.6):
            pod["metadata"]["namespace"] = scenario.incoming_namespace
        if scenario.chance(0.5) and labels:
            some = {key: value for key, value in labels.items() if scenario.chance(0.8)}
            pod["metadata"].setdefault("labels", {}).update(some)
        if scenario.chance(0.05):
            pod["metadata"]["deletionTimestamp"] = LATER
    _refer_to_owners(scenario, _add_controllers(scenario, labels))
    if scenario.chance(0.2):
        for node in scenario.nodes:
            if scenario.chance(0.3):
                effect = random.choice(["NoSchedule", "PreferNoSchedule"])
                node["spec"]["taints"] = [{"key": "dedicated", "value": "x", "effect": effect}]
    if scenario.chance(0.2):
        scenario.pod["spec"]["nodeSelector"] = {"disk": random.choice(["ssd", "hdd"])}
    if scenario.chance(0.1):
        selector = {"matchLabels": {"app": random.choice(scenario.apps)}}
        own = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
        scenario.pod["spec"]["topologySpreadConstraints"] = [own]
        scenario.tag("own-constraints")


def _change_topology(scenario: Scenario) -> None:
    for node in scenario.nodes:
        kind = scenario.random.random()
        if kind < 0.12:
            node["metadata"]["labels"].pop(ZONE, None)
        elif kind < 0.16:
            node["metadata"]["labels"].pop(HOST, None)
        elif kind < 0.2:
            node["metadata"]["labels"][ZONE] = ""
    if scenario.chance(0.1):
        for node in scenario.nodes:
            node["metadata"]["labels"].pop(ZONE, None)


def _add_controllers(scenario: Scenario, labels: dict[str, str]) -> list[JSON]:
    """Add Services and controllers; return the controllers."""
    random = scenario.random
    controllers = []
    for kind, api_version in random.sample(KINDS, random.randint(0, 4)):
        name = scenario.new_name(kind.lower()[:3])
        namespace = scenario.incoming_namespace if scenario.chance(0.85) else "dev"
        spec: JSON
        if kind == "Service":
            selector = _label_map(scenario, labels)
            spec = {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "type": "ClusterIP"}
            if random.random() < 0.9:
                spec["selector"] = selector
            scenario.add(api_version, kind, name, namespace, spec=spec)
            continue
        template = {
            "metadata": {"labels": dict(labels) or {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        of_labels = kind == "ReplicationController"
        chosen = _label_map(scenario, labels) if of_labels else _label_selector(scenario, labels)
        spec = {"replicas": 3, "selector": chosen, "template": template}
        if kind == "StatefulSet":
            spec["serviceName"] = "x"
        controllers.append(scenario.add(api_version, kind, name, namespace, spec=spec))
        scenario.tag(kind)
    return controllers


def _label_map(scenario: Scenario, labels: dict[str, str]) -> dict[str, str]:
    """Return labels that select, mostly some of the incoming pod's."""
    scenario.random.random()  # as in `_label_selector`, where it chooses the kind
    some = {key: value for key, value in labels.items() if scenario.chance(0.7)}
    selected = some or {"app": scenario.random.choice(scenario.apps)}
    return {} if scenario.chance(0.06) else selected


def _label_selector(scenario: Scenario, labels: dict[str, str]) -> JSON:
    random = scenario.random
    kind = random.random()
    some = {key: value for key, value in labels.items() if scenario.chance(0.7)}
    if kind < 0.7:
        selector: JSON = {"matchLabels": some or {"app": random.choice(scenario.apps)}}
    else:
        apps = dict.fromkeys([labels.get("app", "web"), random.choice(scenario.apps)])
        requirement = random.choice(
            [
                expression("app", "In", *apps),
                expression("app", "Exists"),
                expression("tier", "NotIn", "back"),
                expression("nolabel", "DoesNotExist"),
            ]
        )
        selector = {"matchExpressions": [requirement]}
        if scenario.chance(0.5):
            selector["matchLabels"] = some or {"app": random.choice(scenario.apps)}
    return {} if scenario.chance(0.06) else selector


def _refer_to_owners(scenario: Scenario, controllers: list[JSON]) -> None:
    """Let the incoming pod be of one controller or two, or of one that is gone."""
    random = scenario.random
    kind = random.random()
    if controllers and kind < 0.75:
        owners = random.sample(controllers, random.choice([1, 1, min(2, len(controllers))]))
        references = [_reference(owner) for owner in owners]
        for reference in references[1:]:
            reference["controller"] = scenario.chance(0.3)
        scenario.pod["metadata"]["ownerReferences"] = references
    elif kind < 0.9:
        absent = {
            "apiVersion": random.choice(GROUPS),
            "kind": random.choice(ABSENT_OWNERS),
            "name": "gone",
            "uid": scenario.uid(),
            "controller": scenario.chance(0.9),
        }
        scenario.pod["metadata"]["ownerReferences"] = [absent]


def _reference(owner: JSON) -> JSON:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
