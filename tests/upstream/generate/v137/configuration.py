"""KubeSchedulerConfigurations with the words of 1.37, some of which kube-scheduler refuses."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.upstream.generate.basic import TOPICS
from tests.upstream.generate.scenario import Scenario
from tests.upstream.generate.v137.volumes import STORAGE_API, add_capacity, add_lazy_class, add_unbound_claim
from tests.upstream.generate.wide.configuration import Profile
from tests.upstream.generate.words import GPU, JSON, REQUIRED, ZONE


def add_workload(scenario: Scenario) -> None:
    """Add a topic that scores, and a volume to be provisioned where capacities differ."""
    random = scenario.random
    if scenario.chance(0.5):
        TOPICS[random.choice(["images", "taints", "interpod", "spread"])](scenario)
    if scenario.chance(0.4):
        spec = {"attachRequired": True, "podInfoOnMount": False, "storageCapacity": True}
        scenario.add(STORAGE_API, "CSIDriver", "csi.a", spec={**spec, "volumeLifecycleModes": ["Persistent"]})
        add_lazy_class(scenario, "dyn", "csi.a")
        add_unbound_claim(scenario, "dyn-0", "dyn", 10)
        for number, node in enumerate(scenario.node_names()):
            add_capacity(scenario, f"cap-{number}", "dyn", node, random.choice([10, 20, 50, 100]))
        volume = {"name": "v0", "persistentVolumeClaim": {"claimName": "dyn-0"}}
        scenario.pod["spec"].setdefault("volumes", []).append(volume)


def random_configuration(scenario: Scenario) -> JSON:
    """Return a configuration with one to three of the changes of CHANGES."""
    random = scenario.random
    profile = Profile()
    settings: JSON = {}
    for name in random.sample([*CHANGES], random.randint(1, 3)):
        scenario.tag(f"cfg-{name}")
        CHANGES[name](scenario, profile, settings)
    return profile.configuration(**settings)


# --- plugins ----------------------------------------------------------------------------------------------------------


def _pod_groups(scenario: Scenario, profile: Profile, _: JSON) -> None:
    profile.plugins["podGroupPostFilter"] = scenario.random.choice(
        [
            {"enabled": [{"name": "DefaultPreemption"}]},
            {"disabled": [{"name": "*"}]},
            {"disabled": [{"name": "DefaultPreemption"}]},
            {},
        ]
    )


def _placement(scenario: Scenario, profile: Profile, _: JSON) -> None:
    points = ["placementGenerate", "placementScore", "placementScore", "placementFeasible", "nosuchPoint"]
    profile.plugins[scenario.random.choice(points)] = {"disabled": [{"name": "*"}]}


def _weights(scenario: Scenario, profile: Profile, _: JSON) -> None:
    random = scenario.random
    scores = ["VolumeBinding", "ImageLocality", "DynamicResources", "NodeDeclaredFeatures"]
    enabled = [
        {"name": name, "weight": random.choice([1, 5, 0])} for name in random.sample(scores, random.choice([1, 2]))
    ]
    disabled = [{"name": "*"}] if scenario.chance(0.3) else []
    profile.point("score").update({"enabled": enabled, "disabled": disabled})


def _without_devices(_: Scenario, profile: Profile, __: JSON) -> None:
    profile.point("multiPoint").setdefault("disabled", []).append({"name": "DynamicResources"})


def _without_declared_features(_: Scenario, profile: Profile, __: JSON) -> None:
    profile.point("multiPoint").setdefault("disabled", []).append({"name": "NodeDeclaredFeatures"})


def _deferred(_: Scenario, profile: Profile, __: JSON) -> None:
    profile.point("filter").setdefault("enabled", []).append({"name": "DeferredPodScheduling"})


def _gang(scenario: Scenario, profile: Profile, _: JSON) -> None:
    name = scenario.random.choice(["GangScheduling", "*", "NoSuchPlugin"])
    profile.point("permit")["disabled"] = [{"name": name}]


# --- arguments and settings -------------------------------------------------------------------------------------------


def _shape(scenario: Scenario, profile: Profile, _: JSON) -> None:
    random = scenario.random
    timeout = random.choice([0, 600])
    shape = [{"utilization": utilization, "score": random.choice([0, 10])} for utilization in (0, 100)]
    profile.argue("VolumeBinding", bindTimeoutSeconds=timeout, shape=shape)


def _timeout(scenario: Scenario, profile: Profile, _: JSON) -> None:
    profile.argue("DynamicResources", filterTimeout=scenario.random.choice(["0s", "10s", "1m", "-1s"]))


def _scoring_strategy(scenario: Scenario, profile: Profile, _: JSON) -> None:
    random = scenario.random
    kind = random.choice(["LeastAllocated", "MostAllocated", "Balanced"])
    names = random.sample(["cpu", "memory", GPU], 2)
    resources = [{"name": name, "weight": random.choice([1, 2])} for name in names]
    profile.argue("NodeResourcesFit", scoringStrategy={"type": kind, "resources": resources})


def _minimum(scenario: Scenario, profile: Profile, _: JSON) -> None:
    percentage = scenario.random.choice([0, 10])
    absolute = scenario.random.choice([0, 1, 100])
    profile.argue(
        "DefaultPreemption",
        minCandidateNodesPercentage=percentage,
        minCandidateNodesAbsolute=absolute,
    )


def _refused(scenario: Scenario, profile: Profile, _: JSON) -> None:
    """Add arguments at the edge of what kube-scheduler accepts, or beyond it."""
    random = scenario.random
    plugin = random.choice(["DefaultPreemption", "InterPodAffinity", "NodeAffinity", "PodTopologySpread"])
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
    values: dict[str, JSON] = {  # all drawn, whichever plugin it is
        "DefaultPreemption": {"minCandidateNodesPercentage": random.choice([101, -1, 50])},
        "InterPodAffinity": {"hardPodAffinityWeight": random.choice([101, 100])},
        "NodeAffinity": {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": []}}},
        "PodTopologySpread": {
            "defaultingType": random.choice(["List", "System"]),
            "defaultConstraints": [constraint],
        },
    }
    profile.argue(plugin, **values[plugin])


def _settings(scenario: Scenario, _: Profile, settings: JSON) -> None:
    random = scenario.random
    percentage, parallelism = random.choice([0, 50, 100, 101]), random.choice([1, 16, 0])
    election = {"leaderElect": False, "resourceLock": random.choice(["leases", "endpoints"])}
    settings |= random.choice(
        [
            {"percentageOfNodesToScore": percentage},
            {"parallelism": parallelism},
            {"delayCacheUntilActive": True},
            {"podMaxBackoffSeconds": 20},
            {"podInitialBackoffSeconds": 30, "podMaxBackoffSeconds": 20},
            {"nodeInfoSnapshot": True},
            {"leaderElection": election},
        ]
    )


CHANGES: Final[Mapping[str, Callable[[Scenario, Profile, JSON], None]]] = {
    "group": _pod_groups,
    "placement": _placement,
    "shape": _shape,
    "timeout": _timeout,
    "weights": _weights,
    "top": _settings,
    "dra": _without_devices,
    "deferred": _deferred,
    "gang": _gang,
    "fit": _scoring_strategy,
    "refused": _refused,
    "declared": _without_declared_features,
    "min": _minimum,
}
