"""A profile's plugins: their order, PreFilter without Filter, plugins that fail, and plugins that are not in-tree.

What upstream says of each plugin without its PreFilter or PreScore is in the parity corpus (wide/framework).
"""

from dataclasses import replace

import pytest

from extender.core import engine
from extender.core.evaluation import Evaluation
from extender.core.preemption.sent_candidates import RejectionReason
from extender.core.profile import FILTER_PLUGINS, PRESCORE_PLUGINS, UPSTREAM, PreemptionPolicy
from extender.errors import PluginFailed
from extender.k8s.candidates import SentCandidate
from tests.builders import built, cluster, incoming, node, pod, typed
from tests.device_builders import using_claims

TAINT = {"key": "k", "effect": "NoSchedule"}
OUT_OF_TREE = replace(UPSTREAM, not_evaluated_filters=("Quota", "Topology"), not_evaluated_scores=("Cost", "Topology"))
FAILING = replace(UPSTREAM, prefilter_plugins=tuple(name for name in FILTER_PLUGINS if name != "NodePorts"))


def world(**of_node):
    return built(cluster({node("full", cpu="2", **of_node): [pod("low", "2")], node("free", cpu="2"): []}))


def verdict(profile, snapshot, name="full"):
    return Evaluation(snapshot, typed(incoming(cpu="2")), profile).to_dict()["filter"][name]


@pytest.mark.parametrize(
    ("first", "code"), [("TaintToleration", "UnschedulableAndUnresolvable"), ("NodeResourcesFit", "Unschedulable")]
)
def test_the_first_filter_of_the_profile_that_rejects_gives_code_and_reason(first, code):
    profile = replace(UPSTREAM, filter_plugins=tuple(dict.fromkeys([first, *FILTER_PLUGINS])))
    found = verdict(profile, world(taints=[TAINT]))
    assert (found["plugin"], found["code"]) == (first, code)


def test_a_filter_that_is_not_enabled_rejects_nothing():
    profile = replace(UPSTREAM, filter_plugins=("NodeName",))
    assert verdict(profile, world(taints=[TAINT]))["code"] == "Success"


def test_a_prefilter_whose_filter_is_not_enabled_still_leaves_nodes_out():
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["full"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    profile = replace(UPSTREAM, filter_plugins=tuple(name for name in FILTER_PLUGINS if name != "NodeAffinity"))
    found = Evaluation(world(), typed(incoming(cpu="1", affinity=affinity)), profile).to_dict()
    assert found["prefilterNodes"] == ["full"]
    assert found["filter"]["free"]["reasons"] == ["node(s) didn't satisfy plugin(s) [NodeAffinity]"]


# --- plugins that fail ----------------------------------------------------------------------------------------------

ERROR = 'running "NodePorts" filter plugin: reading "PreFilterNodePorts" from cycleState: not found'


def test_a_filter_that_fails_leaves_every_verb_without_an_answer():
    snapshot, preemptor = world(), typed(incoming(cpu="2"))
    with pytest.raises(PluginFailed, match=r"PreFilterNodePorts"):
        engine.filter(snapshot, preemptor, ["free"], FAILING)
    with pytest.raises(PluginFailed, match=r"PreFilterNodePorts"):
        engine.prioritize(snapshot, preemptor, ["free"], FAILING)
    with pytest.raises(PluginFailed, match=r"PreFilterNodePorts"):
        engine.preempt(snapshot, preemptor, {"full": SentCandidate(("uid-low",), 0)}, FAILING)
    assert Evaluation(snapshot, preemptor, FAILING).to_dict()["cycleError"] == ERROR


def test_a_failure_on_a_node_that_was_not_asked_about_is_none():
    # A check in front of it rejects `full`: the failing plugin does not run there.
    profile = replace(FAILING, filter_plugins=("NodeResourcesFit", "NodePorts"))
    decision = engine.filter(world(), typed(incoming(cpu="2")), ["full"], profile)
    assert decision.accepted == ()
    with pytest.raises(PluginFailed):
        engine.filter(world(), typed(incoming(cpu="2")), ["full", "free"], profile)


def test_in_the_dry_run_a_failing_filter_makes_no_candidate():
    profile = replace(FAILING, filter_plugins=("NodeResourcesFit", "NodePorts"))
    found = Evaluation(world(), typed(incoming(cpu="2")), profile).to_dict()
    assert (found["candidates"], found["dryRunError"]) == ({}, ERROR)
    decision = engine.preempt(world(), typed(incoming(cpu="2")), {"full": SentCandidate(("uid-low",), 0)}, profile)
    assert decision.kept == ()
    assert ERROR in decision.no_candidate_reason


def test_a_score_plugin_without_its_prescore_leaves_prioritize_without_an_answer():
    names = tuple(name for name in PRESCORE_PLUGINS if name != "TaintToleration")
    profile, preemptor = replace(UPSTREAM, prescore_plugins=names), typed(incoming(cpu="1"))
    assert engine.filter(world(), preemptor, ["free"], profile).accepted == (0,)
    with pytest.raises(PluginFailed, match=r"TaintToleration"):
        engine.prioritize(world(), preemptor, ["free"], profile)


# --- plugins that are not in-tree -----------------------------------------------------------------------------------


def test_plugins_that_are_not_in_tree_are_said_to_be_not_evaluated():
    snapshot, preemptor = world(), typed(incoming(cpu="2"))
    assert OUT_OF_TREE.not_evaluated_plugins == ("Cost", "Quota", "Topology")
    assert engine.filter(snapshot, preemptor, ["free"], OUT_OF_TREE).not_evaluated == ("Quota", "Topology")
    assert engine.prioritize(snapshot, preemptor, ["free"], OUT_OF_TREE).not_evaluated == ("Quota", "Topology", "Cost")
    found = Evaluation(snapshot, preemptor, OUT_OF_TREE).to_dict()["notEvaluated"]
    assert found == {plugin: ["free", "full"] for plugin in ("Cost", "Quota", "Topology")}


def test_kube_scheduler_s_own_victims_are_kept_where_a_filter_that_is_not_in_tree_decides():
    snapshot = built(cluster({node("a", cpu="4"): [pod("low-1", "2"), pod("low-2", "2")]}))
    sent = {"a": SentCandidate(("uid-low-1", "uid-low-2"), 0)}
    decision = engine.preempt(snapshot, typed(incoming(cpu="2")), sent, OUT_OF_TREE)
    assert [victim.metadata.name for victim in decision.kept[0].victims] == ["low-1", "low-2"]
    assert decision.not_evaluated == ("Quota", "Topology")
    assert decision.as_sent == {"a"}
    scores_only = replace(OUT_OF_TREE, not_evaluated_filters=())
    decision = engine.preempt(snapshot, typed(incoming(cpu="2")), sent, scores_only)
    assert (len(decision.kept[0].victims), decision.not_evaluated) == (1, ())


WITHOUT_DYNAMIC_RESOURCES = replace(
    UPSTREAM,
    prefilter_plugins=tuple(name for name in FILTER_PLUGINS if name != "DynamicResources"),
    filter_plugins=tuple(name for name in FILTER_PLUGINS if name != "DynamicResources"),
)
OWN_POST_FILTER = replace(UPSTREAM, post_filter_plugins=(), not_evaluated_post_filters=("PreemptionToleration",))


def test_kube_scheduler_s_own_victims_are_kept_where_a_post_filter_that_is_not_in_tree_may_have_chosen_them():
    low = [pod("protected", "1", priority=0), pod("chosen", "1", priority=5)]
    snapshot = built(cluster({node("a", cpu="2"): low, node("b", cpu="2"): [pod("other", "2")]}))
    preemptor, sent = typed(incoming(cpu="1")), {"a": SentCandidate(("uid-chosen",), 0)}

    def names(profile):
        decision = engine.preempt(snapshot, preemptor, sent, profile)
        victims = {one.node: [victim.metadata.name for victim in one.victims] for one in decision.kept}
        return victims, decision.not_evaluated, decision.as_sent

    assert names(UPSTREAM) == ({"a": ["protected"]}, (), set())
    assert names(OWN_POST_FILTER) == ({"a": ["chosen"]}, ("PreemptionToleration",), {"a"})
    # No further nodes: the plugin may have left them out.
    all_nodes = replace(OWN_POST_FILTER, preemption=PreemptionPolicy(candidates="AllNodes"), keep_candidates=None)
    assert names(all_nodes)[0] == {"a": ["chosen"]}
    # A plugin of multiPoint is named once.
    both = replace(OWN_POST_FILTER, not_evaluated_filters=("PreemptionToleration",))
    assert names(both) == ({"a": ["chosen"]}, ("PreemptionToleration",), {"a"})
    found = Evaluation(snapshot, preemptor, OWN_POST_FILTER).to_dict()["notEvaluated"]
    assert found == {"PreemptionToleration": ["a", "b"]}


def test_a_post_filter_that_is_not_in_tree_has_no_say_in_filter_and_prioritize_nor_where_the_pod_fits():
    snapshot, preemptor = world(), typed(incoming(cpu="1"))
    assert engine.filter(snapshot, preemptor, ["free"], OWN_POST_FILTER).not_evaluated == ()
    assert engine.prioritize(snapshot, preemptor, ["free"], OWN_POST_FILTER).not_evaluated == ()
    decision = engine.preempt(snapshot, preemptor, {"free": SentCandidate((), 0)}, OWN_POST_FILTER)
    assert (decision.kept, decision.dropped["free"].code) == ((), RejectionReason.FITS)


def test_dynamic_resources_that_only_score_fail():
    """PreFilter does not prepare them, so /prioritize has no answer."""
    with pytest.raises(PluginFailed, match=r'"DynamicResources" failed with: not found'):
        engine.prioritize(world(), typed(incoming(cpu="1")), ["free"], WITHOUT_DYNAMIC_RESOURCES)


def test_dynamic_resources_that_are_not_enabled_are_evaluated_nowhere():
    """The claim does not exist: that is for DynamicResources alone to say."""
    waiting = typed(incoming(cpu="1", **using_claims("gpu")))
    rejected = Evaluation(world(), waiting, UPSTREAM).to_dict()["prefilter"]
    assert (rejected["plugin"], rejected["reasons"]) == (
        "DynamicResources",
        ['could not find ResourceClaim "default/gpu"'],
    )
    assert "prefilter" not in Evaluation(world(), waiting, WITHOUT_DYNAMIC_RESOURCES).to_dict()
