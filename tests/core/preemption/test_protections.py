"""Which pods are protected: every condition of a rule, tolerations, tenants and cooldowns, one by one and together.

The reasons for one pod (`protection_reasons`) and the mask of all pods (`ProtectionIndex.protected`) are compared
wherever either is used. In all cases the preemptor has priority 1000, and all other pods less.
"""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from extender.core import engine
from extender.core.eviction_history import Eviction, EvictionHistory
from extender.core.framework.filter import scheduling_context
from extender.core.preemption import protections as policies
from extender.core.preemption.protections import (
    PreemptionToleration,
    ProtectionIndex,
    parse_preemption_toleration,
    protection_reasons,
)
from extender.core.profile import Limits, PreemptionPolicy, Profile, Protection
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.objects import LabelSelector, Namespace, PriorityClass
from extender.k8s.selectors import compile_label_selector
from extender.k8s.time import MINUTE, SECOND
from tests.builders import STARTED as STARTED_TEXT
from tests.builders import built, cluster, drop_messages, incoming, namespace, node, placed, pod, snapshot, thing, typed
from tests.profiles import SEEDS, examples

STARTED = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z, when all pods of the builders have started."""

NEW_PREFIX, OLD_PREFIX = (f"preemption-toleration.scheduling.{domain}" for domain in ("sigs.k8s.io", "x-k8s.io"))


def profile(*rules, limits=None, **policy):
    return Profile(preemption=PreemptionPolicy(protections=rules, limits=limits or Limits(), **policy))


def after(seconds=0.0, *evictions):
    """So long after the pods have started."""
    return EvictionHistory(STARTED + round(seconds * SECOND), evictions)


def owned(kind, name="web", controller=True):
    return {"ownerReferences": [{"kind": kind, "name": name, "uid": f"uid-{name}", "controller": controller}]}


def annotated(**annotations):
    return {"annotations": {key.replace("_", "-"): value for key, value in annotations.items()}}


def why(one, chosen, history=None, preemptor=None, **others):
    """The reasons for one running pod; the mask must say the same."""
    here = built(cluster({node("n1"): [one]}, **others))
    asked = scheduling_context(here, typed(preemptor or incoming()), chosen, history or after())
    said = protection_reasons(asked, next(iter(here.objects.pods.values())))
    mask = here.index(ProtectionIndex, chosen.preemption).protected(asked, None)
    assert mask[0] == bool(said)
    return said


def selector(**labels):
    return compile_label_selector(LabelSelector(match_labels=labels))


# --- rules ------------------------------------------------------------------------------------------------------------

SHOP = pod(
    "db-0", namespace="shop", labels={"app": "db"}, priorityClassName="gold", metadata=owned("StatefulSet", "db")
)
"""The pod that rules are about."""


@pytest.mark.parametrize(
    ("rule", "one", "met"),
    [
        pytest.param({}, SHOP, True, id="1: a rule without conditions means everybody"),
        pytest.param({"namespaces": {"shop"}}, SHOP, True, id="2: its namespace"),
        pytest.param({"namespaces": {"other", "shop"}}, SHOP, True, id="3: one of several namespaces"),
        pytest.param({"namespaces": {"other"}}, SHOP, False, id="4: another namespace"),
        pytest.param({"selector": selector(app="db")}, SHOP, True, id="5: its labels"),
        pytest.param({"selector": selector(app="web")}, SHOP, False, id="6: other labels"),
        pytest.param({"selector": selector(app="db")}, pod("a", labels={}), False, id="7: no labels"),
        pytest.param({"priority_classes": {"gold"}}, SHOP, True, id="8: its priority class"),
        pytest.param({"priority_classes": {"silver"}}, SHOP, False, id="9: another priority class"),
        pytest.param({"priority_classes": {"gold"}}, pod("a"), False, id="10: no priority class"),
        pytest.param({"owner_kinds": {"StatefulSet"}}, SHOP, True, id="11: the kind of its controller"),
        pytest.param({"owner_kinds": {"DaemonSet", "Job"}}, SHOP, False, id="12: other kinds of controllers"),
        pytest.param({"owner_kinds": {"StatefulSet"}}, pod("a"), False, id="13: no owner"),
        pytest.param(
            {"owner_kinds": {"StatefulSet"}},
            pod("a", metadata=owned("StatefulSet", controller=False)),
            False,
            id="14: an owner that is not its controller",
        ),
        pytest.param(
            {"owner_kinds": {"Job"}},
            pod(
                "a",
                metadata={
                    "ownerReferences": [
                        *owned("Tool", controller=False)["ownerReferences"],
                        *owned("Job")["ownerReferences"],
                    ]
                },
            ),
            True,
            id="15: the second owner is its controller",
        ),
        pytest.param(
            {"annotations": (("keep", None),)},
            pod("a", metadata=annotated(keep="")),
            True,
            id="16: an annotation, whatever its value",
        ),
        pytest.param(
            {"annotations": (("keep", None),)},
            pod("a", metadata=annotated(kept="")),
            False,
            id="17: another annotation",
        ),
        pytest.param({"annotations": (("keep", None),)}, pod("a"), False, id="18: no annotation"),
        pytest.param(
            {"annotations": (("keep", "yes"),)},
            pod("a", metadata=annotated(keep="yes")),
            True,
            id="19: an annotation of that value",
        ),
        pytest.param(
            {"annotations": (("keep", "yes"),)},
            pod("a", metadata=annotated(keep="Yes")),
            False,
            id="20: an annotation of another value",
        ),
        pytest.param(
            {"annotations": (("keep", ""),)},
            pod("a", metadata=annotated(keep="yes")),
            False,
            id="21: an empty value is a value",
        ),
        pytest.param(
            {"annotations": (("keep", "yes"), ("hold", None))},
            pod("a", metadata=annotated(hold="no")),
            True,
            id="22: one of several annotations is enough",
        ),
        pytest.param(
            {
                "namespaces": {"shop"},
                "selector": selector(app="db"),
                "priority_classes": {"gold"},
                "owner_kinds": {"StatefulSet"},
            },
            SHOP,
            True,
            id="23: every condition is met",
        ),
        pytest.param(
            {"namespaces": {"other"}, "selector": selector(app="db")},
            SHOP,
            False,
            id="24: every condition but the namespace",
        ),
        pytest.param(
            {"namespaces": {"shop"}, "selector": selector(app="web")},
            SHOP,
            False,
            id="25: every condition but the labels",
        ),
        pytest.param(
            {"namespaces": {"shop"}, "priority_classes": {"silver"}},
            SHOP,
            False,
            id="26: every condition but the priority class",
        ),
        pytest.param(
            {"namespaces": {"shop"}, "owner_kinds": {"Job"}}, SHOP, False, id="27: every condition but the controller"
        ),
        pytest.param(
            {"namespaces": {"shop"}, "annotations": (("keep", None),)},
            SHOP,
            False,
            id="28: every condition but the annotation",
        ),
    ],
)
def test_a_rule_protects_pods_that_meet_all_of_its_conditions(rule, one, met):
    given: Any = {key: frozenset(value) if isinstance(value, set) else value for key, value in rule.items()}
    assert why(one, profile(Protection("kept", **given))) == (("protected by kept",) if met else ())


@pytest.mark.parametrize(
    ("start", "seconds", "said"),
    [
        pytest.param("2026-01-01T00:00:00Z", 0, "until 2026-01-01T00:01:40Z", id="1: just started"),
        pytest.param("2026-01-01T00:00:00Z", 99, "until 2026-01-01T00:01:40Z", id="2: one second left"),
        pytest.param("2026-01-01T00:00:00Z", 99.999999999, "until 2026-01-01T00:01:40Z", id="3: a nanosecond left"),
        pytest.param("2026-01-01T00:00:00Z", 100, None, id="4: just over"),
        pytest.param("2026-01-01T00:00:00Z", 101, None, id="5: long over"),
        pytest.param("2026-01-01T00:00:00.5Z", 100, "until 2026-01-01T00:01:41Z", id="6: half a second is rounded up"),
        pytest.param("2026-01-01T00:00:10Z", 0, "until 2026-01-01T00:01:50Z", id="7: started in the future"),
        pytest.param("2026-01-01T02:00:00+02:00", 99, "until 2026-01-01T00:01:40Z", id="8: in another time zone"),
        pytest.param(None, 10**6, "until it has run for 100s", id="9: not started"),
    ],
)
def test_a_minimum_runtime_protects_until_it_is_over(start, seconds, said):
    """100 s of 2026-01-01T00:00:00Z on."""
    rule = Protection("young", min_runtime=100 * SECOND)
    expected = () if said is None else (f"protected by young {said}",)
    assert why(pod("a", start=start), profile(rule), after(seconds)) == expected


def test_a_minimum_runtime_does_not_protect_pods_that_the_rule_does_not_match():
    rule = Protection("young", namespaces=frozenset({"other"}), min_runtime=100 * SECOND)
    assert why(pod("a"), profile(rule)) == ()


def test_of_a_runtime_of_centuries_it_is_said_when_it_ends():
    """120 years of 365 days: there are 29 leap days from 2028 to 2144, so it is 29 days less than 120 years."""
    rule = Protection("old", min_runtime=120 * 365 * 86400 * SECOND)
    assert why(pod("a"), profile(rule)) == ("protected by old until 2145-12-03T00:00:00Z",)


@pytest.mark.parametrize(
    ("priority", "protected"),
    [
        pytest.param(499, True, id="1: below"),
        pytest.param(500, False, id="2: at"),
        pytest.param(501, False, id="3: above"),
        pytest.param(None, True, id="4: without a priority, which is 0"),
    ],
)
def test_a_rule_may_end_at_a_priority(priority, protected):
    rule = Protection("kept", unless_priority_at_least=500)
    preemptor = incoming(priority=priority)
    assert why(pod("a", priority=-1), profile(rule), preemptor=preemptor) == (
        ("protected by kept",) if protected else ()
    )


def test_what_is_below_all_priorities_is_a_bound_as_well():
    rule = Protection("kept", unless_priority_at_least=-10)
    assert why(pod("a", priority=-30), profile(rule), preemptor=incoming(priority=-11)) == ("protected by kept",)
    assert why(pod("a", priority=-30), profile(rule), preemptor=incoming(priority=-10)) == ()


def test_all_reasons_are_collected():
    one = pod("a", namespace="shop", priorityClassName="gold", metadata=owned("DaemonSet"))
    rules = (
        Protection("daemons", owner_kinds=frozenset({"DaemonSet"})),
        Protection("not-meant", namespaces=frozenset({"other"})),
        Protection("young", min_runtime=60 * SECOND),
        Protection("passed", unless_priority_at_least=1000),
    )
    chosen = profile(*rules, limits=Limits(workload_cooldown=MINUTE), tenant_label="tenant", preemption_toleration=True)
    evicted = Eviction(20 * SECOND, ("shop", "DaemonSet", "web"))
    gold = priority_class("gold", {"minimum-preemptable-priority": "2000", "toleration-seconds": "90"})
    said = why(one, chosen, after(10, evicted), namespaces=[namespace("shop", tenant="red")], others=[gold])
    assert said == (
        "protected by daemons",
        "protected by young until 2026-01-01T00:01:00Z",
        "protected by PriorityClass gold from priorities below 2000 until 2026-01-01T00:01:30Z",
        "in another tenant: tenant is red, not unset",
        "cooling down after an eviction from its workload, until 2026-01-01T00:00:50Z",
    )


def test_a_terminating_pod_is_not_protected():
    leaving = pod("a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    chosen = profile(Protection("all"), limits=Limits(workload_cooldown=MINUTE), tenant_label="tenant")
    evicted = Eviction(0, ("default", "Pod", "a"))
    assert (
        why(
            leaving,
            chosen,
            after(0, evicted),
            incoming(namespace="other"),
            namespaces=[namespace("other", tenant="red")],
        )
        == ()
    )


def test_no_pod_is_protected_without_a_policy():
    assert why(SHOP, Profile()) == ()
    assert not PreemptionPolicy().may_change_victims


# --- tolerations ------------------------------------------------------------------------------------------------------


def priority_class(name, said=(), value=0, prefix=NEW_PREFIX):
    annotations = {f"{prefix}/{key}": text for key, text in dict(said).items()}
    return thing("PriorityClass", name, metadata={"annotations": annotations}, value=value)


FOREVER = 2**62


@pytest.mark.parametrize(
    ("minimum", "seconds", "expected"),
    [
        pytest.param(None, None, (101, 0), id="1: nothing said: the value + 1, and no time"),
        pytest.param("5000", None, (5000, 0), id="2: minimum only"),
        pytest.param(None, "60", (101, 60 * SECOND), id="3: seconds only"),
        pytest.param("5000", "60", (5000, 60 * SECOND), id="4: both"),
        pytest.param("5000", "0", (5000, 0), id="5: no seconds"),
        pytest.param("5000", "-1", (5000, FOREVER), id="6: for ever"),
        pytest.param("5000", "-9223372036854775808", (5000, FOREVER), id="7: for ever, the lowest int64"),
        pytest.param("5000", "9223372036854775807", (5000, FOREVER), id="8: as good as for ever"),
        pytest.param("-5", "60", (-5, 60 * SECOND), id="9: a negative minimum"),
        pytest.param("+5", "+60", (5, 60 * SECOND), id="10: Go reads a plus"),
        pytest.param("007", "060", (7, 60 * SECOND), id="11: Go reads leading zeros"),
        pytest.param("2147483647", "60", (2147483647, 60 * SECOND), id="12: the highest int32"),
        pytest.param("2147483648", "60", None, id="13: beyond int32"),
        pytest.param("-2147483649", "60", None, id="14: below int32"),
        pytest.param("5000", "9223372036854775808", None, id="15: beyond int64"),
        pytest.param("5000", "1h", None, id="16: seconds that are no number"),
        pytest.param("high", "60", None, id="17: a minimum that is not a number"),
        pytest.param("", "60", None, id="18: an empty minimum"),
        pytest.param("5000", "", None, id="19: empty seconds"),
        pytest.param(" 5000", "60", None, id="20: a blank"),
        pytest.param("5000", "60\n", None, id="21: a line end"),
        pytest.param("5_000", "60", None, id="22: an underscore"),
        pytest.param("5000", "60.0", None, id="23: a fraction"),
        pytest.param("0x10", "60", None, id="24: hexadecimal"),
        pytest.param("５０００", "60", None, id="25: digits that are not ASCII"),  # noqa: RUF001
    ],
)
@pytest.mark.parametrize("prefix", [NEW_PREFIX, OLD_PREFIX], ids=["the key of the code", "the key of the proposal"])
def test_a_priority_class_says_from_which_preemptors_and_for_how_long(prefix, minimum, seconds, expected):
    """The value is 100. Whatever does not parse is not a toleration at all."""
    said = {"minimum-preemptable-priority": minimum, "toleration-seconds": seconds}
    given = {f"{prefix}/{key}": text for key, text in said.items() if text is not None}
    metadata = replace(typed(pod("any")).metadata, annotations=given)
    found = parse_preemption_toleration(PriorityClass(metadata, value=100))
    assert found == (policies.NO_PREEMPTION_TOLERATION if expected is None else PreemptionToleration(*expected))


def test_the_key_of_the_code_goes_before_the_one_of_the_proposal():
    given = {f"{OLD_PREFIX}/toleration-seconds": "60", f"{NEW_PREFIX}/toleration-seconds": "30"}
    metadata = replace(typed(pod("any")).metadata, annotations=given)
    assert parse_preemption_toleration(PriorityClass(metadata)).duration == 30 * SECOND


def test_no_class_tolerates_nothing():
    assert parse_preemption_toleration(None) == policies.NO_PREEMPTION_TOLERATION


GOLD = "protected by PriorityClass gold from priorities below"


@pytest.mark.parametrize(
    ("said", "start", "seconds", "expected"),
    [
        pytest.param(("5000", "60"), True, 0, f"{GOLD} 5000 until 2026-01-01T00:01:00Z", id="1: at the start"),
        pytest.param(("5000", "60"), True, 59, f"{GOLD} 5000 until 2026-01-01T00:01:00Z", id="2: one second left"),
        pytest.param(("5000", "60"), True, 60, None, id="3: just over"),
        pytest.param(("5000", "60"), False, 10**6, f"{GOLD} 5000 until it has run for 60s", id="4: not started"),
        pytest.param(("5000", "-1"), True, 10**9, f"{GOLD} 5000", id="5: for ever"),
        pytest.param(("5000", "-1"), False, 10**9, f"{GOLD} 5000", id="6: for ever, not started"),
        pytest.param(("5000", None), True, 0, None, id="7: minimum only: no time at all"),
        pytest.param(("5000", None), False, 0, None, id="8: minimum only, not started"),
        pytest.param((None, "60"), True, 0, f"{GOLD} 1501 until 2026-01-01T00:01:00Z", id="9: seconds only"),
        pytest.param(("1001", "60"), True, 0, f"{GOLD} 1001 until 2026-01-01T00:01:00Z", id="10: just below it"),
        pytest.param(("1000", "60"), True, 0, None, id="11: the preemptor is at the minimum"),
        pytest.param(("999", "60"), True, 0, None, id="12: the preemptor is above the minimum"),
        pytest.param(("5000", "soon"), True, 0, None, id="13: it does not parse"),
    ],
)
def test_a_pod_is_tolerated_by_its_priority_class(said, start, seconds, expected):
    """As ExemptedFromPreemption of scheduler-plugins, but from the start of the pod on; the value is 1500."""
    given = dict(zip(("minimum-preemptable-priority", "toleration-seconds"), said, strict=True))
    gold = priority_class("gold", {key: text for key, text in given.items() if text is not None}, value=1500)
    one = pod("a", priorityClassName="gold", start=STARTED_TEXT if start else None)
    found = why(one, profile(preemption_toleration=True), after(seconds), others=[gold])
    assert found == (() if expected is None else (expected,))


def test_tolerations_are_heeded_only_where_that_is_asked_for():
    gold = priority_class("gold", {"minimum-preemptable-priority": "5000", "toleration-seconds": "-1"})
    assert why(pod("a", priorityClassName="gold"), profile(), others=[gold]) == ()


@pytest.mark.parametrize("name", ["", "silver"], ids=["1: no class", "2: a class that is not there"])
def test_a_pod_without_a_known_class_is_not_tolerated(name):
    gold = priority_class("gold", {"minimum-preemptable-priority": "5000", "toleration-seconds": "-1"})
    assert why(pod("a", priorityClassName=name), profile(preemption_toleration=True), others=[gold]) == ()


# --- tenants ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        pytest.param({"tenant": "red"}, {"tenant": "red"}, None, id="1: the same value"),
        pytest.param({"tenant": "red"}, {"tenant": "blue"}, "blue, not red", id="2: another value"),
        pytest.param({"tenant": "red"}, {}, "unset, not red", id="3: unset there"),
        pytest.param({}, {"tenant": "blue"}, "blue, not unset", id="4: unset here"),
        pytest.param({}, {}, None, id="5: unset on both sides"),
        pytest.param({"tenant": "red"}, None, "unset, not red", id="6: no namespace object there"),
        pytest.param(None, {"tenant": "blue"}, "blue, not unset", id="7: no namespace object here"),
        pytest.param(None, {}, None, id="8: no namespace object here, unset there"),
        pytest.param(None, None, None, id="9: no namespace objects"),
        pytest.param({"tenant": ""}, {}, 'unset, not ""', id="10: an empty value is not unset"),
        pytest.param({"other": "red"}, {"other": "blue"}, None, id="11: another label"),
    ],
)
def test_a_fence_stands_between_tenants(own, other, expected):
    given = {"mine": own, "theirs": other}
    namespaces = [namespace(name, **labels) for name, labels in given.items() if labels is not None]
    found = why(
        pod("a", namespace="theirs"),
        profile(tenant_label="tenant"),
        preemptor=incoming(namespace="mine"),
        namespaces=namespaces,
    )
    assert found == (() if expected is None else (f"in another tenant: tenant is {expected}",))


def test_a_namespace_is_of_its_own_tenant_even_if_it_has_no_object():
    assert why(pod("a", namespace="mine"), profile(tenant_label="tenant"), preemptor=incoming(namespace="mine")) == ()


# --- cooldown ---------------------------------------------------------------------------------------------------------

WEB = pod("web-77-x", labels={"pod-template-hash": "77"}, metadata=owned("ReplicaSet", "web-77"))


@pytest.mark.parametrize(
    ("one", "workload", "ago", "cools"),
    [
        pytest.param(WEB, ("default", "Deployment", "web"), 10, True, id="1: of the same Deployment"),
        pytest.param(WEB, ("default", "ReplicaSet", "web-77"), 10, False, id="2: of the ReplicaSet by itself"),
        pytest.param(
            pod("db-0", metadata=owned("StatefulSet", "db")),
            ("default", "StatefulSet", "db"),
            10,
            True,
            id="3: of the same StatefulSet",
        ),
        pytest.param(
            pod("db-0", metadata=owned("StatefulSet", "db")),
            ("default", "Deployment", "db"),
            10,
            False,
            id="4: of a Deployment of the same name",
        ),
        pytest.param(pod("alone"), ("default", "Pod", "alone"), 10, True, id="5: a bare pod of the same name"),
        pytest.param(pod("alone"), ("default", "Pod", "other"), 10, False, id="6: another bare pod"),
        pytest.param(WEB, ("other", "Deployment", "web"), 10, False, id="7: of the same name in another namespace"),
        pytest.param(WEB, ("default", "Deployment", "web"), 59.999999999, True, id="8: a nanosecond left"),
        pytest.param(WEB, ("default", "Deployment", "web"), 60, False, id="9: just over"),
    ],
)
def test_a_workload_that_lost_a_pod_is_left_alone_for_a_while(one, workload, ago, cools):
    """A cooldown of 60 s, of which 10 have gone by: 50 s after 00:02:00."""
    chosen = profile(limits=Limits(workload_cooldown=60 * SECOND))
    said = why(one, chosen, after(120, Eviction(round(ago * SECOND), workload)))
    ends = "2026-01-01T00:02:50Z" if ago == 10 else "2026-01-01T00:02:01Z"
    assert said == ((f"cooling down after an eviction from its workload, until {ends}",) if cools else ())


def test_the_last_eviction_of_a_workload_counts():
    """Evicted 55 s and 5 s ago: 55 s more."""
    evictions = [Eviction(ago * SECOND, ("default", "Pod", "a")) for ago in (5, 55)]
    said = why(pod("a"), profile(limits=Limits(workload_cooldown=60 * SECOND)), after(0, *evictions))
    assert said == ("cooling down after an eviction from its workload, until 2026-01-01T00:00:55Z",)


def test_evictions_do_not_matter_without_a_cooldown():
    assert why(pod("a"), profile(), after(0, Eviction(0, ("default", "Pod", "a")))) == ()


# --- what the engine makes of it --------------------------------------------------------------------------------------

DAEMONS = Protection("daemonSets", owner_kinds=frozenset({"DaemonSet"}))


def decide(nodes, chosen, history=None, preemptor=None, **others):
    here = built(cluster(nodes, **others))
    sent = {one.name: SentCandidate(()) for one in nodes}
    return engine.preempt(here, typed(preemptor or incoming()), sent, chosen, history or after())


def kept(decision):
    return {one.node: [victim.metadata.name for victim in one.victims] for one in decision.kept}


def daemon(name, **fields):
    return pod(name, metadata=owned("DaemonSet"), **fields)


def test_another_pod_goes_where_that_suffices():
    """Both cores of n1 are taken: without the rule the second of two equals would go."""
    nodes = {node("n1", cpu="2"): [pod("a"), daemon("agent")]}
    assert kept(decide(nodes, profile())) == {"n1": ["agent"]}
    assert kept(decide(nodes, profile(DAEMONS))) == {"n1": ["a"]}


def test_a_more_important_pod_goes_for_a_protected_one():
    nodes = {node("n1", cpu="2"): [pod("a", priority=900), daemon("agent", priority=1)]}
    assert kept(decide(nodes, profile(DAEMONS))) == {"n1": ["a"]}


def test_a_node_on_which_protected_pods_take_too_much_is_no_candidate():
    """The preemptor needs 2 of 2 cores: one of them is the agent's."""
    nodes = {node("n1", cpu="2"): [pod("a"), daemon("agent", namespace="shop")], node("n2", cpu="2"): [pod("b", "2")]}
    decision = decide(nodes, profile(DAEMONS), preemptor=incoming(cpu="2"))
    assert kept(decision) == {"n2": ["b"]}
    assert drop_messages(decision) == {
        "n1": "Insufficient cpu; not evictable: shop/agent is protected by daemonSets",
    }


def test_filter_and_prioritize_see_the_same_candidates():
    nodes = {node("n1", cpu="1"): [daemon("agent")], node("n2", cpu="1"): [pod("b")]}
    here, preemptor = snapshot(nodes), typed(incoming())
    decision = engine.filter(here, preemptor, ["n1", "n2"], profile(DAEMONS), after())
    assert (list(decision.failed), list(decision.unresolvable)) == (["n2"], ["n1"])
    assert engine.prioritize(here, preemptor, ["n1", "n2"], profile(DAEMONS), after()).scores == (0, 5)
    assert engine.prioritize(here, preemptor, ["n1", "n2"], profile(), after()).scores == (5, 5)


@pytest.mark.parametrize(
    ("agents", "listed"),
    [
        pytest.param(1, ["default/d0 is protected by daemonSets"], id="1: one"),
        pytest.param(3, [f"default/d{n} is protected by daemonSets" for n in range(3)], id="2: as many as are named"),
        pytest.param(4, [*(f"default/d{n} is protected by daemonSets" for n in range(3)), "1 more"], id="3: one more"),
        pytest.param(9, [*(f"default/d{n} is protected by daemonSets" for n in range(3)), "6 more"], id="4: many more"),
    ],
)
def test_of_three_protected_pods_is_said_why(agents, listed):
    nodes = {node("n1", cpu=str(agents)): [daemon(f"d{n}") for n in range(agents)]}
    decision = decide(nodes, profile(DAEMONS))
    said = "No preemption victims found for incoming pod; not evictable: "
    assert drop_messages(decision) == {"n1": said + ", ".join(listed)}


def test_all_reasons_of_a_pod_stand_in_the_message():
    nodes = {node("n1", cpu="1"): [daemon("agent")]}
    decision = decide(nodes, profile(DAEMONS, Protection("young", min_runtime=60 * SECOND)))
    assert drop_messages(decision)["n1"].endswith(
        "not evictable: default/agent is protected by daemonSets; protected by young until 2026-01-01T00:01:00Z"
    )


def test_pods_that_are_too_important_are_not_in_the_message():
    nodes = {node("n1", cpu="2"): [daemon("equal", priority=1000), daemon("agent")]}
    decision = decide(nodes, profile(DAEMONS))
    assert drop_messages(decision)["n1"].endswith("not evictable: default/agent is protected by daemonSets")


def test_a_protected_pod_is_no_victim_although_kube_scheduler_named_it():
    here = snapshot({node("n1", cpu="2"): [pod("a"), daemon("agent")]})
    decision = engine.preempt(here, typed(incoming()), {"n1": SentCandidate(("uid-agent",))}, profile(DAEMONS), after())
    assert kept(decision) == {"n1": ["a"]}


def test_time_alone_changes_who_may_go():
    """One snapshot, asked again: `b` is young until 00:01:00, and then it is the least important one."""
    here = snapshot({node("n1", cpu="2"): [pod("a", start="2025-12-31T00:00:00Z"), pod("b")]})
    chosen, preemptor = profile(Protection("young", min_runtime=60 * SECOND)), typed(incoming())
    gone = [
        kept(engine.preempt(here, preemptor, {"n1": SentCandidate(())}, chosen, after(seconds)))["n1"]
        for seconds in (0, 59, 60, 59)
    ]
    assert gone == [["a"], ["a"], ["b"], ["a"]]


def test_preemptors_take_turns_without_taking_over_each_others_protections():
    """One snapshot, three preemptors of one priority or above it, in every order."""
    here = snapshot(
        {node("n1", cpu="2"): [pod("r", namespace="red"), pod("b", namespace="blue")]},
        namespaces=[namespace("red", tenant="red"), namespace("blue", tenant="blue")],
    )
    chosen = profile(Protection("red", frozenset({"red"}), unless_priority_at_least=2000), tenant_label="tenant")
    asked = {
        ("red", 1000): None,
        ("red", 2000): ["r"],
        ("blue", 1000): ["b"],
        ("blue", 2000): ["b"],
        ("none", 2000): None,
    }
    for (where, priority), expected in [*asked.items(), *reversed(asked.items()), *asked.items()]:
        preemptor = typed(incoming(priority=priority, namespace=where))
        found = kept(engine.preempt(here, preemptor, {"n1": SentCandidate(())}, chosen, after()))
        assert found.get("n1") == expected


# --- all pods at once, one by one, and after changes ------------------------------------------------------------------

NAMESPACES, TENANTS, CLASSES = ("shop", "blog", "mail"), ("red", "blue", ""), ("", "gold", "silver", "iron")
KINDS = ("ReplicaSet", "StatefulSet", "DaemonSet", "Job")


class World:
    """A cluster that changes at random; pods take rows that others have left, and more than 64 of them."""

    def __init__(self, seed: int, pods: int) -> None:
        self.chance = random.Random(seed)
        self.snapshot = Snapshot()
        self._made = 0
        for name in ("n0", "n1", "n2"):
            self.snapshot.put("Node", typed_node(name))
        for _ in range(pods):
            self.put_pod()
        for name in (*NAMESPACES, *CLASSES[1:]):
            self.relabel(name) if name in NAMESPACES else self.reclass(name)

    def step(self) -> None:
        names = {"relabel": NAMESPACES, "forget": NAMESPACES, "reclass": CLASSES[1:], "declass": CLASSES[1:]}
        what = self.chance.choice(["put_pod"] * 4 + ["remove_pod"] * 4 + ["change_pod"] * 4 + [*names, "remove_node"])
        getattr(self, what)(*([self.chance.choice(names[what])] if what in names else []))

    def put_pod(self) -> None:
        self._made += 1
        self.snapshot.put("Pod", typed(self._pod(f"p{self._made}")))

    def change_pod(self) -> None:
        """Also to another node, and with another UID: it is another pod then."""
        names = [name for _, name in self.snapshot.objects.pods]
        if names:
            name = self.chance.choice(names)
            key = next(key for key in self.snapshot.objects.pods if key[1] == name)
            changed = self._pod(name, key[0])
            if self.chance.random() < 0.3:
                self.snapshot.remove("Pod", key)
                changed["metadata"]["uid"] += "-again"
            self.snapshot.put("Pod", typed(changed))

    def remove_pod(self) -> None:
        if self.snapshot.objects.pods:
            self.snapshot.remove("Pod", self.chance.choice(list(self.snapshot.objects.pods)))

    def remove_node(self) -> None:
        """And put it back into another row."""
        name = self.chance.choice(("n0", "n1", "n2"))
        self.snapshot.remove("Node", ("", name))
        self.snapshot.put("Node", typed_node(name))

    def relabel(self, name) -> None:
        labels = {} if self.chance.random() < 0.3 else {"tenant": self.chance.choice(TENANTS)}
        self.snapshot.put("Namespace", Namespace(replace(typed(pod(name)).metadata, namespace="", labels=labels)))

    def forget(self, name) -> None:
        if ("", name) in self.snapshot.objects.namespaces:
            self.snapshot.remove("Namespace", ("", name))

    def reclass(self, name) -> None:
        said = {"minimum-preemptable-priority": ("500", "1500", "x"), "toleration-seconds": ("0", "60", "200", "-1")}
        prefix = self.chance.choice((NEW_PREFIX, OLD_PREFIX))
        given = {
            f"{prefix}/{key}": self.chance.choice(texts) for key, texts in said.items() if self.chance.random() < 0.8
        }
        metadata = replace(typed(pod(name)).metadata, namespace="", annotations=given)
        self.snapshot.put("PriorityClass", PriorityClass(metadata, value=self.chance.choice((0, 700, 1200))))

    def declass(self, name) -> None:
        if ("", name) in self.snapshot.objects.priority_classes:
            self.snapshot.remove("PriorityClass", ("", name))

    def _pod(self, name, where=None):
        chance = self.chance
        metadata = {} if chance.random() < 0.3 else owned(chance.choice(KINDS), chance.choice(("web-7", "web", "db")))
        if chance.random() < 0.3:
            metadata |= annotated(keep=chance.choice(("yes", "no")))
        if chance.random() < 0.1:
            metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        given = pod(
            name,
            namespace=where or chance.choice(NAMESPACES),
            labels={"app": chance.choice(("db", "web")), "pod-template-hash": "7"},
            priority=chance.choice((0, 100, 900)),
            priorityClassName=chance.choice(CLASSES),
            start=chance.choice((None, "2025-12-31T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z")),
            metadata=metadata,
        )
        return placed(given, chance.choice(("n0", "n1", "n2")))

    def profile(self) -> Profile:
        chance = self.chance
        rules = tuple(self._rule(f"rule-{number}") for number in range(chance.randrange(4)))
        return profile(
            *rules,
            limits=Limits(workload_cooldown=chance.choice((0, 90)) * SECOND),
            tenant_label=chance.choice((None, "tenant")),
            preemption_toleration=chance.random() < 0.5,
        )

    def _rule(self, name) -> Protection:
        chance = self.chance

        def some(values):
            return frozenset(chance.sample(values, 2)) if chance.random() < 0.3 else frozenset()

        return Protection(
            name,
            namespaces=some(NAMESPACES),
            selector=selector(app="db") if chance.random() < 0.3 else Protection("any").selector,
            priority_classes=some(CLASSES),
            owner_kinds=some(KINDS),
            annotations=((("keep", chance.choice((None, "yes"))),) if chance.random() < 0.3 else ()),
            min_runtime=chance.choice((None, None, 60 * SECOND, 3600 * SECOND)),
            unless_priority_at_least=chance.choice((None, None, 500, 1500)),
        )

    def history(self) -> EvictionHistory:
        chance = self.chance
        ages = sorted(chance.randrange(120) * SECOND for _ in range(4))
        workloads = [
            (chance.choice(NAMESPACES), *chance.choice((("Deployment", "web"), ("StatefulSet", "db"), ("Pod", "p1"))))
            for _ in ages
        ]
        return after(chance.choice((0, 59, 60, 100, 4000)), *map(Eviction, ages, workloads))

    def preemptor(self):
        return typed(incoming(priority=self.chance.choice((400, 1000, 2000)), namespace=self.chance.choice(NAMESPACES)))


def typed_node(name):
    return built(cluster({node(name, cpu="1000"): []})).nodes[0]


def masked(here, preemptor, chosen, history):
    """Pod -> protected? Both ways must agree."""
    asked = scheduling_context(here, preemptor, chosen, history)
    mask = here.index(ProtectionIndex, chosen.preemption).protected(asked, None)
    found = {one.key: bool(mask[row]) for row, one in here.running_pods()}
    assert found == {one.key: bool(protection_reasons(asked, one)) for _, one in here.running_pods()}, (
        "all pods at once and each alone disagree"
    )
    return found


@examples(6, 60, 5_000)
@given(SEEDS)
def test_what_is_said_of_all_pods_at_once_is_said_of_each(seed):
    world = World(seed, pods=40)
    world.snapshot.refresh_layout()
    for _ in range(5):
        masked(world.snapshot, world.preemptor(), world.profile(), world.history())


@examples(1, 25, 5_000)
@given(SEEDS)
def test_protections_follow_the_changes_of_a_cluster(seed):
    """Up to 90 pods and then fewer, with the same profiles all the while: rows are new, left and taken again."""
    world = World(seed, pods=50 if seed % 2 else 5)
    profiles = [world.profile() for _ in range(3)]
    for _ in range(15):
        for _ in range(world.chance.randint(1, 12)):
            world.step()
        if world.chance.random() < 0.2:
            for _ in range(40):
                world.put_pod()
        world.snapshot.refresh_layout()
        rebuilt = Snapshot.build(world.snapshot.frozen())
        for chosen in profiles:
            preemptor, history = world.preemptor(), world.history()
            expected = masked(rebuilt, preemptor, chosen, history)
            assert masked(world.snapshot, preemptor, chosen, history) == expected, (
                "other pods are protected than in a new snapshot"
            )
            assert answer(world.snapshot, preemptor, chosen, history) == answer(rebuilt, preemptor, chosen, history), (
                "the changed snapshot answers otherwise than a new one"
            )


def answer(here, preemptor, chosen, history):
    """What is evicted for a pod that needs nearly a whole node."""
    asked = replace(preemptor, spec=typed(incoming(cpu="990")).spec)
    asked = replace(asked, spec=replace(asked.spec, priority=preemptor.priority))
    sent = {name: SentCandidate(()) for name in sorted(here.node_names)}
    every = Profile(keep_candidates=None, preemption=chosen.preemption)
    decision = engine.preempt(here, asked, sent, every, history)
    return {one.node: [victim.metadata.uid for victim in one.victims] for one in decision.kept}, drop_messages(decision)


def test_random_cases_have_all_sorts_of_outcomes():
    """Or the tests above would not test much."""
    outcomes: list[bool] = []
    for seed in range(20):
        world = World(seed, pods=20)
        world.snapshot.refresh_layout()
        outcomes += masked(world.snapshot, world.preemptor(), world.profile(), world.history()).values()
    assert 0.2 < np.mean(outcomes) < 0.8
