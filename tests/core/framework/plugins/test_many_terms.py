"""Pods with thousands of terms or constraints: decisions are the same, and work and memory depend on what can match."""

import numpy as np
import pytest

import extender
from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.framework.filter_checks import Constraint
from extender.core.framework.plugins import inter_pod_affinity, pod_topology_spread
from extender.core.framework.score import score
from extender.core.framework.status import Code
from extender.core.profile import Profile
from extender.core.snapshot import affinity_terms, selector_index
from extender.core.snapshot.arrays import LabelColumn
from extender.k8s.limits import limits
from extender.k8s.selectors import Requirement, required_node_affinity
from tests.builders import incoming, namespace, node, pod, snapshot, typed
from tests.profiles import by_profile
from tests.property.generate import case

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
COUNT = 500


@pytest.mark.parametrize("seed", range(by_profile(15, 40, 500)))
def test_terms_that_are_matched_together_decide_as_those_that_are_matched_one_by_one(seed, monkeypatch):
    one = case(seed)
    expected = extender.evaluate(one.cluster, one.pod, admission="none").to_dict()
    monkeypatch.setattr(affinity_terms, "MAX_REQUIREMENTS_ONE_BY_ONE", -1)
    monkeypatch.setattr(selector_index, "MAX_REQUIREMENTS_ONE_BY_ONE", -1)
    assert extender.evaluate(one.cluster, one.pod, admission="none").to_dict() == expected


def required(kind, terms):
    return {"affinity": {kind: {REQUIRED: terms}}}


def spread(action, keys):
    selector = {"matchLabels": {"app": "web"}}
    return {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector} for key in keys
        ]
    }


def keys(count=COUNT):
    return [f"example.com/key-{nth}" for nth in range(count)]


def terms_of_keys(count=COUNT):
    return [{"topologyKey": key, "labelSelector": {}, "namespaceSelector": {}} for key in keys(count)]


def terms_of_selectors(count=COUNT):
    selectors = [{"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]} for key in keys(count)]
    return [{"topologyKey": HOSTNAME, "labelSelector": one} for one in selectors]


def nodes(*pods):
    names = [node(f"n{nth}", labels={ZONE: f"z{nth % 2}"}) for nth in range(4)]
    return {one: list(pods) if one.name == "n0" else [] for one in names}


def filtered(here, one):
    run = run_filter_plugins(scheduling_context(here, typed(one), Profile()))
    return run, [Code(code).name for code in run.codes.tolist()]


@pytest.fixture
def columns_built(monkeypatch):
    """Number of label columns that were built from the nodes' labels."""
    of, built = LabelColumn.of, list[None]()

    def counting(values):
        built.append(None)
        return of(values)

    monkeypatch.setattr(LabelColumn, "of", counting)
    return built


def sizes(run):
    return {check.plugin: len(check.headroom) for check in run.checks if isinstance(check, Constraint)}


INCOMING = {
    "podAffinity: keys": (required("podAffinity", terms_of_keys()), "UNSCHEDULABLE_AND_UNRESOLVABLE"),
    "podAffinity: selectors": (required("podAffinity", terms_of_selectors()), "UNSCHEDULABLE_AND_UNRESOLVABLE"),
    "podAntiAffinity: keys": (required("podAntiAffinity", terms_of_keys()), "SUCCESS"),
    "podAntiAffinity: selectors": (required("podAntiAffinity", terms_of_selectors()), "SUCCESS"),
    "spread": (spread("DoNotSchedule", [HOSTNAME, *keys()]), "UNSCHEDULABLE_AND_UNRESOLVABLE"),
}


@pytest.mark.parametrize("name", INCOMING)
def test_H1_many_terms_of_an_incoming_pod_have_few_columns(name, columns_built):
    spec, on_others = INCOMING[name]
    here = snapshot(nodes(pod("web", labels={"app": "web"})))
    run, codes = filtered(here, incoming(**spec))
    assert codes[1] == on_others
    assert len(columns_built) <= 3
    assert all(size <= 4 for size in sizes(run).values())


def test_H1_soft_constraints_of_keys_that_no_node_has_score_every_node_0(columns_built):
    here = snapshot(nodes())
    context = scheduling_context(here, typed(incoming(**spread("ScheduleAnyway", keys()))), Profile())
    scores = score(context, np.arange(4)).plugins["PodTopologySpread"]
    assert scores.tolist() == [0] * 4
    assert len(columns_built) <= 3


def test_many_anti_affinity_terms_of_an_incoming_pod_see_the_pods_that_they_match():
    here = snapshot(nodes(pod("web", priority=0, labels={"app": "web"})))
    assert filtered(here, incoming(**required("podAntiAffinity", terms_of_selectors())))[1] == [
        "UNSCHEDULABLE",
        *["SUCCESS"] * 3,
    ]


def test_H2_a_running_pod_with_terms_of_keys_that_no_node_has_adds_no_check(columns_built):
    hostile = pod("hostile", namespace="tenant", **required("podAntiAffinity", terms_of_keys()))
    here = snapshot(nodes(hostile), namespaces=[namespace("tenant")])
    run, codes = filtered(here, incoming())
    assert codes == ["SUCCESS"] * 4
    assert not [check for check in run.checks if check.plugin == inter_pod_affinity.NAME]
    assert len(columns_built) <= 1


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_H2_many_preferred_terms_of_a_running_pod_count_as_often_as_they_are(kind):
    weighted = [{"weight": 2, "podAffinityTerm": one | {"namespaceSelector": {}}} for one in terms_of_selectors()]
    hostile = pod("hostile", affinity={kind: {PREFERRED: weighted}})
    here = snapshot(nodes(hostile))
    context = scheduling_context(here, typed(incoming()), Profile())
    scores = score(context, np.arange(4)).plugins["InterPodAffinity"]
    assert scores.tolist() == ([200, 0, 0, 0] if kind == "podAffinity" else [0, 200, 200, 200])
    (column,) = inter_pod_affinity._running_preferences(here, (("default", (("app", "incoming"),)), 1)).values()
    assert column.matches.tolist()[0] == 2 * COUNT * (1 if kind == "podAffinity" else -1)


def test_H2_many_terms_of_a_nominated_pod_reject_only_its_node():
    waiting = pod("waiting", priority=5000, phase="Pending", start=None, status={"nominatedNodeName": "n1"})
    anti = [one | {"namespaceSelector": {}} for one in terms_of_selectors()]
    waiting["spec"] |= required("podAntiAffinity", anti)
    running = pod("running", priority=5000, **required("podAntiAffinity", anti))
    here = snapshot({one: [running] if one.name == "n3" else [] for one in nodes()}, waiting=[waiting])
    assert filtered(here, incoming())[1] == ["SUCCESS", "UNSCHEDULABLE", "SUCCESS", "UNSCHEDULABLE"]


@pytest.mark.parametrize("more", [0, 1])
def test_H1_more_hard_constraints_than_nodes_can_have_keys_for_are_refused(more):
    keys_of_nodes = [ZONE] * (limits.MAX_HARD_CONSTRAINTS - 1)
    run, codes = filtered(
        snapshot(nodes()), incoming(**spread("DoNotSchedule", keys_of_nodes + [HOSTNAME] * (1 + more)))
    )
    assert codes == (["UNSCHEDULABLE_AND_UNRESOLVABLE"] if more else ["SUCCESS"]) * 4
    assert run.status(0).reasons == ((limits.TOO_MANY_HARD_CONSTRAINTS,) if more else ())


def test_H1_what_the_constraints_of_a_pod_share_is_computed_once(monkeypatch):
    computed = list[None]()

    def counting(pod):
        computed.append(None)
        return required_node_affinity(pod)

    monkeypatch.setattr(pod_topology_spread, "required_node_affinity", counting)
    filtered(snapshot(nodes()), incoming(nodeSelector={"a": "b"}, **spread("DoNotSchedule", [HOSTNAME, ZONE] * 5)))
    assert len(computed) == 1


OPERATORS = [
    ("In", ("1",)),
    ("In", ("1", "5", "other")),
    ("In", ("other",)),
    ("NotIn", ("1", "5")),
    ("NotIn", ("other",)),
    ("Exists", ()),
    ("DoesNotExist", ()),
]


@pytest.mark.parametrize("values", [("1", None, "5", "x", "-7", "9" * 30), (None, None), ("1", "2")])
def test_a_label_column_holds_what_each_value_does(values):
    column = LabelColumn.of(values)
    wanted = [Requirement("k", operator, frozenset(given)) for operator, given in OPERATORS]
    wanted += [Requirement("k", operator, frozenset(("2",)), 2) for operator in ("Gt", "Lt")]
    for one in wanted:
        assert column.holds(one).tolist() == [one.holds(value) for value in values], one


def test_H1_a_requirement_is_checked_without_looking_at_every_value(monkeypatch):
    column = LabelColumn.of([f"worker-{nth}" for nth in range(100)])
    monkeypatch.setattr(Requirement, "holds", lambda *_: pytest.fail("checked value by value"))
    for operator, given in OPERATORS:
        column.holds(Requirement("k", operator, frozenset(given)))
    assert column.holds(Requirement("k", "In", frozenset(f"worker-{nth}" for nth in range(0, 300, 3)))).sum() == 34
