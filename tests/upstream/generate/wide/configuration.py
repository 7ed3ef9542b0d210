"""KubeSchedulerConfigurations of one profile that kube-scheduler starts with: plugins, weights and arguments."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.upstream.generate.quantities import MI
from tests.upstream.generate.scenario import Scenario, expression, give, request
from tests.upstream.generate.words import (
    EPHEMERAL_STORAGE,
    FPGA,
    GPU,
    HOST,
    HUGE_PAGES,
    JSON,
    PREFERRED,
    REQUIRED,
    ZONE,
)

API: Final = "kubescheduler.config.k8s.io/v1"
FILTERS: Final = (
    *("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
    *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread"),
    *("InterPodAffinity", "NodeDeclaredFeatures"),
)
SCORES: Final = (
    *("TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "NodeResourcesFit"),
    *("NodeResourcesBalancedAllocation", "ImageLocality"),
)
FIRST: Final = ("SchedulingGates", "PrioritySort")
LAST: Final = ("DefaultPreemption", "DefaultBinder")
OPTIONAL: Final = (
    *("NodePorts", "TaintToleration", "NodeUnschedulable", "ImageLocality", "NodeResourcesBalancedAllocation"),
    *("VolumeZone", "NodeVolumeLimits", "PodTopologySpread", "InterPodAffinity", "NodeAffinity"),
    *("VolumeRestrictions", "NodeDeclaredFeatures"),
)
"""Plugins that are disabled at all extension points at once."""


class Profile:
    """A profile in the making."""

    def __init__(self) -> None:
        self.plugins: dict[str, JSON] = {}
        self.arguments: list[JSON] = []

    def point(self, name: str) -> JSON:
        return self.plugins.setdefault(name, {})

    def disable(self, point: str, *names: str) -> None:
        disabled = self.point(point).setdefault("disabled", [])
        disabled += [{"name": name} for name in names if {"name": name} not in disabled]

    def argue(self, plugin: str, **values: Any) -> None:
        """Add arguments of a plugin to those that it has."""
        for one in self.arguments:
            if one["name"] == plugin:
                one["args"].update(values)
                return
        self.arguments.append(
            {"name": plugin, "args": {"apiVersion": API, "kind": f"{plugin}Args", **values}},
        )

    def configuration(self, **settings: Any) -> JSON:
        """Return the file, with these settings beside the profile."""
        profile: JSON = {"schedulerName": "default-scheduler"}
        if self.plugins:
            profile["plugins"] = self.plugins
        if self.arguments:
            profile["pluginConfig"] = self.arguments
        return {"apiVersion": API, "kind": "KubeSchedulerConfiguration", **settings, "profiles": [profile]}


def add_what_arguments_read(scenario: Scenario) -> None:
    """Give nodes and pods resources that scores and ignored resources may name."""
    random = scenario.random
    for node in scenario.nodes:
        if scenario.chance(0.6):
            give(node, GPU, random.choice([1, 2, 4]))
        if scenario.chance(0.3):
            give(node, FPGA, 1)
        if scenario.chance(0.3):
            give(node, HUGE_PAGES, 128 * MI)
    for pod in scenario.running():
        if scenario.chance(0.25):
            _ask(pod, random.choice([{GPU: "1"}, {EPHEMERAL_STORAGE: "1Gi"}, {HUGE_PAGES: "32Mi"}]))
    if scenario.chance(0.5):
        amounts = (
            *({GPU: "1"}, {GPU: "2"}, {FPGA: "1"}),
            *({EPHEMERAL_STORAGE: "2Gi"}, {HUGE_PAGES: "64Mi"}, {"example.org/x": "1"}),
        )
        _ask(scenario.pod, random.choice(amounts))


def _ask(pod: JSON, amounts: dict[str, str]) -> None:
    container = pod["spec"]["containers"][0]
    if EPHEMERAL_STORAGE in amounts:
        container["resources"].setdefault("requests", {}).update(amounts)
    else:
        request(container, amounts)


def add_service(scenario: Scenario) -> None:
    """Let a Service select the incoming pod, mostly one without constraints of its own: the profile's apply."""
    labels = scenario.pod["metadata"].get("labels") or {}
    if labels:
        port = {"port": 80, "protocol": "TCP", "targetPort": 80}
        spec = {"selector": {"app": labels.get("app", "web")}, "ports": [port]}
        scenario.add("v1", "Service", "svc", scenario.incoming_namespace, spec=spec)
    if scenario.chance(0.6):
        scenario.pod["spec"].pop("topologySpreadConstraints", None)


def random_configuration(scenario: Scenario) -> JSON:
    """Return a configuration with two to five of the changes of CHANGES."""
    random = scenario.random
    names = ["weights", "weights", "mp-disable", "filter-disable", "score-disable", "fit", "fit", "ignored", "balanced"]
    names += ["added", "spread", "interpod", "preemption", "preemption", "mp-star"]
    if scenario.chance(0.3):
        names.append("reorder")
    profile = Profile()
    for name in random.sample(names, random.randint(2, 5)):
        scenario.tag(f"cfg-{name}")
        CHANGES[name](scenario, profile)
    if not any(point.get("enabled") or point.get("disabled") for point in profile.plugins.values()):
        profile.plugins = {}
    return profile.configuration()


# --- plugins ----------------------------------------------------------------------------------------------------------


def _weights(scenario: Scenario, profile: Profile) -> None:
    random = scenario.random
    score = profile.point("score")
    for name in random.sample(SCORES, random.randint(1, 4)):
        enabled = score.setdefault("enabled", [])
        if all(one["name"] != name for one in enabled):
            enabled.append({"name": name, "weight": random.choice([1, 2, 5, 10, 100])})
            if scenario.chance(0.5):
                score.setdefault("disabled", []).append({"name": name})


def _disable_everywhere(scenario: Scenario, profile: Profile) -> None:
    disabled = profile.point("multiPoint").setdefault("disabled", [])
    for name in scenario.random.sample(OPTIONAL, scenario.random.randint(1, 3)):
        if all(one["name"] not in (name, "*") for one in disabled):
            disabled.append({"name": name})


def _disable_filters(scenario: Scenario, profile: Profile) -> None:
    filters = [name for name in FILTERS if name != "NodeResourcesFit"]
    profile.disable("filter", *scenario.random.sample(filters, scenario.random.randint(1, 2)))


def _disable_scores(scenario: Scenario, profile: Profile) -> None:
    profile.disable("score", *scenario.random.sample(SCORES, scenario.random.randint(1, 3)))


def _replace_all(scenario: Scenario, profile: Profile) -> None:
    """Disable the default plugins of all points and enable some of them, mostly in the usual order."""
    random = scenario.random
    if "multiPoint" in profile.plugins:
        return
    some = [name for name in dict.fromkeys([*FILTERS, *SCORES]) if name != "NodeResourcesFit"]
    names = [*FIRST, *LAST, *random.sample(some, random.randint(5, 13)), "NodeResourcesFit"]
    if scenario.chance(0.85):
        names.sort(key=[*FIRST, *FILTERS, *SCORES, *LAST].index)
    enabled: list[JSON] = []
    for name in names:
        weighted = name in SCORES and scenario.chance(0.6)
        enabled.append({"name": name, **({"weight": random.choice([1, 3, 7])} if weighted else {})})
    profile.plugins["multiPoint"] = {"disabled": [{"name": "*"}], "enabled": enabled}


def _reorder_filters(scenario: Scenario, profile: Profile) -> None:
    chosen = scenario.random.sample(FILTERS, scenario.random.randint(1, 2))
    profile.point("filter")["enabled"] = [{"name": name} for name in chosen]


# --- arguments --------------------------------------------------------------------------------------------------------


def _scoring_strategy(scenario: Scenario, profile: Profile) -> None:
    random = scenario.random
    kind = random.choice(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
    names = random.sample(["cpu", "memory", GPU, EPHEMERAL_STORAGE, HUGE_PAGES], random.randint(1, 4))
    resources = [{"name": name, "weight": random.choice([1, 2, 5, 100])} for name in names]
    if scenario.chance(0.15):
        resources = [{"name": name} for name in names]
    strategy: JSON = {"type": kind, "resources": resources}
    if kind == "RequestedToCapacityRatio":
        utilizations = sorted(random.sample(range(0, 101, 10), random.randint(1, 4)))
        shape = [{"utilization": utilization, "score": random.randint(0, 10)} for utilization in utilizations]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    profile.argue("NodeResourcesFit", scoringStrategy=strategy)


def _ignored_resources(scenario: Scenario, profile: Profile) -> None:
    random = scenario.random
    values: JSON = {}
    if scenario.chance(0.7):
        values["ignoredResources"] = random.sample([GPU, FPGA, "example.org/x"], random.randint(1, 2))
    if scenario.chance(0.5):
        values["ignoredResourceGroups"] = random.sample(["example.com", "example.org"], 1)
    profile.argue("NodeResourcesFit", **values)


def _balanced_allocation(scenario: Scenario, profile: Profile) -> None:
    random = scenario.random
    names = random.sample(["cpu", "memory", GPU, EPHEMERAL_STORAGE], random.randint(1, 4))
    resources = [{"name": name, "weight": 1} for name in names]
    profile.argue("NodeResourcesBalancedAllocation", resources=resources)


def _added_affinity(scenario: Scenario, profile: Profile) -> None:
    random = scenario.random
    affinity: JSON = {}
    if scenario.chance(0.7):
        key, operator = random.choice(["disk", ZONE, "pool"]), random.choice(["In", "NotIn"])
        values = random.sample(["ssd", "hdd", "z1", "z2", "a"], 2)
        affinity[REQUIRED] = {"nodeSelectorTerms": [{"matchExpressions": [expression(key, operator, *values)]}]}
    if scenario.chance(0.6) or not affinity:
        preference = {"matchExpressions": [expression("disk", "In", "ssd")]}
        affinity[PREFERRED] = [{"weight": random.choice([1, 50]), "preference": preference}]
    profile.argue("NodeAffinity", addedAffinity=affinity)


def _default_constraints(scenario: Scenario, profile: Profile) -> None:
    random = scenario.random
    if scenario.chance(0.25):
        profile.argue("PodTopologySpread", defaultingType="System")
        return
    pairs = [(ZONE, "DoNotSchedule"), (ZONE, "ScheduleAnyway"), (HOST, "DoNotSchedule"), (HOST, "ScheduleAnyway")]
    pairs.append(("disk", "ScheduleAnyway"))
    constraints = [
        {"maxSkew": random.choice([1, 2, 3]), "topologyKey": key, "whenUnsatisfiable": action}
        for key, action in random.sample(pairs, random.randint(0, 2))
    ]
    profile.argue("PodTopologySpread", defaultingType="List", defaultConstraints=constraints)


def _pod_affinity(scenario: Scenario, profile: Profile) -> None:
    weight = scenario.random.choice([0, 1, 10, 100])
    ignored = scenario.chance(0.5)
    profile.argue("InterPodAffinity", hardPodAffinityWeight=weight, ignorePreferredTermsOfExistingPods=ignored)


def _preemption(scenario: Scenario, profile: Profile) -> None:
    percentage = scenario.random.choice([0, 10, 50, 100])
    absolute = scenario.random.choice([1, 5, 100])
    profile.argue(
        "DefaultPreemption",
        minCandidateNodesPercentage=percentage,
        minCandidateNodesAbsolute=absolute,
    )


CHANGES: Final[Mapping[str, Callable[[Scenario, Profile], None]]] = {
    "weights": _weights,
    "mp-disable": _disable_everywhere,
    "filter-disable": _disable_filters,
    "score-disable": _disable_scores,
    "mp-star": _replace_all,
    "reorder": _reorder_filters,
    "fit": _scoring_strategy,
    "ignored": _ignored_resources,
    "balanced": _balanced_allocation,
    "added": _added_affinity,
    "spread": _default_constraints,
    "interpod": _pod_affinity,
    "preemption": _preemption,
}
