"""What keeps a pod off a node, or draws it there, whatever pods there are: taints, node affinity, images; and ports."""

from typing import Final

from tests.upstream.generate.quantities import MI
from tests.upstream.generate.scenario import Scenario
from tests.upstream.generate.words import CREATED, HOST, JSON, OS, PREFERRED, REQUIRED, ZONE, stable_hash

TAINTS: Final = ("dedicated", "team", "maint")
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
ADDED_BY_ADMISSION: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints that the API server lets nearly every pod tolerate for a while."""


# --- taints -----------------------------------------------------------------------------------------------------------


def add_taints(scenario: Scenario) -> None:
    """Taint nodes, make some unschedulable, and give the incoming pod tolerations."""
    random = scenario.random
    for node in scenario.nodes:
        if scenario.chance(0.7):
            taints: dict[tuple[str, str], JSON] = {}
            for _ in range(random.randint(1, 3)):
                taint = _taint(scenario)
                taints.setdefault((taint["key"], taint["effect"]), taint)
            node["spec"]["taints"] = [*taints.values()]
        if scenario.chance(0.12):
            node["spec"]["unschedulable"] = True
            if scenario.chance(0.8):
                taint = {"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": CREATED}
                node["spec"].setdefault("taints", []).append(taint)
    if tolerations := _tolerations(scenario):
        scenario.pod["spec"]["tolerations"] = tolerations


def _taint(scenario: Scenario) -> JSON:
    random = scenario.random
    key = random.choice(TAINTS)
    effects = ["NoSchedule", "NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"]
    taint = {"key": key, "effect": random.choice(effects)}
    if scenario.chance(0.7):
        taint["value"] = random.choice(["x", "y"])
    if taint["effect"] == "NoExecute":
        taint["timeAdded"] = CREATED
    return taint


def _tolerations(scenario: Scenario) -> list[JSON]:
    random = scenario.random
    tolerations: list[JSON] = []
    for key in TAINTS:
        if scenario.chance(0.75):
            tolerations.append(_toleration(scenario, key))
            if scenario.chance(0.4):
                effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
                tolerations.append({"key": key, "operator": "Exists", "effect": random.choice(effects)})
    if scenario.chance(0.2):
        effect = None if scenario.chance(0.5) else random.choice(["NoSchedule", "NoExecute"])
        tolerations.append({"operator": "Exists", **({"effect": effect} if effect else {})})
    if scenario.chance(0.25):
        tolerations.append({"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"})
    if scenario.chance(0.8):
        tolerations += [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ADDED_BY_ADMISSION
        ]
    random.shuffle(tolerations)
    return tolerations


def _toleration(scenario: Scenario, key: str) -> JSON:
    random = scenario.random
    toleration: JSON = {"key": key, "operator": random.choice(["Exists", "Equal", "Equal"])}
    if toleration["operator"] == "Equal":
        value = random.choice(["x", "y", ""]) if scenario.chance(0.9) else "x"
        if value:
            toleration["value"] = value
        if scenario.chance(0.15):
            del toleration["operator"]  # an empty one means Equal
    if scenario.chance(0.6):
        toleration["effect"] = random.choice(["NoSchedule", "NoSchedule", "PreferNoSchedule", "NoExecute"])
        if toleration["effect"] == "NoExecute" and scenario.chance(0.5):
            toleration["tolerationSeconds"] = 300
    return toleration


# --- node affinity ----------------------------------------------------------------------------------------------------


def add_node_affinity(scenario: Scenario) -> None:
    """Give the incoming pod a node selector, required and preferred node affinity."""
    random = scenario.random
    affinity: JSON = {}
    if scenario.chance(0.35):
        scenario.pod["spec"]["nodeSelector"] = random.choice(
            [
                {"disk": "ssd"},
                {"disk": "hdd"},
                {"pool": "a"},
                {ZONE: "z1"},
                {OS: "linux"},
                {"disk": "ssd", ZONE: "z2"},
            ]
        )
    if scenario.chance(0.7):
        terms = [_node_term(scenario) for _ in range(random.choice([1, 1, 2, 3]))]
        if scenario.chance(0.12):
            terms = _terms_of_names(scenario)
        affinity[REQUIRED] = {"nodeSelectorTerms": terms}
    if scenario.chance(0.6):
        affinity[PREFERRED] = [
            {"weight": random.choice([1, 5, 20, 50, 100]), "preference": _node_term(scenario)}
            for _ in range(random.randint(1, 4))
        ]
    if affinity:
        scenario.pod["spec"].setdefault("affinity", {})["nodeAffinity"] = affinity


def _terms_of_names(scenario: Scenario) -> list[JSON]:
    """Return terms that PreFilter turns into a set of nodes."""
    random = scenario.random
    names = scenario.node_names()
    chosen = scenario.some(names, random.randint(1, 3))
    terms: list[JSON] = [{"matchFields": [_name_field("In", name)]} for name in chosen]
    scenario.tag("matchfields-in")
    if scenario.chance(0.3) and len(names) > 1:  # no node has both names
        terms = [{"matchFields": [_name_field("In", name) for name in names[:2]]}]
    if scenario.chance(0.2):
        terms[0]["matchFields"][0]["values"] = ["no-such-node"]
    return terms


def _name_field(operator: str, name: str) -> JSON:
    return {"key": "metadata.name", "operator": operator, "values": [name]}


def _node_term(scenario: Scenario) -> JSON:
    random = scenario.random
    term: JSON = {}
    kind = random.random()
    if kind < 0.8:
        term["matchExpressions"] = [_node_expression(scenario) for _ in range(random.choice([1, 1, 2]))]
    if kind > 0.7:
        operator = random.choice(["In", "NotIn", "NotIn"])
        term["matchFields"] = [_name_field(operator, random.choice(scenario.nodes)["metadata"]["name"])]
    if scenario.chance(0.03):  # an empty term selects nothing
        term = {}
        scenario.tag("empty-term")
    return term


def _node_expression(scenario: Scenario) -> JSON:
    random = scenario.random
    operator = random.choice(["In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    if operator in ("Gt", "Lt"):
        return {"key": "gen", "operator": operator, "values": [str(random.randint(2, 8))]}
    keys = ["disk", "pool", ZONE, HOST]
    if operator in ("Exists", "DoesNotExist"):
        return {"key": random.choice([*keys, "nokey"]), "operator": operator}
    key = random.choice(keys)
    values = {
        "disk": ["ssd", "hdd", "nvme"],
        "pool": ["a", "b"],
        ZONE: ["z1", "z2", "z3", "z9"],
        HOST: scenario.node_names(),
    }[key]
    most = max(1, len(values) * 2 // 3) if key == HOST else 2
    return {"key": key, "operator": operator, "values": random.sample(values, random.randint(1, most))}


# --- ports ------------------------------------------------------------------------------------------------------------


def add_host_ports(scenario: Scenario) -> None:
    """Let the incoming pod want host ports, of which running pods have some."""
    wanted = [_wanted_port(scenario, number) for number in range(scenario.random.choice([1, 1, 2, 3]))]
    scenario.pod["spec"]["containers"][0]["ports"] = wanted
    if scenario.chance(0.15):
        ports: list[JSON] = [{"containerPort": 99, "hostPort": 9999, "protocol": "TCP"}]
        container = scenario.container({"cpu": 1}, "side", ports=ports)
        if scenario.chance(0.5):
            container["restartPolicy"] = "Always"
        scenario.pod["spec"].setdefault("initContainers", []).append(container)
        scenario.tag("init-hostport")
    for node in scenario.nodes:
        running = scenario.running_on(node["metadata"]["name"])
        if running and not scenario.chance(0.15):
            _take_ports(scenario, running, wanted)


def _wanted_port(scenario: Scenario, number: int) -> JSON:
    random = scenario.random
    port: JSON = {"containerPort": 8080 + number, "hostPort": random.choice([80, 443, 8080, 9090, 53])}
    if scenario.chance(0.9):
        port["protocol"] = random.choice(["TCP", "TCP", "TCP", "UDP", "SCTP"])
    if scenario.chance(0.35):
        port["hostIP"] = random.choice(["127.0.0.1", "10.0.0.1", "0.0.0.0", "10.0.0.2"])
    return port


def _take_ports(scenario: Scenario, running: list[JSON], wanted: list[JSON]) -> None:
    """Let a few of a node's pods have ports that are wanted, or nearly those."""
    random = scenario.random
    taken = set()
    for pod in scenario.some(running, random.choice([1, 1, 2, 3])):
        like = random.choice(wanted)
        protocol = like.get("protocol", "TCP")
        if scenario.chance(0.25):
            protocol = random.choice(["TCP", "UDP"])
        port = {"containerPort": 7000, "hostPort": like["hostPort"], "protocol": protocol}
        if scenario.chance(0.35):
            port["hostIP"] = random.choice(["127.0.0.1", "10.0.0.1", "0.0.0.0", like.get("hostIP") or "10.0.0.2"])
        key = (port["hostPort"], protocol, port.get("hostIP", "0.0.0.0"))
        if key in taken:
            scenario.tag("dup-hostport")
            if scenario.chance(0.6):
                continue
        taken.add(key)
        pod["spec"]["containers"][0]["ports"] = [port, {"containerPort": 7001, "protocol": "TCP"}]


# --- images -----------------------------------------------------------------------------------------------------------


def add_images(scenario: Scenario) -> None:
    """Put images on nodes, and let containers of the incoming pod be of some of them."""
    random = scenario.random
    sizes = [_image(scenario, number) for number in range(random.randint(3, 7))]
    for node in scenario.nodes:
        images = []
        for name, size in sizes:
            if scenario.chance(0.5):
                names = [_by_digest(name)] if scenario.chance(0.4) else []
                names.append(name + random.choice([":latest", ":v1", ":v1"]))
                images.append({"names": names, "sizeBytes": size if scenario.chance(0.9) else size // 2})
        random.shuffle(images)
        node["status"]["images"] = images
    names = [name for name, _ in sizes]
    count = random.choice([1, 1, 2, 3])
    part = {resource: max(1, value // count) for resource, value in scenario.requests.items()}
    containers = []
    for number in range(count):
        name = random.choice(names)
        image = random.choice([f"{name}:v1", f"{name}:latest", name, _by_digest(name), "unknown:1"])
        containers.append(scenario.container(part, f"c{number}", image))
    spec = scenario.pod["spec"]
    spec["containers"] = containers
    if scenario.chance(0.3):
        container = scenario.container({}, "init", f"{random.choice(names)}:v1")
        spec.setdefault("initContainers", []).append(container)
    if scenario.chance(0.2):
        reference = random.choice(names) + random.choice([":v1", ""])
        volume = {"name": "img", "image": {"reference": reference, "pullPolicy": "IfNotPresent"}}
        spec.setdefault("volumes", []).append(volume)
        scenario.tag("image-volume")


def _image(scenario: Scenario, number: int) -> tuple[str, int]:
    """Return an image's name and its size in bytes."""
    random = scenario.random
    name = f"registry.example/{random.choice(['team', 'lib'])}/img{number}"
    size: int = random.choice([5, 23, 50, 120, 300, 900, 1500, 4000]) * MI + random.randint(0, MI)
    return name, size


def _by_digest(name: str) -> str:
    return f"{name}@sha256:{stable_hash(name) % (1 << 256):064x}"
