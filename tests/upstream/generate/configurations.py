"""Random KubeSchedulerConfigurations that have something to say about a given cluster: profiles, plugins, arguments.

The words of arguments (resources, labels, topology keys) are those of the cluster, so that most arguments matter.

Rule: the same random numbers and cluster give the same file; no file is invalid on purpose, though some are refused.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any, Final

from extender.core.profile import FILTER_PLUGINS, PRESCORE_PLUGINS
from tests.upstream.generate.words import JSON

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
SCORES: Final = [*PRESCORE_PLUGINS, "ImageLocality", "DynamicResources"]
NEITHER: Final = ["SchedulingGates", "PrioritySort", "DefaultPreemption", "DefaultBinder"]
"""Default plugins that neither filter nor score."""
PREFILTERS: Final = FILTER_PLUGINS[3:]
FILTERS: Final = ("NodeUnschedulable", "NodeName", *FILTER_PLUGINS[2:])
"""In the order of v1.36, in which the first three have no PreFilter: the same seed draws the same file ever since."""
POINTS: Final = {
    "preFilter": PREFILTERS,
    "filter": FILTERS,
    "postFilter": ["DynamicResources", "DefaultPreemption"],
    "preScore": PRESCORE_PLUGINS,
    "score": SCORES,
    "preEnqueue": ["SchedulingGates", "DefaultPreemption", "DynamicResources"],
    "reserve": ["VolumeBinding", "DynamicResources"],
    "preBind": ["VolumeBinding", "DynamicResources"],
}
"""Extension point -> in-tree plugins that v1.36 has there."""
ORDER: Final = [*dict.fromkeys([*NEITHER[:2], *FILTERS, *SCORES, *NEITHER[2:]])]
WEIGHTS: Final = (0, 1, 1, 2, 3, 7, 50, 100, 1000)
NAMES: Final = ("default-scheduler", "pack", "gpu-scheduler", "batch")
FOREIGN_NAME: Final = "other-scheduler"
"""schedulerName of pods that another kube-scheduler schedules."""
NATIVE: Final = ("cpu", "memory", "ephemeral-storage")


def random_scenario(random: Random, scenario: JSON, unknown: Collection[str] = ()) -> JSON:
    """Return the scenario with a configuration of its own, and its pods spread over the profiles.

    `unknown`: plugins that the judged version does not have.
    """
    result = deepcopy({key: value for key, value in scenario.items() if key not in ("config", "expected")})
    configuration = random_configuration(random, result, unknown)
    names = [profile["schedulerName"] for profile in configuration["profiles"]]
    for item in result["cluster"]["items"]:
        if item["kind"] == "Pod":
            item["spec"]["schedulerName"] = _name(random, names)
    result["pod"]["spec"]["schedulerName"] = random.choice(names)
    return result | {"config": configuration}


def _name(random: Random, names: Sequence[str]) -> str:
    return FOREIGN_NAME if random.random() < 0.08 else random.choice(names)


def random_configuration(random: Random, scenario: JSON, unknown: Collection[str] = ()) -> JSON:
    """Return a KubeSchedulerConfiguration of one to three profiles for the scenario's cluster and pod."""
    words = Words(random, scenario, unknown)
    names = random.sample(NAMES, random.choice((1, 2, 2, 2, 3, 3)))
    document: JSON = {
        "apiVersion": API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [_profile(words, name) for name in names],
    }
    if random.random() < 0.25:
        document["percentageOfNodesToScore"] = random.choice((0, 1, 30, 100))
    if random.random() < 0.2:
        document |= {"parallelism": random.choice((1, 16)), "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 60}
        document["leaderElection"] = {"leaderElect": random.random() < 0.5}
    if random.random() < 0.3:
        document["extenders"] = list(_extenders(words))
    return document


def without_extenders(document: JSON) -> JSON:
    """Return a file of the same verdicts without extenders, whose managed resources NodeResourcesFit then ignores.

    As in kube-scheduler, what the extenders manage takes the place of a profile's own ignoredResources.
    """
    result = deepcopy(document)
    managed = [one for extender in result.pop("extenders", ()) for one in extender.get("managedResources") or ()]
    if ignored := [one["name"] for one in managed if one.get("ignoredByScheduler")]:
        for profile in result.setdefault("profiles", [{"schedulerName": "default-scheduler"}]):
            configs = profile.setdefault("pluginConfig", [])
            if not any(one["name"] == "NodeResourcesFit" for one in configs):
                configs.append(_args("NodeResourcesFit", {}))
            fit = next(one for one in configs if one["name"] == "NodeResourcesFit")
            fit.setdefault("args", {})["ignoredResources"] = ignored
    return result


class Words:
    """Random choices of what a cluster is made of."""

    def __init__(self, random: Random, scenario: JSON, unknown: Collection[str] = ()) -> None:
        items = [*scenario["cluster"]["items"], scenario["pod"]]
        nodes = [item for item in items if item["kind"] == "Node"]
        self.random = random
        self.unknown = unknown
        self.resources = sorted({*NATIVE, *(name for node in nodes for name in node["status"]["allocatable"])})
        requested = {name for name in _requested(scenario["pod"]) if _is_extended(name)}
        self.extended = sorted(
            {name for name in self.resources if _is_extended(name)} | requested | {"example.org/none"}
        )
        self.wanted = sorted(requested) or self.extended
        self.labels = sorted({pair for node in nodes for pair in node["metadata"].get("labels", {}).items()})
        self.node_names = sorted(node["metadata"]["name"] for node in nodes)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def some(self, choices: Sequence[Any], least: int = 1, most: int = 3) -> list[Any]:
        """Return some distinct choices in random order."""
        return self.random.sample(choices, min(len(choices), self.random.randint(least, most)))

    def known(self, plugins: Iterable[str]) -> list[str]:
        return [name for name in plugins if name not in self.unknown]

    def label_key(self) -> str:
        return self.random.choice(self.labels)[0] if self.labels and self.chance(0.9) else "missing"


def _is_extended(resource: str) -> bool:
    return "/" in resource and "kubernetes.io/" not in resource


def _requested(pod: JSON) -> Iterator[str]:
    for container in pod["spec"]["containers"]:
        yield from container.get("resources", {}).get("requests", {})


# --- profiles and plugins -------------------------------------------------------------------------------------------


def _profile(words: Words, name: str) -> JSON:
    profile: JSON = {"schedulerName": name}
    if words.chance(0.1):
        profile["percentageOfNodesToScore"] = words.random.choice((0, 10, 100))
    if words.chance(0.8) and (plugins := _plugins(words)):
        profile["plugins"] = plugins
    if args := _plugin_config(words):
        profile["pluginConfig"] = args
    return profile


def _plugins(words: Words) -> JSON:
    plugins = {}
    if words.chance(0.35):
        plugins["multiPoint"] = _multi_point(words)
    weights = {"preFilter": 3, "filter": 6, "preScore": 3, "score": 6, "postFilter": 1}
    points = words.random.choices([*weights], [*weights.values()], k=words.random.randint(0, 3))
    if words.chance(0.15):
        points.append(words.random.choice(("preEnqueue", "reserve", "preBind")))
    for point in dict.fromkeys(points):
        plugins[point] = _plugin_set(words, point)
    return plugins


def _multi_point(words: Words) -> JSON:
    """Return what replaces or disables some of the default plugins of all points."""
    if words.chance(0.3):
        kept = [name for name in words.known(ORDER) if name not in NEITHER and words.chance(0.75)]
        if words.chance(0.9):
            kept = [*dict.fromkeys([*kept, "NodeResourcesFit"])]
        kept = [*NEITHER, *kept]
        if words.chance(0.5):
            words.random.shuffle(kept)
        return {"disabled": [{"name": "*"}], "enabled": [_plugin(words, name) for name in kept]}
    optional = [name for name in words.known(ORDER) if name not in NEITHER]
    result: JSON = {}
    if words.chance(0.7):
        result["disabled"] = [{"name": name} for name in words.some(optional, 1, 3)]
    if words.chance(0.6) or not result:  # in place, or at the end if disabled as well
        again = [one["name"] for one in result.get("disabled", ()) if words.chance(0.5)]
        chosen = [*dict.fromkeys([*again, *words.some(words.known(SCORES), 1, 3)])]
        result["enabled"] = [_plugin(words, name) for name in chosen]
    return result


def _plugin_set(words: Words, point: str) -> JSON:
    """Return what is disabled and enabled at one extension point."""
    names = words.known(POINTS[point])
    result: JSON = {}
    kind = words.random.choice(("disable", "disable", "enable", "enable", "both", "star", "only"))
    if kind in ("disable", "both"):
        result["disabled"] = [{"name": name} for name in words.some(names)]
    if kind in ("enable", "both"):
        result["enabled"] = [_plugin(words, name, point) for name in words.some(names, 1, 4)]
    if kind in ("star", "only"):
        kept = [name for name in names if words.chance(0.8 if kind == "star" else 0.3)]
        words.random.shuffle(kept)
        result = {"disabled": [{"name": "*"}], "enabled": [_plugin(words, name, point) for name in kept]}
    return result


def _plugin(words: Words, name: str, point: str = "multiPoint") -> JSON:
    weighted = name in SCORES and point in ("multiPoint", "score") and words.chance(0.6)
    return {"name": name, **({"weight": words.random.choice(WEIGHTS)} if weighted else {})}


def _extenders(words: Words) -> Iterator[JSON]:
    resources = words.some([*dict.fromkeys([*words.wanted, *words.extended])], 0, 3)
    for place in range(words.random.randint(1, 2)):
        extender: JSON = {"urlPrefix": f"http://extender-{place}:8080/scheduler", "httpTimeout": "5s"}
        extender |= {"preemptVerb": "preempt"} if words.chance(0.5) else {"filterVerb": "filter"}
        if words.chance(0.4):
            extender |= {"prioritizeVerb": "prioritize", "weight": words.random.choice((1, 10))}
        mine, resources = resources[:2], resources[2:]
        if mine:
            extender["managedResources"] = [{"name": one, "ignoredByScheduler": words.chance(0.7)} for one in mine]
        yield extender | {"nodeCacheCapable": words.chance(0.5), "ignorable": words.chance(0.5)}


# --- arguments ------------------------------------------------------------------------------------------------------


def _plugin_config(words: Words) -> list[JSON]:
    makers = {
        "NodeResourcesFit": _fit,
        "NodeResourcesBalancedAllocation": _balanced,
        "InterPodAffinity": _inter_pod_affinity,
        "NodeAffinity": _node_affinity,
        "PodTopologySpread": _spread,
        "VolumeBinding": _volume_binding,
        "DefaultPreemption": _preemption,
    }
    chosen = words.some([*makers], 0, 4)
    return [_args(name, makers[name](words)) for name in chosen]


def _args(name: str, values: JSON) -> JSON:
    return {"name": name, "args": {"apiVersion": API_VERSION, "kind": f"{name}Args", **values}}


def _fit(words: Words) -> JSON:
    values: JSON = {}
    if words.chance(0.85):
        kind = words.random.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
        values["scoringStrategy"] = {"type": kind}
        if words.chance(0.85) or kind == "RequestedToCapacityRatio":
            chosen = words.some([*words.resources, *words.wanted], 1, 4)
            values["scoringStrategy"]["resources"] = [_resource(words, name) for name in dict.fromkeys(chosen)]
        if kind == "RequestedToCapacityRatio":
            values["scoringStrategy"]["requestedToCapacityRatio"] = {"shape": _shape(words)}
    if words.chance(0.4):
        values["ignoredResources"] = words.some([*dict.fromkeys([*words.wanted, *words.extended])], 1, 2)
    if words.chance(0.3):
        values["ignoredResourceGroups"] = words.some(sorted({one.split("/")[0] for one in words.extended}), 1, 2)
    return values


def _resource(words: Words, name: str) -> JSON:
    return {"name": name, **({"weight": words.random.choice((1, 2, 5, 100))} if words.chance(0.8) else {})}


def _shape(words: Words) -> list[JSON]:
    utilizations = sorted(words.random.sample(range(101), words.random.randint(1, 4)))
    return [{"utilization": one, "score": words.random.randint(0, 10)} for one in utilizations]


def _balanced(words: Words) -> JSON:
    if words.chance(0.1):
        return {}
    chosen = words.some([*dict.fromkeys([*words.wanted, *words.resources])], 1, 4)
    return {"resources": [{"name": name, **({"weight": 1} if words.chance(0.8) else {})} for name in chosen]}


def _inter_pod_affinity(words: Words) -> JSON:
    values: JSON = {}
    if words.chance(0.8):
        values["hardPodAffinityWeight"] = words.random.choice((0, 1, 5, 100))
    if words.chance(0.7):
        values["ignorePreferredTermsOfExistingPods"] = words.chance(0.8)
    return values


def _node_affinity(words: Words) -> JSON:
    affinity: JSON = {}
    if words.chance(0.7):
        terms = [_term(words) for _ in range(words.random.choice((1, 1, 2)))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if words.chance(0.6):
        weights = [words.random.choice((1, 10, 100)) for _ in range(words.random.randint(1, 2))]
        preferred = [{"weight": weight, "preference": _term(words)} for weight in weights]
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"addedAffinity": affinity}


def _term(words: Words) -> JSON:
    if words.node_names and words.chance(0.15):
        names = words.some(words.node_names, 1, 1)
        return {
            "matchFields": [{"key": "metadata.name", "operator": words.random.choice(("In", "NotIn")), "values": names}]
        }
    return {"matchExpressions": [_expression(words) for _ in range(words.random.choice((1, 1, 2)))]}


def _expression(words: Words) -> JSON:
    key = words.label_key()
    operator = words.random.choice(("In", "In", "NotIn", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    values = sorted({value for name, value in words.labels if name == key}) or ["x"]
    if operator in ("In", "NotIn"):
        return {"key": key, "operator": operator, "values": words.some(values, 1, 3)}
    if operator in ("Gt", "Lt"):
        return {"key": "gen" if words.chance(0.8) else key, "operator": operator, "values": ["4"]}
    return {"key": key, "operator": operator}


def _spread(words: Words) -> JSON:
    if words.chance(0.2):
        return words.random.choice(({}, {"defaultingType": "System"}, {"defaultingType": "List"}))
    keys = [key for key, _ in words.labels] or ["kubernetes.io/hostname"]
    preferred = [key for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname") if key in keys]
    pairs = [(key, action) for key in sorted({*keys}) + preferred * 4 for action in ("DoNotSchedule", "ScheduleAnyway")]
    chosen = _distinct(words.random.choice(pairs) for _ in range(words.random.randint(1, 3)))
    return {"defaultingType": "List", "defaultConstraints": [_constraint(words, *pair) for pair in chosen]}


def _distinct(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [*dict.fromkeys(pairs)]


def _constraint(words: Words, key: str, action: str) -> JSON:
    constraint = {"maxSkew": words.random.choice((1, 1, 2, 4)), "topologyKey": key, "whenUnsatisfiable": action}
    if action == "DoNotSchedule" and words.chance(0.3):
        constraint["minDomains"] = words.random.choice((1, 2, 5))
    if words.chance(0.25):
        constraint["nodeAffinityPolicy"] = words.random.choice(("Honor", "Ignore"))
    if words.chance(0.25):
        constraint["nodeTaintsPolicy"] = words.random.choice(("Honor", "Ignore"))
    return constraint


def _volume_binding(words: Words) -> JSON:
    return {"bindTimeoutSeconds": words.random.choice((0, 60, 600))} if words.chance(0.8) else {}


def _preemption(words: Words) -> JSON:
    values: JSON = {}
    if words.chance(0.7):
        values["minCandidateNodesPercentage"] = words.random.choice((0, 1, 50, 100))
    if words.chance(0.7):
        values["minCandidateNodesAbsolute"] = words.random.choice((1, 3, 1000))
    return values
