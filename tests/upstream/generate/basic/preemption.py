"""What preemption looks at: budgets, priorities, start times, nominations and pods that terminate."""

from typing import Final

from tests.upstream.generate.cluster import LATER, SYSTEM_NODE_CRITICAL
from tests.upstream.generate.quantities import MI
from tests.upstream.generate.scenario import Scenario
from tests.upstream.generate.words import CREATED, HOST, JSON, MAX_INT32, MIN_INT32, REQUIRED, ZONE, timestamp

SYSTEM_CLUSTER_CRITICAL: Final = 2000000000
FRACTIONS: Final = (".5", ".25", ".000000001", ".999999999", ".100", "")
"""Fractions of the second of a start time."""


# --- budgets ----------------------------------------------------------------------------------------------------------


def add_budgets(scenario: Scenario) -> None:
    """Add PodDisruptionBudgets with selectors of all kinds, some with pods that are evicted already."""
    random = scenario.random
    for namespace in ("default", "prod", "dev"):
        for _ in range(random.randint(0, 4)):
            selector = _budget_selector(scenario)
            disrupted = None
            if scenario.chance(0.3) and (running := scenario.running_in(namespace)):
                pods = scenario.some(running, random.randint(1, 4))
                disrupted = {pod["metadata"]["name"]: CREATED for pod in pods}
                scenario.tag("pdb-disrupted")
            scenario.add_budget(namespace, selector, random.choice([0, 0, 0, 1, 1, 2, 3]), disrupted)


def _budget_selector(scenario: Scenario) -> JSON | None:
    random = scenario.random
    kind = random.random()
    if kind < 0.45:
        return {"matchLabels": {"app": random.choice(scenario.apps)}}
    if kind < 0.55:
        return {"matchLabels": {"app": random.choice(scenario.apps), "tier": random.choice(["front", "back"])}}
    if kind < 0.62:
        scenario.tag("pdb-empty")
        return {}
    if kind < 0.69:
        scenario.tag("pdb-nil")
        return None
    operator = random.choice(["In", "NotIn", "Exists", "DoesNotExist"])
    key = random.choice(["app", "tier", "version"])
    requirement: JSON = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        values = {"app": scenario.apps, "tier": ["front", "back"], "version": ["v1", "v2"]}[key]
        requirement["values"] = random.sample(values, random.randint(1, min(2, len(values))))
    selector: JSON = {"matchExpressions": [requirement]}
    if scenario.chance(0.2):
        selector["matchLabels"] = {"app": random.choice(scenario.apps)}
    scenario.tag("pdb-expr")
    return selector


# --- priorities -------------------------------------------------------------------------------------------------------


def change_priorities(scenario: Scenario) -> None:
    """Give running pods other priorities and start times, in one of several ways or some of them mixed."""
    random = scenario.random
    mode = random.choice(
        ["negative", "equal", "missing", "critical", "subsec", "nostart", "minint", "minint", "mix", "mix"]
    )
    least_share = random.choice([0.4, 1.0, 1.0])
    scenario.tag(f"prio-{mode}")
    for pod in scenario.running():
        _change_priority(scenario, pod, mode)
        _change_start(scenario, pod["status"], mode)
        lowest = mode == "minint" and scenario.priority > MIN_INT32 and scenario.chance(least_share)
        if lowest and (pod["spec"].get("priority") or 0) < scenario.priority:
            pod["spec"]["priority"] = MIN_INT32  # adds nothing to upstream's sum of priorities
    if mode == "equal" and scenario.chance(0.5):
        for pod in scenario.running():
            if "startTime" in pod["status"]:
                pod["status"]["startTime"] = timestamp(scenario.start_times[0])
    if mode == "missing" and scenario.chance(0.3):
        scenario.pod["spec"].pop("priority", None)  # it counts as 0
        scenario.priority = 0
        for pod in scenario.running():
            if scenario.chance(0.6):
                pod["spec"]["priority"] = random.choice([-1, -5])
    if scenario.chance(0.1):
        scenario.priority = random.choice([MAX_INT32, SYSTEM_NODE_CRITICAL])
        scenario.pod["spec"]["priority"] = scenario.priority


def _change_priority(scenario: Scenario, pod: JSON, mode: str) -> None:
    random, spec = scenario.random, pod["spec"]
    if mode in ("negative", "mix") and scenario.chance(0.5):
        value = random.choice([-1, -1, -10, -100, MIN_INT32])
        if value < scenario.priority:
            spec["priority"] = value
    if mode in ("missing", "mix") and scenario.chance(0.3) and scenario.priority > 0:
        spec.pop("priority", None)
        spec.pop("preemptionPolicy", None)
    if mode in ("critical", "mix") and scenario.chance(0.15):
        spec["priority"] = random.choice([SYSTEM_CLUSTER_CRITICAL, SYSTEM_NODE_CRITICAL])
        of_cluster = spec["priority"] == SYSTEM_CLUSTER_CRITICAL
        spec["priorityClassName"] = "system-cluster-critical" if of_cluster else "system-node-critical"
    if mode == "equal":
        spec["priority"] = scenario.lower_priorities[0] or 0


def _change_start(scenario: Scenario, status: JSON, mode: str) -> None:
    random = scenario.random
    if mode in ("subsec", "mix") and "startTime" in status and scenario.chance(0.6):
        status["startTime"] = timestamp(random.choice(scenario.start_times), random.choice(FRACTIONS))
    if mode in ("nostart", "mix") and scenario.chance(0.2):
        status.pop("startTime", None)
        status["phase"] = "Pending"
        scenario.tag("no-start-time")


# --- nominations ------------------------------------------------------------------------------------------------------


def add_nominated_pods(scenario: Scenario) -> None:
    """Add pods that wait for a node which they are nominated to; the incoming pod may be one, too."""
    random = scenario.random
    names = scenario.node_names()
    for _ in range(random.randint(1, 5)):
        scenario.pods.append(_nominated_pod(scenario, names))
    if scenario.chance(0.35):
        nominated = random.choice(names)
        scenario.pod["status"]["nominatedNodeName"] = nominated
        scenario.tag("incoming-nominated")
        for pod in scenario.running_on(nominated):
            if scenario.chance(0.3):
                terminate(scenario, pod)


def _nominated_pod(scenario: Scenario, names: list[str]) -> JSON:
    random, own = scenario.random, scenario.priority
    below = own - 1 if own > MIN_INT32 else own
    priority = random.choice(
        [own, own, scenario.higher_priority(), below, scenario.lower_priorities[0], SYSTEM_NODE_CRITICAL]
    )
    node = random.choice(names)
    if scenario.chance(0.3):
        requests = {"cpu": scenario.cpu_unit * random.choice([1, 2, 3]), "memory": scenario.memory_unit}
    else:
        requests = {"cpu": max(1, int(scenario.cpu_unit * random.choice([0.2, 0.5, 1]))), "memory": 64 * MI}
    namespace, labels = random.choice(["default", "prod"]), scenario.random_labels()
    pod = scenario.new_pod("nominee", namespace, None, priority, labels, [scenario.container(requests)])
    pod["status"]["nominatedNodeName"] = node
    if scenario.chance(0.15):
        share_host_port(pod, scenario.pod)
    if scenario.chance(0.2):
        _repel_incoming_pod(scenario, pod)
    kind = random.random()
    if kind < 0.06:
        pod["spec"]["schedulerName"] = "other-scheduler"  # whose nominations this kube-scheduler does not count
        scenario.tag("nominated-other-scheduler")
    elif kind < 0.12:
        pod["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
        scenario.tag("nominated-gated")
    elif kind < 0.18:
        pod["metadata"]["deletionTimestamp"] = LATER
        scenario.tag("nominated-terminating")
    return pod


def share_host_port(*pods: JSON) -> None:
    """Let the pods want the same port of a node."""
    for pod in pods:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]


def _repel_incoming_pod(scenario: Scenario, pod: JSON) -> None:
    """Give the nominated pod an anti-affinity to pods like the incoming one."""
    topology = scenario.random.choice([HOST, ZONE])
    pod["spec"]["affinity"] = anti_affinity(topology, scenario.pod["metadata"].get("labels", {}).get("app", "web"))
    scenario.tag("nominated-antiaffinity")
    if scenario.chance(0.5):  # without terms of its own, InterPodAffinity would be skipped for the incoming pod
        affinity = scenario.pod["spec"].setdefault("affinity", {}).setdefault("podAntiAffinity", {})
        affinity[REQUIRED] = anti_affinity(HOST, "nobody")["podAntiAffinity"][REQUIRED]


def anti_affinity(topology_key: str, app: str) -> JSON:
    term = {"topologyKey": topology_key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {REQUIRED: [term]}}


# --- eligibility ------------------------------------------------------------------------------------------------------


def terminate(scenario: Scenario, pod: JSON) -> None:
    """Let the pod terminate, in most cases because a scheduler preempted it."""
    random = scenario.random
    pod["metadata"] |= {"deletionTimestamp": LATER, "deletionGracePeriodSeconds": 30}
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]
    kind = random.random()
    if kind < 0.65:
        message = "default-scheduler: preempting to accommodate a higher priority pod"
        conditions.append(disruption_target("PreemptionByScheduler") | {"message": message})
    elif kind < 0.8:
        reasons = ["EvictionByEvictionAPI", "DeletionByTaintManager", "TerminationByKubelet"]
        conditions.append(disruption_target(random.choice(reasons)))
    elif kind < 0.88:
        conditions.append(disruption_target("PreemptionByScheduler") | {"status": "False"})
    pod["status"]["conditions"] = conditions


def disruption_target(reason: str) -> dict[str, str]:
    return {"type": "DisruptionTarget", "status": "True", "reason": reason}


def change_eligibility(scenario: Scenario) -> None:
    """Let the incoming pod not preempt, or wait already for victims on its nominated node."""
    random = scenario.random
    kind = random.random()
    if kind < 0.22:
        scenario.pod["spec"]["preemptionPolicy"] = "Never"
        scenario.tag("never")
    if kind > 0.12:
        _await_victims(scenario)
    for pod in scenario.running():
        if scenario.chance(0.03):
            terminate(scenario, pod)


def _await_victims(scenario: Scenario) -> None:
    random = scenario.random
    names = scenario.node_names()
    nominated = random.choice(names) if scenario.chance(0.93) else "no-such-node"
    scenario.pod["status"]["nominatedNodeName"] = nominated
    scenario.tag("incoming-nominated")
    running = scenario.running_on(nominated)
    for pod in scenario.some(running, random.choice([0, 1, 1, 1, 2])):
        terminate(scenario, pod)
        if scenario.chance(0.2):
            pod["spec"]["priority"] = random.choice([scenario.priority, scenario.higher_priority(10)])
    if scenario.chance(0.2):  # the condition alone decides nothing
        for pod in running:
            if scenario.chance(0.5) and "deletionTimestamp" not in pod["metadata"]:
                pod["status"]["conditions"] = [disruption_target("PreemptionByScheduler")]
    if scenario.chance(0.25):
        for node in scenario.nodes:
            if node["metadata"]["name"] == nominated:  # preemption cannot help there
                node["spec"]["taints"] = [{"key": "gone", "effect": "NoSchedule"}]
                scenario.tag("nominated-unresolvable")
