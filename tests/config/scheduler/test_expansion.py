"""Which plugins run at which extension point, in which order and with which weights.

The cases are those of upstream's default_plugins_test.go, and of TestNewFrameworkMultiPointExpansion, with in-tree
plugins; `Own` and `Other` are plugins that are not in-tree.
"""

import contextlib
import gzip
import json
from pathlib import Path

import pytest

from extender.config.decoding import decode
from extender.config.scheduler.expansion import expand, merge_plugins, misplaced_plugins
from extender.config.scheduler.load import kube_scheduler_of
from extender.config.scheduler.plugins import IN_TREE, default_plugins, in_tree
from extender.config.scheduler.schema import API_VERSION, KIND, PluginsSection
from extender.core.framework.plugins import FILTERS
from extender.core.profile import UPSTREAM
from extender.errors import ConfigError
from extender.k8s.version.features import Features
from extender.k8s.version.gates import Emulation
from extender.k8s.version.versions import NEWEST_MINOR, OLDEST_MINOR

FEW = {"disabled": [{"name": "*"}], "enabled": [{"name": "PrioritySort"}, {"name": "DefaultBinder"}]}
"""MultiPoint with what kube-scheduler needs to start, and nothing else."""


def document(*profiles, **others):
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": list(profiles), **others}


def profile(version="1.37", *, config=(), **plugins):
    return kube_scheduler_of(document({"plugins": plugins, "pluginConfig": list(config)}), version=version).profiles[0]


def enabled(*names, **weights):
    return {"enabled": [{"name": name} for name in names] + [{"name": n, "weight": w} for n, w in weights.items()]}


def disabled(*names):
    return {"disabled": [{"name": name} for name in names]}


def few(*names, **weights):
    return {**FEW, "enabled": [*FEW["enabled"], *enabled(*names, **weights)["enabled"]]}


def weights(profile):
    return dict(profile.score_weights)


# --- what kube-scheduler itself runs ----------------------------------------------------------------------------------

EXPANDED = [
    json.loads(line)
    for line in gzip.decompress((Path(__file__).parent / "expanded.jsonl.gz").read_bytes()).decode().splitlines()
]
"""Random plugins of a profile, and the lists that kube-scheduler v1.36.2, v1.33 and v1.30 log when they start."""


@pytest.mark.parametrize("number", range(len(EXPANDED)))
def test_the_plugins_that_run_are_those_that_kube_scheduler_logs(number):
    case = EXPANDED[number]
    minor = int(case["version"].removeprefix("1."))
    given = decode(PluginsSection, case["plugins"])
    sets = merge_plugins(given, Features.of(minor))
    assert list(misplaced_plugins(sets, minor, ())) == []
    found = expand(sets, minor)
    scored = [[name, found.weights[name]] for name in found.points["score"]]
    for point, names in found.points.items():
        assert (scored if point == "score" else list(names)) == case["runs"].get(point, []), point


# --- the default list -------------------------------------------------------------------------------------------------


def test_without_a_configuration_it_is_kube_schedulers_default_profile():
    found = kube_scheduler_of({}).profiles[0]
    assert found.scheduler_names == {"default-scheduler"}
    assert {slot: getattr(found, slot) for slot in UPSTREAM.__slots__ if slot != "scheduler_names"} == {
        slot: getattr(UPSTREAM, slot) for slot in UPSTREAM.__slots__ if slot != "scheduler_names"
    }


CHANGES = {
    29: {"EBSLimits", "GCEPDLimits", "AzureDiskLimits"},
    31: set(),
    34: {"DynamicResources"},
    36: {"DynamicResources", "NodeDeclaredFeatures"},
}
"""Minor -> plugins of the default list from then on that are not in those of all minors."""


@pytest.mark.parametrize("minor", range(OLDEST_MINOR, NEWEST_MINOR + 1))
def test_the_default_list_of_each_minor(minor):
    names = {name for name, _ in default_plugins(Features.of(minor))}
    changing = set().union(*CHANGES.values())
    assert names & changing == next(CHANGES[first] for first in sorted(CHANGES, reverse=True) if first <= minor)
    assert names <= in_tree(minor).keys()
    assert len(names - changing) == 18


def test_dynamic_resources_comes_before_default_preemption_and_node_declared_features_last():
    names = [name for name, _ in default_plugins(Features.of(37))]
    assert names.index("DynamicResources") == names.index("DefaultPreemption") - 1
    assert names[-1] == "NodeDeclaredFeatures"


def test_a_gate_takes_its_plugin_out_of_the_default_list():
    gates = {"NodeDeclaredFeatures": False}
    found = kube_scheduler_of({}, version="1.35", feature_gates=gates).profiles[0]
    assert "NodeDeclaredFeatures" not in (*found.filter_plugins, *found.prefilter_plugins)
    found = kube_scheduler_of({}, version="1.37", emulation=Emulation(35)).profiles[0]
    assert found.filter_plugins == tuple(name for name in UPSTREAM.filter_plugins if name != "NodeDeclaredFeatures")


def test_a_gate_puts_deferred_pods_before_node_resources_fit():
    gates = {"InPlacePodVerticalScalingSchedulerPreemption": True}
    names = [name for name, _ in default_plugins(Features.of(37, gates))]
    assert names[names.index("DeferredPodScheduling") + 1] == "NodeResourcesFit"


def test_node_name_comes_first_from_1_37_on():
    assert profile("1.36").filter_plugins[:2] == ("NodeUnschedulable", "NodeName")
    assert profile("1.37").filter_plugins[:2] == ("NodeName", "NodeUnschedulable")


@pytest.mark.parametrize(
    ("point", "since", "plugin"),
    [
        ("placementGenerate", 36, "TopologyPlacementGenerator"),
        ("placementScore", 36, "PodGroupPodsCount"),
        ("podGroupPostFilter", 37, "DefaultPreemption"),
        ("placementFeasible", 38, "GangScheduling"),
    ],
)
def test_extension_points_of_pod_groups_are_keys_since_a_minor(point, since, plugin):
    assert profile(f"1.{since}", **{point: enabled(plugin)}).scheduler_name == "default-scheduler"
    with pytest.raises(ConfigError, match=rf"plugins\.{point}: unknown key in 1\.{since - 1}"):
        profile(f"1.{since - 1}", **{point: enabled(plugin)})
    if since == 37:
        with pytest.raises(ConfigError, match='plugin "NodeName" does not extend PodGroupPostFilterPlugin plugin'):
            profile("1.37", podGroupPostFilter=enabled("NodeName"))


def test_dynamic_resources_scores_from_1_35_on():
    before, since = (weights(profile(version)) for version in ("1.34", "1.35"))
    assert since == before | {"DynamicResources": 2}


def test_default_preemption_keeps_pods_out_of_the_queue_from_1_32_on():
    assert profile("1.31").pre_enqueue_plugins == ("SchedulingGates",)
    assert profile("1.32").pre_enqueue_plugins == ("SchedulingGates", "DefaultPreemption")


# --- mergePlugins -----------------------------------------------------------------------------------------------------


def test_a_plugin_at_a_point_comes_after_the_default_ones():
    found = profile(multiPoint=FEW | enabled("PrioritySort", "DefaultBinder", "NodeName"), filter=enabled("NodePorts"))
    assert found.filter_plugins == ("NodeName", "NodePorts")


def test_disabling_all_and_enabling_again_orders_them():
    found = profile(filter=disabled("*") | enabled("NodePorts", "NodeName"))
    assert found.filter_plugins == ("NodePorts", "NodeName")
    assert found.prefilter_plugins == UPSTREAM.prefilter_plugins  # what is disabled for filter only still prefilters


def test_a_default_plugin_that_multi_point_enables_again_keeps_its_place_but_not_its_weight():
    found = profile(multiPoint=enabled("TaintToleration", NodeAffinity=7))
    assert found.filter_plugins == UPSTREAM.filter_plugins
    assert found.score_weights == tuple(
        (name, {"TaintToleration": 1, "NodeAffinity": 7}.get(name, weight)) for name, weight in UPSTREAM.score_weights
    )


def test_a_default_plugin_that_is_disabled_and_enabled_again_moves_to_the_end():
    found = profile(multiPoint=enabled("NodeName") | disabled("NodeName"))
    assert found.filter_plugins == (*(one for one in UPSTREAM.filter_plugins if one != "NodeName"), "NodeName")


def test_a_plugin_that_multi_point_disables_runs_nowhere():
    found = profile(multiPoint=disabled("PodTopologySpread"))
    everywhere = (*found.prefilter_plugins, *found.filter_plugins, *found.prescore_plugins, *weights(found))
    assert "PodTopologySpread" not in everywhere
    assert len(everywhere) == 13 + 13 + 6 + 8


def test_disabling_what_does_not_exist_changes_nothing():
    assert profile(filter=disabled("Nothing")) == profile()


# --- MultiPoint against specific points -------------------------------------------------------------------------------


def test_multi_point_enables_a_plugin_at_each_point_that_it_implements():
    found = profile(multiPoint=few("TaintToleration", "NodePorts"))
    assert found.filter_plugins == ("TaintToleration", "NodePorts")
    assert (found.prefilter_plugins, found.prescore_plugins) == (("TaintToleration", "NodePorts"), ("TaintToleration",))
    assert found.score_weights == (("TaintToleration", 1),)


def test_a_point_may_disable_what_multi_point_enables():
    found = profile(multiPoint=few("TaintToleration"), score=disabled("TaintToleration"))
    assert (found.filter_plugins, found.score_weights) == (("TaintToleration",), ())
    assert found.prescore_plugins == ("TaintToleration",)  # a PreScore without its Score


def test_what_a_point_configures_again_comes_first_in_the_points_order():
    found = profile(
        multiPoint=few("NodeName", "NodePorts", "NodeUnschedulable"), filter=enabled("NodeUnschedulable", "NodePorts")
    )
    assert found.filter_plugins == ("NodeUnschedulable", "NodePorts", "NodeName")


def test_what_multi_point_does_not_have_comes_last_whatever_its_place_at_the_point():
    found = profile(multiPoint=few("NodeName", "NodePorts"), filter=enabled("VolumeZone", "NodePorts"))
    assert found.filter_plugins == ("NodePorts", "NodeName", "VolumeZone")


def test_a_weight_at_score_stands_over_that_of_multi_point():
    found = profile(multiPoint=few(NodeAffinity=5, ImageLocality=3), score=enabled(NodeAffinity=2))
    assert found.score_weights == (("NodeAffinity", 2), ("ImageLocality", 3))


def test_a_weight_of_0_is_1():
    found = profile(score=enabled("TaintToleration", NodeAffinity=0))
    assert (weights(found)["TaintToleration"], weights(found)["NodeAffinity"]) == (1, 1)


def test_disabling_and_enabling_by_name_at_a_point_leaves_it_enabled():
    found = profile(score=enabled(PodTopologySpread=9) | disabled("PodTopologySpread"))
    assert found.score_weights[-1] == ("PodTopologySpread", 9)


def test_several_profiles_are_expanded_each_by_itself():
    scheduler = kube_scheduler_of(
        document({"schedulerName": "a", "plugins": {"filter": disabled("*")}}, {"schedulerName": "b"})
    )
    first, second = scheduler.profiles
    assert (first.filter_plugins, second.filter_plugins) == ((), UPSTREAM.filter_plugins)
    assert first.scheduler_names == second.scheduler_names == {"a", "b"}


def test_every_profile_knows_which_of_them_do_not_hold_gated_pods_back():
    scheduler = kube_scheduler_of(
        document({"schedulerName": "a", "plugins": {"preEnqueue": disabled("SchedulingGates")}}, {"schedulerName": "b"})
    )
    assert {one.ungated_scheduler_names for one in scheduler.profiles} == {frozenset({"a"})}


# --- plugins that are not in-tree -------------------------------------------------------------------------------------


def test_a_plugin_that_is_not_in_tree_is_named_where_it_may_decide():
    found = profile(
        filter=enabled("Own"), score=enabled("Other"), postFilter=enabled("Third"), preEnqueue=enabled("Fourth")
    )
    assert (found.not_evaluated_filters, found.not_evaluated_scores) == (("Own",), ("Other",))
    assert (found.not_evaluated_post_filters, found.not_evaluated_others) == (("Third",), ("Fourth",))
    assert found.not_evaluated_plugins == ("Fourth", "Other", "Own", "Third")
    assert found.filter_plugins == UPSTREAM.filter_plugins


def test_a_plugin_of_multi_point_may_decide_wherever_it_is_not_disabled():
    found = profile(multiPoint=enabled("Own"), score=disabled("Own"), preScore=disabled("*"))
    assert (found.not_evaluated_filters, found.not_evaluated_scores) == (("Own",), ())


@pytest.mark.parametrize("point", ["reserve", "permit", "preBind", "bind", "postBind", "queueSort"])
def test_a_plugin_without_a_say_in_verdicts_is_not_named(point):
    plugins = {point: enabled("Own") | (disabled("*") if point == "queueSort" else {})}
    assert profile(**plugins).not_evaluated_plugins == ()


def test_a_queue_sort_of_multi_point_is_not_taken_for_one_of_the_profile():
    own = {"plugins": {"multiPoint": enabled("Own")}}
    kube_scheduler_of(document({"schedulerName": "a"}, {"schedulerName": "b", **own}))


def test_gang_scheduling_is_in_tree_but_not_evaluated():
    assert profile(multiPoint=enabled("GangScheduling")).not_evaluated_plugins == ("GangScheduling",)


def test_a_plugin_of_another_minor_does_not_exist():
    for version, name in (
        ("1.34", "NodeDeclaredFeatures"),
        ("1.36", "CinderLimits"),
        ("1.36", "DeferredPodScheduling"),
    ):
        with pytest.raises(ConfigError, match=f'plugin "{name}" does not exist'):
            profile(version, multiPoint=enabled(name))
    assert profile("1.37", filter=enabled("DeferredPodScheduling")).not_evaluated_plugins == ()


@pytest.mark.parametrize(("plugin", "point"), [("VolumeBinding", "preScore"), ("DynamicResources", "preBind")])
def test_extension_points_that_a_plugin_has_from_1_30_on(plugin, point):
    profile("1.30", **{point: enabled(plugin)})
    interface = f"{point[0].upper()}{point[1:]}Plugin"
    with pytest.raises(ConfigError, match=f'plugin "{plugin}" does not extend {interface} plugin'):
        profile("1.29", **{point: enabled(plugin)})


POINTS = sorted({point for one in IN_TREE.values() for point in one.points})


@pytest.mark.parametrize("name", in_tree(37))
def test_an_in_tree_plugin_may_be_enabled_where_it_runs_and_nowhere_else(name):
    runs = {point for point in POINTS if in_tree(37)[name].implements(point, 37)}
    for point in POINTS:
        given = document({"plugins": {point: enabled(name) | disabled("*")}})
        with contextlib.nullcontext() if point in runs else pytest.raises(ConfigError, match="does not extend"):
            kube_scheduler_of(given, version="1.37")


# --- arguments --------------------------------------------------------------------------------------------------------


def managed(*names):
    return [{"managedResources": [{"name": name, "ignoredByScheduler": True} for name in names]}]


def test_what_extenders_manage_replaces_the_ignored_resources_of_every_profile():
    fit = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["a.example/x"]}}
    profiles = {"schedulerName": "a", "pluginConfig": [fit]}, {"schedulerName": "b"}
    found = [one.ignored_resources for one in kube_scheduler_of(document(*profiles)).profiles]
    assert found == [{"a.example/x"}, frozenset()]
    scheduler = kube_scheduler_of(document(*profiles, extenders=managed("b.example/y")))
    assert [one.ignored_resources for one in scheduler.profiles] == [{"b.example/y"}] * 2


def test_arguments_of_a_plugin_that_is_not_built_are_not_looked_at():
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Nonsense"}}}
    assert profile(config=[fit], multiPoint=disabled("NodeResourcesFit")).fit_strategy == UPSTREAM.fit_strategy


def test_the_share_of_nodes_is_the_profiles_own_or_the_general_one():
    profiles = {"schedulerName": "a", "percentageOfNodesToScore": 0}, {"schedulerName": "b"}
    scheduler = kube_scheduler_of(document(*profiles, percentageOfNodesToScore=40))
    assert [one.percentage_of_nodes_to_score for one in scheduler.profiles] == [0, 40]


def test_a_strategy_without_resources_scores_cpu_and_memory():
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated", "resources": []}}}
    assert profile(config=[fit]).fit_strategy.resources == (("cpu", 1), ("memory", 1))


def test_a_resource_weight_of_0_is_1():
    resources = [{"name": "cpu", "weight": 0}, {"name": "memory"}, {"name": "a.example/x", "weight": 3}]
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated", "resources": resources}}}
    assert profile(config=[fit]).fit_strategy.resources == (("cpu", 1), ("memory", 1), ("a.example/x", 3))


def test_an_empty_list_of_default_constraints_is_not_the_system_default():
    args = {"defaultingType": "List", "defaultConstraints": []}
    assert profile(config=[{"name": "PodTopologySpread", "args": args}]).default_spread_constraints == ()
    assert profile().default_spread_constraints is None


def test_a_plugin_of_the_engines_registry_need_not_be_in_tree(monkeypatch):
    monkeypatch.setitem(FILTERS, "PodsPerApp", lambda context: ())
    found = profile(filter=enabled("PodsPerApp", "Other"))
    assert found.filter_plugins[-1] == "PodsPerApp"
    assert found.not_evaluated_filters == ("Other",)
