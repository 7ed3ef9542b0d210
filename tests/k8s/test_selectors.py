"""Selectors, node affinity and tolerations match what the API machinery (v1.36) matches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core.snapshot.selector_index import nodes_matching
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import (
    Affinity,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
)
from extender.k8s.selectors import (
    EVERYTHING,
    NODE_OPERATORS,
    NOTHING,
    NodeMatcher,
    SelectorError,
    compile_label_selector,
    compile_node_selector,
    compile_preferred_terms,
    find_untolerated,
    is_label_value,
    is_qualified_name,
    required_node_affinity,
    requirement,
    tolerates,
)


def label_selector(*expressions, **labels):
    return LabelSelector(labels or None, [LabelSelectorRequirement(*one) for one in expressions] or None)


def term(*expressions, fields=()):
    return NodeSelectorTerm(
        [NodeSelectorRequirement(*one) for one in expressions] or None,
        [NodeSelectorRequirement(*one) for one in fields] or None,
    )


VALUES = st.sets(st.sampled_from("xyz"), min_size=1).map(sorted)

# --- label selectors ------------------------------------------------------------------------------------------------

LABEL_CASES = {
    "no requirement matches everything": (label_selector(), {"a": "1"}, True),
    "no requirement matches no labels": (label_selector(), None, True),
    "matchLabels is equality": (label_selector(a="1"), {"a": "1", "b": "2"}, True),
    "matchLabels with another value": (label_selector(a="1"), {"a": "2"}, False),
    "matchLabels with the key missing": (label_selector(a="1"), {}, False),
    "an empty value is not a missing key": (label_selector(a=""), {}, False),
    "an empty value matches an empty value": (label_selector(a=""), {"a": ""}, True),
    "all of matchLabels must match": (label_selector(a="1", b="2"), {"a": "1"}, False),
    "In matches one of its values": (label_selector(("a", "In", ["1", "2"])), {"a": "2"}, True),
    "In needs the key": (label_selector(("a", "In", ["1", ""])), {}, False),
    "NotIn refuses its values": (label_selector(("a", "NotIn", ["1"])), {"a": "1"}, False),
    "NotIn accepts other values": (label_selector(("a", "NotIn", ["1"])), {"a": "2"}, True),
    "NotIn accepts a missing key": (label_selector(("a", "NotIn", ["1"])), {}, True),
    "NotIn accepts no labels at all": (label_selector(("a", "NotIn", ["1"])), None, True),
    "Exists needs the key": (label_selector(("a", "Exists")), {"b": ""}, False),
    "Exists accepts an empty value": (label_selector(("a", "Exists")), {"a": ""}, True),
    "Exists takes an empty list of values": (label_selector(("a", "Exists", [])), {"a": ""}, True),
    "DoesNotExist refuses the key": (label_selector(("a", "DoesNotExist")), {"a": ""}, False),
    "DoesNotExist accepts no labels": (label_selector(("a", "DoesNotExist")), None, True),
    "matchLabels and matchExpressions must both hold": (label_selector(("b", "Exists"), a="1"), {"a": "1"}, False),
    "a contradiction matches nothing": (label_selector(("a", "DoesNotExist"), a="1"), {"a": "1"}, False),
}


@pytest.mark.parametrize(("selector", "labels", "expected"), LABEL_CASES.values(), ids=LABEL_CASES)
def test_label_selectors(selector, labels, expected):
    assert compile_label_selector(selector).matches(labels) is expected


INVALID_LABEL_SELECTORS = {
    "an unknown operator": (label_selector(("a", "Equals", ["1"])), "'Equals' is not a valid operator"),
    "an operator in lower case": (label_selector(("a", "in", ["1"])), "'in' is not a valid operator"),
    "Gt, which only node selectors have": (label_selector(("a", "Gt", ["1"])), "'Gt' is not a valid operator"),
    "In without values": (label_selector(("a", "In")), "a: In needs at least one value"),
    "NotIn without values": (label_selector(("a", "NotIn", [])), "a: NotIn needs at least one value"),
    "Exists with a value": (label_selector(("a", "Exists", ["1"])), "a: Exists takes no values"),
    "DoesNotExist with a value": (label_selector(("a", "DoesNotExist", ["1"])), "a: DoesNotExist takes no values"),
    "an empty key": (label_selector(("", "Exists")), "'' is not a valid label key"),
    "a key in matchLabels with a space": (label_selector(**{"a b": "1"}), "'a b' is not a valid label key"),
    "a value with a space": (label_selector(a="1 2"), "a: '1 2' is not a valid label value"),
    "a value of 64 characters": (label_selector(("a", "In", ["x" * 64])), "is not a valid label value"),
    "one bad value among good ones": (label_selector(("a", "NotIn", ["1", "-"])), "a: '-' is not a valid label value"),
}


@pytest.mark.parametrize(("selector", "message"), INVALID_LABEL_SELECTORS.values(), ids=INVALID_LABEL_SELECTORS)
def test_invalid_label_selectors(selector, message):
    with pytest.raises(SelectorError, match=message):
        compile_label_selector(selector)


def test_the_message_truncates_the_selector():
    with pytest.raises(SelectorError) as caught:
        compile_label_selector(label_selector(("x" * 10_000, "Exists")))
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    ("key", "operator", "values", "text"),
    [
        ("app", "In", ["web"], "app=web"),
        ("app", "NotIn", ["web"], "app!=web"),
        ("tier", "In", ["b", "a"], "tier in (a, b)"),
        ("tier", "NotIn", ["b", "a"], "tier notin (a, b)"),
        ("old", "Exists", None, "old"),
        ("old", "DoesNotExist", None, "!old"),
        ("cores", "Gt", ["4"], "cores>4"),
        ("cores", "Lt", ["4"], "cores<4"),
        ("n", "In", list("abcdefg"), "n in (a, b, c, d, e and 2 more)"),
    ],
)
def test_a_requirement_reads_as_with_kubectl(key, operator, values, text):
    assert str(requirement(key, operator, values, NODE_OPERATORS)) == text


def test_a_selector_reads_as_its_requirements():
    assert str(EVERYTHING.with_labels({"app": "web", "tier": "a"})) == "app=web, tier=a"
    assert str(EVERYTHING.with_labels(dict.fromkeys("abcdefgh", "1"))) == "a=1, b=1, c=1, d=1, e=1 and 3 more"
    assert (str(EVERYTHING), str(NOTHING)) == ("<all>", "<none>")


def test_no_selector_matches_nothing_and_is_not_empty():
    matcher = compile_label_selector(None)
    assert matcher == NOTHING
    assert not matcher.matches({"a": "1"})
    assert not matcher.matches(None)
    assert (matcher.is_nothing, matcher.is_empty) == (True, False)


def test_an_empty_selector_is_empty_and_one_with_requirements_is_neither():
    empty, some = compile_label_selector(LabelSelector({}, [])), compile_label_selector(label_selector(a="1"))
    assert (empty.is_nothing, empty.is_empty) == (False, True)
    assert (some.is_nothing, some.is_empty) == (False, False)


def test_matchers_written_alike_are_equal_and_hash_alike():
    one = compile_label_selector(label_selector(("b", "In", ["1", "2"]), ("c", "Exists"), a="x"))
    other = compile_label_selector(
        label_selector(("c", "Exists", []), ("a", "In", ["x"]), ("b", "In", ["2", "1", "2"]), ("c", "Exists"))
    )
    assert one == other
    assert len({one, other}) == 1
    assert one != compile_label_selector(label_selector(("b", "In", ["1"]), a="x"))


def test_with_labels_adds_equality_and_leaves_nothing_as_it_is():
    matcher = compile_label_selector(label_selector(a="1")).with_labels({"hash": "abc"})
    assert matcher.matches({"a": "1", "hash": "abc"})
    assert not matcher.matches({"a": "1"})
    assert NOTHING.with_labels({"hash": "abc"}) == NOTHING


KEYS = {
    "a name": ("app", True),
    "a name with dots, dashes, underscores": ("a.b-c_D9", True),
    "a name with a prefix": ("example.com/app", True),
    "63 characters": ("x" * 63, True),
    "64 characters": ("x" * 64, False),
    "a prefix of 253 characters": ("a." * 126 + "a/x", True),
    "a prefix of 255 characters": ("a." * 127 + "a/x", False),
    "nothing": ("", False),
    "no name after the prefix": ("example.com/", False),
    "no prefix before the slash": ("/app", False),
    "two slashes": ("a/b/c", False),
    "an upper-case prefix": ("Example.com/app", False),
    "an underscore in the prefix": ("ex_ample/app", False),
    "a prefix with an empty part": ("a..b/app", False),
    "a dash at the start": ("-app", False),
    "a dot at the end": ("app.", False),
    "a letter beyond ASCII": ("äpp", False),
    "a newline at the end": ("app\n", False),
}


@pytest.mark.parametrize(("key", "valid"), KEYS.values(), ids=KEYS)
def test_label_keys(key, valid):
    assert is_qualified_name(key) is valid


@pytest.mark.parametrize(
    ("value", "valid"),
    [("", True), ("a", True), ("A_b-c.9", True), ("x" * 63, True), ("x" * 64, False), ("a/b", False), ("a\n", False)],
)
def test_label_values(value, valid):
    assert is_label_value(value) is valid


label_names = st.sampled_from(["a", "b", "c"])
label_values = st.sampled_from(["", "1", "2"])
some_labels = st.dictionaries(label_names, label_values)


@given(label_names, st.lists(label_values, min_size=1), some_labels)
def test_not_in_is_the_opposite_of_in(key, values, labels):
    positive = compile_label_selector(label_selector((key, "In", values))).matches(labels)
    assert compile_label_selector(label_selector((key, "NotIn", values))).matches(labels) is not positive, (
        "NotIn and In agree"
    )


@given(some_labels, some_labels)
def test_match_labels_picks_supersets(wanted, labels):
    expected = wanted.items() <= labels.items()
    assert compile_label_selector(LabelSelector(wanted)).matches(labels) is expected, (
        "matchLabels and a superset of labels disagree"
    )


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")), VALUES),
        min_size=1,
        max_size=40,
    ),
    st.lists(st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xyz")), min_size=1, max_size=9),
)
def test_a_predicate_selects_what_the_selector_matches(expressions, label_sets):
    unused = [(f"k{nth}", "DoesNotExist", ()) for nth in range(17)]
    given = [(key, operator, values if operator.endswith("In") else ()) for key, operator, values in expressions]
    selector = compile_label_selector(label_selector(*unused, *given))
    selects = selector.predicate()
    assert [selects(labels) for labels in label_sets] == [selector.matches(labels) for labels in label_sets], (
        "the predicate and the selector disagree"
    )


# --- node selectors -------------------------------------------------------------------------------------------------

NODE = {"zone": "z1", "gen": "7", "name": "x"}


def is_matched(matcher, labels):
    here = Snapshot.build(ClusterObjects(nodes=(Node(ObjectMeta(name="n1", labels=labels)),)))
    (matches,) = nodes_matching(here, matcher).tolist()
    return matches


TERM_CASES = {
    "one requirement that holds": ([term(("zone", "In", ["z1", "z2"]))], True),
    "requirements of a term must all hold": ([term(("zone", "In", ["z1"]), ("gpu", "Exists"))], False),
    "one term of two is enough": ([term(("gpu", "Exists")), term(("zone", "In", ["z1"]))], True),
    "NotIn holds for a missing label": ([term(("gpu", "NotIn", ["yes"]))], True),
    "DoesNotExist holds for a missing label": ([term(("gpu", "DoesNotExist"))], True),
    "7 > 6": ([term(("gen", "Gt", ["6"]))], True),
    "7 > 7 is false": ([term(("gen", "Gt", ["7"]))], False),
    "7 < 8": ([term(("gen", "Lt", ["8"]))], True),
    "7 < 7 is false": ([term(("gen", "Lt", ["7"]))], False),
    "numbers are not compared as texts: 7 < 10": ([term(("gen", "Lt", ["10"]))], True),
    "zeros in front do not matter: 7 < 010": ([term(("gen", "Lt", ["010"]))], True),
    "Gt does not hold for a missing label": ([term(("gpu", "Gt", ["0"]))], False),
    "Lt does not hold for a label that is not a number": ([term(("zone", "Lt", ["9"]))], False),
    "Gt with a text does not parse, so it matches nothing": ([term(("gen", "Gt", ["low"]))], False),
    "Gt with a sign is not a label value, so it matches nothing": ([term(("gen", "Gt", ["-1"]))], False),
    "Gt with two values does not parse": ([term(("gen", "Gt", ["1", "2"]))], False),
    "Gt beyond int64 does not parse": ([term(("gen", "Lt", ["9223372036854775808"]))], False),
    "Lt the largest int64": ([term(("gen", "Lt", ["9223372036854775807"]))], True),
    "a term that does not parse leaves the others": ([term(("zone", "Is", ["z1"])), term(("zone", "Exists"))], True),
    "a term with one bad requirement matches nothing": ([term(("zone", "Exists"), ("zone", "In"))], False),
    "no terms match nothing": ([], False),
    "null terms match nothing": (None, False),
    "an empty term matches nothing": ([term()], False),
    "an empty term leaves the others": ([term(), term(("zone", "Exists"))], True),
    "the name is a field": ([term(fields=[("metadata.name", "In", ["n1"])])], True),
    "another name": ([term(fields=[("metadata.name", "In", ["n2"])])], False),
    "not that name": ([term(fields=[("metadata.name", "NotIn", ["n2"])])], True),
    "labels and fields must both hold": ([term(("gpu", "Exists"), fields=[("metadata.name", "In", ["n1"])])], False),
    "two names in one field requirement do not parse": ([term(fields=[("metadata.name", "In", ["n1", "n2"])])], False),
    "a field requirement without values does not parse": ([term(fields=[("metadata.name", "NotIn")])], False),
    "a field has no other operators": ([term(fields=[("metadata.name", "Exists")])], False),
    "an unknown field is the empty text: In": ([term(fields=[("spec.x", "In", ["n1"])])], False),
    "an unknown field is the empty text: NotIn": ([term(fields=[("spec.x", "NotIn", ["n1"])])], True),
}


@pytest.mark.parametrize(("terms", "expected"), TERM_CASES.values(), ids=TERM_CASES)
def test_node_selectors(terms, expected):
    assert is_matched(compile_node_selector(NodeSelector(terms)), NODE) is expected


@pytest.mark.parametrize(
    ("label", "is_above_six"),
    [
        ("+7", True),
        ("-7", False),
        ("0" * 5000 + "7", True),
        ("9" * 30, False),
        (" 7", False),
        ("7_0", False),
        ("\u0667", False),
    ],
)
def test_a_label_is_read_as_go_reads_an_integer(label, is_above_six):
    matcher = compile_node_selector(NodeSelector([term(("gen", "Gt", ["6"]))]))
    assert is_matched(matcher, {"gen": label}) is is_above_six


def test_a_node_without_labels_is_one_with_no_label():
    matcher = compile_node_selector(NodeSelector([term(("gpu", "DoesNotExist"))]))
    assert is_matched(matcher, None)


def pod(node_selector=None, required=None):
    affinity = Affinity(node_affinity=NodeAffinity(required=required))
    return Pod(ObjectMeta(name="p"), PodSpec(node_selector=node_selector, affinity=affinity))


def test_a_pod_without_node_constraints_has_no_matcher():
    assert required_node_affinity(Pod(ObjectMeta(name="p"))) is None
    assert required_node_affinity(pod(node_selector={})) is None


REQUIRED_CASES = {
    "nodeSelector alone": (pod({"zone": "z1"}), True),
    "nodeSelector with another value": (pod({"zone": "z2"}), False),
    "affinity alone": (pod(required=NodeSelector([term(("zone", "Exists"))])), True),
    "affinity without terms matches nothing": (pod(required=NodeSelector()), False),
    "both must hold, both do": (pod({"gen": "7"}, NodeSelector([term(("zone", "Exists"))])), True),
    "both must hold, nodeSelector does not": (pod({"gen": "8"}, NodeSelector([term(("zone", "Exists"))])), False),
    "both must hold, affinity does not": (pod({"gen": "7"}, NodeSelector([term(("gpu", "Exists"))])), False),
    "nodeSelector is not validated": (pod({"not a key": "1"}), False),
}


@pytest.mark.parametrize(("demanding", "expected"), REQUIRED_CASES.values(), ids=REQUIRED_CASES)
def test_required_node_affinity(demanding, expected):
    matcher = required_node_affinity(demanding)
    assert matcher is not None
    assert is_matched(matcher, NODE) is expected


def test_node_matchers_written_alike_are_equal():
    terms = [term(("a", "In", ["1", "2"]), ("b", "Exists"))]
    turned = [term(("b", "Exists"), ("a", "In", ["2", "1"]))]
    matchers = {required_node_affinity(pod({"z": "1"}, NodeSelector(one))) for one in (terms, turned)}
    assert len(matchers) == 1


# --- preferred terms ------------------------------------------------------------------------------------------------


def preferences(*weighted):
    return [PreferredSchedulingTerm(weight, preference) for weight, preference in weighted]


SCORES = {
    "nothing preferred": ([], 0),
    "10 + 5 = 15": (preferences((10, term(("zone", "Exists"))), (5, term(("gen", "Exists")))), 15),
    "only what matches: 5": (preferences((10, term(("gpu", "Exists"))), (5, term(("gen", "Exists")))), 5),
    "the same term twice counts twice: 3 + 3 = 6": (preferences(*[(3, term(("zone", "Exists")))] * 2), 6),
    "an empty term counts nothing": (preferences((10, term())), 0),
    "a term of weight 0 is not even parsed": (preferences((0, term(("zone", "Is")))), 0),
    "names count as well": (preferences((7, term(fields=[("metadata.name", "In", ["n1"])]))), 7),
}


@pytest.mark.parametrize(("terms", "score"), SCORES.values(), ids=SCORES)
def test_preferred_terms(terms, score):
    compiled = compile_preferred_terms(terms)
    assert sum(weight for weight, one in compiled if is_matched(NodeMatcher(terms=(one,)), NODE)) == score


def test_a_preferred_term_that_does_not_parse_is_an_error():
    with pytest.raises(SelectorError, match="'Is' is not a valid operator"):
        compile_preferred_terms(preferences((1, term(("zone", "Exists"))), (1, term(("zone", "Is")))))


# --- taints and tolerations -----------------------------------------------------------------------------------------

TAINT = Taint(key="dedicated", value="db", effect="NoSchedule")

TOLERATIONS = {
    "the same key, value and effect": (Toleration("dedicated", "Equal", "db", "NoSchedule"), True),
    "no operator means Equal": (Toleration("dedicated", "", "db", "NoSchedule"), True),
    "another value": (Toleration("dedicated", "Equal", "web", "NoSchedule"), False),
    "another key": (Toleration("gpu", "Equal", "db", "NoSchedule"), False),
    "another effect": (Toleration("dedicated", "Equal", "db", "NoExecute"), False),
    "no effect means any": (Toleration("dedicated", "Equal", "db"), True),
    "Exists means any value": (Toleration("dedicated", "Exists"), True),
    "Exists does not look at its own value": (Toleration("dedicated", "Exists", "web"), True),
    "Exists without a key tolerates all": (Toleration(operator="Exists"), True),
    "Exists without a key, of another effect": (Toleration(operator="Exists", effect="NoExecute"), False),
    "Equal without a key compares the value": (Toleration(operator="Equal", value="db"), True),
    "Equal without a key and value": (Toleration(operator="Equal"), False),
    "an unknown operator": (Toleration("dedicated", "exists", "db"), False),
    "Gt is off by default": (Toleration("dedicated", "Gt", "db"), False),
    "Lt is off by default": (Toleration("dedicated", "Lt", "db"), False),
}


@pytest.mark.parametrize(("toleration", "expected"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_tolerates(toleration, expected):
    assert tolerates(toleration, TAINT, compares=False) is expected


@pytest.mark.parametrize("operator", ["Lt", "Gt"])
def test_numbers_are_not_compared_either(operator):
    taint = Taint(key="sla", value="5", effect="NoSchedule")
    assert not tolerates(Toleration("sla", operator, "5"), taint, compares=False)


@pytest.mark.parametrize(
    ("operator", "value", "tolerated"),
    [
        ("Gt", "4", True),
        ("Gt", "5", False),
        ("Lt", "6", True),
        ("Lt", "5", False),
        ("Gt", "-9223372036854775808", True),
        ("Lt", "9223372036854775808", False),  # beyond int64
        ("Lt", "06", False),
        ("Lt", "+6", False),
        ("Lt", "", False),
        ("Ge", "4", False),
    ],
)
def test_numbers_are_compared_with_the_feature_gate(operator, value, tolerated):
    taint = Taint(key="sla", value="5", effect="NoSchedule")
    assert tolerates(Toleration("sla", operator, value), taint, compares=True) is tolerated
    assert not tolerates(
        Toleration("sla", operator, value), Taint(key="sla", value="five", effect="NoSchedule"), compares=True
    )


HARD = frozenset({"NoSchedule", "NoExecute"})


def test_the_first_taint_that_nothing_tolerates_is_found():
    soft = Taint(key="soft", effect="PreferNoSchedule")
    second, third = Taint(key="b", effect="NoExecute"), Taint(key="c", effect="NoSchedule")
    willing = [Toleration("dedicated", "Exists")]
    assert find_untolerated([soft, TAINT, second, third], willing, HARD, compares=False) == second


@pytest.mark.parametrize(
    ("taints", "tolerations"), [(None, None), ([], []), ([TAINT], [Toleration(operator="Exists")])]
)
def test_nothing_is_found_where_there_is_nothing(taints, tolerations):
    assert find_untolerated(taints, tolerations, HARD, compares=False) is None


def test_a_taint_is_found_without_any_toleration():
    assert find_untolerated([TAINT], None, HARD, compares=False) == TAINT
