"""extender/v1 payloads: what is read of them, what is refused, what is answered."""

import json
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core.engine import Candidate
from extender.errors import RequestError, RequestTooLarge
from extender.k8s.candidates import SentCandidate
from extender.k8s.limits.limits import MAX_POD_BYTES
from extender.k8s.objects import ObjectMeta, Pod
from extender.wire.decode import LastNames, decode_filter, decode_preempt
from extender.wire.encode import encode_filter, encode_preempt, encode_prioritize, encode_sent_candidates

POD = '{"metadata":{"name":"p","namespace":"shop"}}'


def args(nodes="null", names='["a","b"]', pod=POD):
    return f'{{"Pod":{pod},"Nodes":{nodes},"NodeNames":{names}}}'.encode()


def preemption(meta="null", whole="null", pod=POD):
    return f'{{"Pod":{pod},"NodeNameToVictims":{whole},"NodeNameToMetaVictims":{meta}}}'.encode()


def refusal(decode, body):
    with pytest.raises(RequestError) as raised:
        decode(body)
    message = str(raised.value)
    assert 10 < len(message) <= 300
    return message


# --- the two forms ------------------------------------------------------------------------------------------------


def test_names_are_read_in_order_and_the_form_is_known():
    request = decode_filter(args(names='["b","a","b"]'))
    assert request.nodes == ["b", "a", "b"]
    assert not request.has_whole_nodes
    assert request.pod.key == "shop/p"


def test_whole_nodes_are_read_by_name_and_kept_as_they_came():
    request = decode_filter(args('{"metadata":{},"items":[{"metadata":{"name":"n"},"x":1.50}]}', "null"))
    assert request.nodes == ["n"]
    assert request.has_whole_nodes
    assert [bytes(raw) for raw in request.raw_nodes()] == [b'{"metadata":{"name":"n"},"x":1.50}']


def test_whole_nodes_are_not_kept_beside_the_body_before_an_answer_is_to_hold_them():
    node = '{"metadata":{"name":"n","annotations":{"long":"' + "x" * 100_000 + '"}},"status":{}}'
    body = args(f'{{"items":[{",".join([node] * 20)}]}}', "null")
    tracemalloc.start()
    try:
        request = decode_filter(body)
        encoded = encode_filter(request, (), {"n": "full"}, {})
        assert tracemalloc.get_traced_memory()[1] < len(body) / 10
    finally:
        tracemalloc.stop()
    assert json.loads(encoded)["Nodes"] == {"metadata": {}, "items": []}
    assert len(encode_filter(request, (0,), {}, {})) > len(node)


def test_an_answer_that_accepts_all_names_repeats_the_bytes_of_the_request():
    names = '["b","\\u0061","b"]'
    request = decode_filter(args(names=names))
    assert request.nodes == ["b", "a", "b"]
    every, some = (encode_filter(request, places, {}, {}) for places in ((0, 1, 2), (0, 1)))
    assert f'"NodeNames":{names},'.encode() in every
    assert json.loads(every)["NodeNames"] == ["b", "a", "b"]
    assert json.loads(some)["NodeNames"] == ["b", "a"]
    spaced = decode_filter(args(names='[ "b", "a"]'))
    assert b'"NodeNames":["b","a"],' in encode_filter(spaced, (0, 1), {}, {})


def test_the_last_request_with_names_is_not_decoded_again():
    last, first, other = LastNames(), args(), args(names='["a","c"]')
    request = last.decode(first, 1000)
    assert last.decode(bytes(bytearray(first)), 1000) is request
    assert last.decode(other, 1000).nodes == ["a", "c"]
    assert last.decode(first, 1000) is not request
    assert last.decode(first, 1000) == request


def test_whole_nodes_and_refused_requests_are_not_kept_for_the_next_call():
    last, whole = LastNames(), args('{"metadata":{},"items":[{"metadata":{"name":"n"}}]}', "null")
    assert last.decode(whole, 1000) is not last.decode(whole, 1000)
    for refused in (b"", args(names="[1]"), args(names='["' + "x" * 1000 + '"]')):
        for _ in range(2):
            with pytest.raises(RequestError):
                last.decode(refused, 1000)


def test_an_empty_list_of_names_is_a_request():
    assert decode_filter(args(names="[]")).nodes == []


def test_no_items_is_a_list_without_nodes():
    assert decode_filter(args('{"metadata":{},"items":null}', "null")).nodes == []


def test_victims_by_uid():
    request = decode_preempt(preemption('{"n":{"Pods":[{"UID":"u"},{"UID":"v"}],"NumPDBViolations":1}}'))
    assert request.sent == {"n": SentCandidate(("u", "v"), 1)}


def test_victims_as_whole_pods_are_read_by_uid():
    whole = '{"n":{"Pods":[{"metadata":{"name":"x","uid":"u"},"spec":{"priority":"odd"}}],"NumPDBViolations":2}}'
    request = decode_preempt(preemption(whole=whole))
    assert request.sent == {"n": SentCandidate(("u",), 2)}


@pytest.mark.parametrize("pods", ["[]", "null"])
def test_a_node_may_be_sent_without_victims(pods):
    request = decode_preempt(preemption(f'{{"n":{{"Pods":{pods},"NumPDBViolations":0}}}}'))
    assert request.sent == {"n": SentCandidate((), 0)}


UIDS = [f"{number:08d}-0000-4000-8000-00000000000{number}" for number in range(10)]
ODD_UIDS = ["u", "", "\u00fc" * 18, '"' * 18, "\\" * 18, "]" * 36, 'a"},{"UID":"' + "b" * 24, "x" * 35, "x" * 37]
SENT = st.dictionaries(st.sampled_from(["n1", "n2", 'n"3', "n]4"]), st.lists(st.sampled_from(UIDS), max_size=3))
TOKENS = st.sampled_from(["[", "]", "{", "}", '"', ",", " ", "5", "null", "\\", '{"UID":"', '"},', "[]", "\n", "x"])


def victims_by_uid(victims):
    return {
        name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": len(uids)} for name, uids in victims.items()
    }


def outcome(decode, body):
    try:
        return decode(body)
    except (RequestError, RequestTooLarge) as error:
        return str(error)


def test_in_the_layout_of_kube_scheduler_the_uids_of_all_victims_are_read_at_once():
    victims = {"n1": UIDS[:3], "n2": UIDS[3:4]}
    request = decode_preempt(preemption(json.dumps(victims_by_uid(victims), separators=(",", ":"))))
    assert request.sent.uids.dtype == "S36"
    assert request.sent == {"n1": SentCandidate(tuple(UIDS[:3]), 3), "n2": SentCandidate((UIDS[3],), 1)}


@given(SENT, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 50), TOKENS), max_size=2), st.data())
def test_victims_mean_the_same_in_any_layout(victims, changes, data):
    if data.draw(st.booleans()) and victims:
        victims[data.draw(st.sampled_from(sorted(victims)))] = [data.draw(st.sampled_from(ODD_UIDS)), UIDS[0]]
    meta = json.dumps(victims_by_uid(victims), separators=(",", ":"), ensure_ascii=data.draw(st.booleans()))
    for at, removed, added in changes:
        meta = meta[:at] + added + meta[at + removed :]
    found, expected = (
        outcome(decode_preempt, body) for body in (preemption(meta), preemption(meta).replace(b"{", b"{ ", 1))
    )
    if isinstance(expected, str):
        assert isinstance(found, str)
    else:
        assert found == expected, "the layout of the body changes the victims"


# --- spelling -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("respell", [str.lower, str.upper, str.swapcase, lambda key: key[0].lower() + key[1:]])
def test_keys_of_the_extender_types_may_have_any_case(respell):
    exact = {
        "Pod": json.loads(POD),
        "NodeNameToMetaVictims": {"N1": {"Pods": [{"UID": "U"}], "NumPDBViolations": 3}},
    }
    meta = {respell("Pods"): [{respell("UID"): "U"}], respell("NumPDBViolations"): 3}
    body = {respell("Pod"): exact["Pod"], respell("NodeNameToMetaVictims"): {"N1": meta}}
    assert decode_preempt(json.dumps(body).encode()) == decode_preempt(json.dumps(exact).encode())
    body = {respell("Pod"): exact["Pod"], respell("Nodes"): None, respell("NodeNames"): ["a"]}
    assert decode_filter(json.dumps(body).encode()).nodes == ["a"]


def test_spellings_may_be_mixed():
    assert decode_filter(f'{{"Pod":{POD},"nodenames":["a"]}}'.encode()).nodes == ["a"]
    meta = '{"n":{"Pods":[{"uid":"u"}],"numPDBViolations":4}}'
    assert decode_preempt(preemption(meta)).sent == {"n": SentCandidate(("u",), 4)}
    whole = '{"n":{"pods":[{"metadata":{"uid":"u"}}],"NumPDBViolations":4}}'
    assert decode_preempt(preemption(whole=whole)).sent == {"n": SentCandidate(("u",), 4)}


def test_the_exact_spelling_wins():
    body = f'{{"NodeNames":["exact"],"nodenames":["other"],"pod":{POD}}}'.encode()
    assert decode_filter(body).nodes == ["exact"]


def test_a_missing_count_of_violations_is_none():
    assert decode_preempt(preemption('{"n":{"Pods":[{"UID":"u"}]}}')).sent == {"n": SentCandidate(("u",), 0)}


def test_names_and_nodes_keep_their_case():
    meta = '{"pods":{"pods":[{"uid":"UID"}]},"Pods":{"pods":[{"uid":"uid"}]}}'
    assert decode_preempt(preemption(meta)).sent == {
        "pods": SentCandidate(("UID",), 0),
        "Pods": SentCandidate(("uid",), 0),
    }


def test_of_duplicate_keys_the_last_one_counts():
    body = f'{{"Pod":null,"Pod":{POD},"NodeNames":["a"],"NodeNames":["b"]}}'.encode()
    assert decode_filter(body).nodes == ["b"]


def test_unknown_keys_are_ignored():
    body = f'{{"Pod":{POD},"NodeNames":["a"],"Unknown":{{"deep":[1e999]}}}}'.encode()
    assert decode_filter(body).nodes == ["a"]


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the body is empty"),
        (b" \n", "the body is empty"),
        (args()[:-3], "truncated"),
        (args() + b"}", "trailing characters"),
        (b"\xef\xbb\xbf" + args(), "byte order mark"),
        (args(names='["\xff"]').decode().encode("latin-1"), "not valid UTF-8"),
        (args()[:-1] + b',"x":"\xff"}', "not valid UTF-8"),
        (args(names='["\\ud800"]'), "lone surrogate"),
        (args(names='["\\udc00x"]'), "lone surrogate"),
        (b"[]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b"<html>", "invalid character (byte 0)"),
        (args(names='["a",NaN]'), "invalid character"),
        (args(pod="null"), "Pod: Expected `object`, got `null`"),
        (args(pod="{}"), "Pod: Object missing required field `metadata`"),
        (b'{"NodeNames":[]}', "missing required field `Pod`"),
        (args(names="null"), "neither Nodes nor NodeNames"),
        (f'{{"Pod":{POD}}}'.encode(), "neither Nodes nor NodeNames"),
        (args('{"items":[]}', "[]"), "both Nodes and NodeNames"),
        (args(names='["a",null]'), "NodeNames[1]: Expected `str`, got `null`"),
        (args('{"items":[{"metadata":{"name":"n"}},{}]}', "null"), "Nodes.items[1]: Object missing required field"),
        (args('{"items":[{"metadata":{}}]}', "null"), "Nodes.items[0].metadata.name is missing"),
        (args('{"items":[7]}', "null"), "Nodes.items[0]: Expected `object`, got `int`"),
        (args('{"metadata":{}}', "null"), "Nodes: Object missing required field `items`"),
        (args(pod='{"metadata":{},"spec":{"priority":5.0}}'), "Pod.spec.priority: Expected `int | null`, got `float`"),
        (args(pod=f'{{"metadata":{{}},"spec":{{"priority":{2**63}}}}}'), "Pod.spec.priority: Expected `int` <="),
        (args(pod='{"metadata":{},"spec":{"overhead":{"cpu":1e999}}}'), "Pod.spec.overhead[...]: Number out of range"),
    ],
)
def test_errors_of_filter_arguments(body, says):
    assert says in refusal(decode_filter, body)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (preemption(), "neither NodeNameToVictims nor NodeNameToMetaVictims"),
        (preemption("{}", "{}"), "both NodeNameToVictims and NodeNameToMetaVictims"),
        (preemption('{"n":null}'), "NodeNameToMetaVictims[...]: Expected `object`, got `null`"),
        (preemption('{"n":{}}'), "NodeNameToMetaVictims[...]: Object missing required field `Pods`"),
        (preemption('{"n":{"Pods":[null]}}'), "NodeNameToMetaVictims[...].Pods[0]: Expected `object`, got `null`"),
        (preemption('{"n":{"Pods":[{}]}}'), "Pods[0]: Object missing required field `UID`"),
        (preemption('{"n":{"Pods":[{"UID":7}]}}'), "Pods[0].UID: Expected `str`, got `int`"),
        (preemption('{"n":{"Pods":[],"NumPDBViolations":0.0}}'), "NumPDBViolations: Expected `int`, got `float`"),
        (preemption(f'{{"n":{{"Pods":[],"NumPDBViolations":{2**63}}}}}'), "NumPDBViolations: Expected `int` <="),
        (preemption(whole='{"n":{"Pods":[{"metadata":{}}]}}'), "Pods[0].metadata: Object missing required field `uid`"),
        (preemption(whole='{"n":{"Pods":[null]}}'), "NodeNameToVictims[...].Pods[0]: Expected `object`"),
        (preemption("[]"), "NodeNameToMetaVictims: Expected `object | null`, got `array`"),
    ],
)
def test_errors_of_preemption_arguments(body, says):
    assert says in refusal(decode_preempt, body)


GOOD_CANDIDATE = '{"Pods":[{"UID":"u"}],"NumPDBViolations":0}'


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ('{"Pods":[{"UID":"u"},{"UID":7}],"NumPDBViolations":0}', ".Pods[1].UID: Expected `str`, got `int`"),
        ('{"Pods":[{"UID":"u"}],"NumPDBViolations":"0"}', ".NumPDBViolations: Expected `int`, got `str`"),
        ('{"pods":[{"uid":[]}]}', ".Pods[0].UID: Expected `str`, got `array`"),
        ("7", ": Expected `object`, got `int`"),
    ],
)
def test_E11_one_bad_candidate_among_good_ones_is_refused_at_every_call(bad, says, place):
    """Also where all others were read before, and although its victims would not be looked at."""
    sent = [GOOD_CANDIDATE, GOOD_CANDIDATE]
    sent.insert(place, bad)
    body = preemption("{" + ",".join(f'"n{number}":{candidate}' for number, candidate in enumerate(sent)) + "}")
    for _ in range(2):
        assert refusal(decode_preempt, body) == f"NodeNameToMetaVictims[...]{says}"


def test_candidates_that_differ_in_one_byte_are_distinct():
    sent = [
        GOOD_CANDIDATE,
        GOOD_CANDIDATE.replace('"u"', '"v"'),
        GOOD_CANDIDATE.replace(":0", ":1"),
        '{"pods":[{"uid":"u"}]}',
    ]
    body = preemption("{" + ",".join(f'"n{number}":{candidate}' for number, candidate in enumerate(sent)) + "}")
    expected = {
        "n0": SentCandidate(("u",), 0),
        "n1": SentCandidate(("v",), 0),
        "n2": SentCandidate(("u",), 1),
        "n3": SentCandidate(("u",), 0),
    }
    for _ in range(2):
        assert decode_preempt(body).sent == expected


@pytest.mark.parametrize(
    "place",
    [
        '{"Pod":%s,"NodeNames":[],"unknown":DEEP}',
        '{"pod":%s,"nodenames":[],"unknown":DEEP}',
        '{"Pod":%s,"Nodes":{"items":[DEEP]}}',
        '{"Pod":%s,"Nodes":{"items":[{"metadata":{"name":"n"},"spec":DEEP}]}}',
        '{"Pod":{"metadata":{},"spec":DEEP},"NodeNames":[]}',
        "DEEP",
    ],
)
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_without_end_is_refused(place, opening, closing):
    refusal(decode_filter, _nested(place, opening, closing, 1_000_000))


@pytest.mark.parametrize("place", ['{"Pod":%s,"NodeNames":[],"unknown":DEEP}', "DEEP"])
def test_nesting_beyond_the_interpreters_stack_is_refused(place):
    refusal(decode_filter, _nested(place, "[", "]", _too_deep()))


def _too_deep() -> int:
    """What this interpreter has no stack for, and not much more: from 1,000 to 1,000,000, by its version."""
    depth = 1_000
    while True:
        try:
            msgspec.json.decode(b"[" * depth + b"]" * depth, type=msgspec.Raw)
        except RecursionError:
            return depth
        depth += depth // 2


def _nested(place, opening, closing, depth):
    inside = "" if opening == "[" else "1"
    return place.replace("%s", POD).replace("DEEP", opening * depth + inside + closing * depth).encode()


def quantity(value, place="requests"):
    containers = f'[{{"resources":{{}}}},{{"resources":{{"{place}":{{"cpu":{value}}}}}}}]'
    return args(pod=f'{{"metadata":{{}},"spec":{{"containers":{containers}}}}}')


@pytest.mark.parametrize("value", ['"1e3"', '"1Ei"', '"-1"', '"0.5m"', "1", "1.5", '"1k"'])
def test_quantities_are_what_kubernetes_takes_for_them(value):
    assert decode_filter(quantity(value)).nodes == ["a", "b"]


@pytest.mark.parametrize("value", ['""', '"\uff11"', '"1e"', '"1 Gi"', '"0x1"', '"1KiB"', '"NaN"'])
@pytest.mark.parametrize("place", ["requests", "limits"])
def test_what_is_no_quantity_is_named_by_its_field(value, place):
    message = refusal(decode_filter, quantity(value, place))
    assert message.startswith(f"Pod.spec.containers[1].resources.{place}[cpu]: not a quantity")


@pytest.mark.parametrize(
    ("pod", "path"),
    [
        ('"spec":{"overhead":{"cpu":"x"}}', "spec.overhead[cpu]"),
        ('"spec":{"resources":{"limits":{"cpu":"x"}}}', "spec.resources.limits[cpu]"),
        ('"spec":{"initContainers":[{"resources":{"requests":{"a/b":"x"}}}]}', "spec.initContainers[0].resources"),
        ('"status":{"allocatedResources":{"cpu":"x"}}', "status.allocatedResources[cpu]"),
        ('"status":{"containerStatuses":[{"allocatedResources":{"cpu":"x"}}]}', "status.containerStatuses[0]"),
        ('"spec":{"overhead":{"c\\u0007pu <b>":"x"}}', "spec.overhead[…]"),
    ],
)
def test_quantities_are_checked_wherever_they_stand(pod, path):
    assert refusal(decode_filter, args(pod=f'{{"metadata":{{}},{pod}}}')).startswith(f"Pod.{path}")


def test_no_refusal_repeats_the_input():
    secret = "hunter2"
    for body in (
        args(pod=f'{{"metadata":{{"labels":{{"{secret}":5}}}}}}'),
        args(pod=f'{{"metadata":{{}},"spec":{{"overhead":{{"cpu":"{secret}"}}}}}}'),
        args(pod=f'"{secret}"'),
        f'{{"{secret}'.encode(),
    ):
        assert secret not in refusal(decode_filter, body)


# --- answers ------------------------------------------------------------------------------------------------------


def test_a_filter_answer_in_names_spells_every_key():
    request = decode_filter(args(names='["a","b","c"]'))
    answer = encode_filter(request, (2,), {"a": "full"}, {"b": "tainted"})
    assert answer == (
        b'{"Nodes":null,"NodeNames":["c"],"FailedNodes":{"a":"full"},'
        b'"FailedAndUnresolvableNodes":{"b":"tainted"},"Error":""}'
    )


def test_a_filter_answer_without_nodes_has_an_empty_list():
    answer = encode_filter(decode_filter(args(names="[]")), (), {}, {})
    assert json.loads(answer)["NodeNames"] == []


def test_accepted_nodes_go_back_byte_for_byte():
    first = '{"metadata": {"name":"n1"},"status":{"x":1.50,"y":"\\u003c"},"z":1e400}'
    second = '{"metadata":{"name":"n2", "managedFields":[ ]}}'
    body = args(f'{{"metadata":{{"resourceVersion": "7"}},"items":[{first} , {second}]}}', "null")
    answer = encode_filter(decode_filter(body), (0, 1), {}, {})
    assert (
        answer
        == (
            f'{{"Nodes":{{"metadata":{{"resourceVersion": "7"}},"items":[{first},{second}]}},"NodeNames":null,'
            '"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'
        ).encode()
    )


NODE = '{"metadata":{"name":"n"},"x":1.50,"y":[",\\"Nodes\\":{\\"metadata\\":{},\\"items\\":"]}'
OTHER = '{"metadata":{"name":"m"}}'
LOOKALIKE = '{"metadata":{"name":"p"},"x":{"y":0,"Nodes":{"metadata":{},"items":[]}}}'


@pytest.mark.parametrize(
    ("body", "is_known"),
    [
        (args(f'{{"metadata":{{}},"items":[{NODE},{OTHER}]}}', "null"), True),
        (args('{"metadata":{},"items":[]}', "null"), True),
        (args('{"metadata":{},"items":null}', "null"), False),
        (args(f'{{"items":[{NODE},{OTHER}],"metadata":{{}}}}', "null"), False),
        (args(f'{{"metadata":{{"a":1}},"items":[{NODE},{OTHER}]}}', "null"), False),
        (args(f'{{"metadata":{{}},"items":[{NODE}],"items":[{OTHER}]}}', "null"), False),
        (args(f'{{"metadata":{{}},"items":[{NODE}],"x":[{OTHER}]}}', "null"), False),
        (args(f'{{"metadata":{{}},"items":[{NODE}]}},"Nodes":{{"items":[{OTHER}]}}', "null"), False),
        (args(f'{{"metadata":{{}},"items":[{NODE}]}},"X":{{"items":[{OTHER}]}}', "null"), False),
        (args(f'{{"metadata":{{}},"items":[{NODE}]}}', "null", POD + ',"Pod":{"metadata":{"name":"q"}}'), False),
        (args(f'{{"metadata":{{}},"items":[{NODE}]}}', "null", LOOKALIKE), False),
    ],
    ids=[
        "as kube-scheduler sends them",
        "none",
        "null",
        "items first",
        "metadata",
        "items twice",
        "another key of the list",
        "two lists",
        "another key",
        "two pods",
        "what is in the pod looks like it",
    ],
)
def test_where_the_nodes_stand_in_a_body_makes_no_difference(body, is_known):
    request, same = decode_filter(body), decode_filter(body + b" ")
    assert (request.items is not None, same.items) == (is_known, None)
    assert (request.pod, request.nodes) == (same.pod, same.nodes)
    assert list(map(bytes, request.raw_nodes())) == list(map(bytes, same.raw_nodes()))
    everyone = tuple(range(len(request.nodes)))
    for accepted in (everyone, everyone[1:], everyone[:1], ()):
        assert encode_filter(request, accepted, {}, {}) == encode_filter(same, accepted, {}, {})


@pytest.mark.parametrize("items", [f"[{NODE}", f"[{NODE}]]", "[1]", f'[{{"metadata":{{}}}},{NODE}]', f"[{NODE}]\x85"])
def test_E11_wrong_nodes_are_refused_alike_wherever_they_stand(items):
    body = args(f'{{"metadata":{{}},"items":{items}}}', "null").decode().encode("latin-1")
    assert refusal(decode_filter, body) == refusal(decode_filter, body + b" ")


def test_accepted_nodes_of_a_request_in_another_spelling_go_back_byte_for_byte():
    first, second = '{"metadata":{"name":"n1"},"x":1.50}', '{"metadata": {"name":"n2"}}'
    body = f'{{"pod":{POD},"nodes":{{"items":[{first},{second}]}}}}'.encode()
    answer = encode_filter(decode_filter(body), (1,), {"n1": "full"}, {})
    assert answer.startswith(f'{{"Nodes":{{"metadata":{{}},"items":[{second}]}},'.encode())


def test_list_metadata_that_was_not_sent_is_empty():
    body = args('{"items":[]}', "null")
    answer = encode_filter(decode_filter(body), (), {}, {})
    assert json.loads(answer)["Nodes"] == {"metadata": {}, "items": []}


def test_a_node_sent_twice_is_accepted_twice_and_scored_once():
    request = decode_filter(args(names='["a","b","a"]'))
    answer = encode_filter(request, (0, 2), {"b": "full"}, {})
    assert json.loads(answer)["NodeNames"] == ["a", "a"]
    scores = json.loads(encode_prioritize(request.nodes, (7, 1, 7)))
    assert scores == [{"Host": "a", "Score": 7}, {"Host": "b", "Score": 1}]


def test_a_preempt_answer_always_names_victims_by_uid():
    victim = Pod(ObjectMeta(name="v", uid="u"))
    answer = encode_preempt([Candidate("n", (victim,), 2)])
    assert answer == b'{"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}],"NumPDBViolations":2}}}'
    assert encode_preempt([]) == b'{"NodeNameToMetaVictims":{}}'


def test_sent_candidates_are_encoded_unchanged():
    meta = '{"b":{"Pods":[{"UID":"v"},{"UID":"u"}],"NumPDBViolations":3},"a":{"Pods":[],"NumPDBViolations":0}}'
    request = decode_preempt(preemption(meta))
    assert encode_sent_candidates(request.sent) == f'{{"NodeNameToMetaVictims":{meta}}}'.encode()


def test_whole_pods_are_answered_by_uid_and_null_victims_as_an_empty_list():
    whole = '{"n":{"Pods":[{"metadata":{"uid":"u"}}],"NumPDBViolations":1},"m":{"Pods":null,"NumPDBViolations":0}}'
    answer = encode_sent_candidates(decode_preempt(preemption(whole=whole)).sent)
    assert json.loads(answer)["NodeNameToMetaVictims"] == {
        "n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1},
        "m": {"Pods": [], "NumPDBViolations": 0},
    }


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_names_of_any_text_survive(names):
    request = decode_filter(args(names=json.dumps(names)))
    accepted = range(len(names))
    assert json.loads(encode_filter(request, accepted, {}, {}))["NodeNames"] == names, (
        "a name is changed by the encoder"
    )


# --- what a body may cost -------------------------------------------------------------------------------------------


def test_H5_names_are_counted_before_they_are_decoded():
    body = f'{{"Pod":{POD},"NodeNames":{json.dumps(["a"] * 100)}}}'.encode()
    assert len(decode_filter(body, max_names_bytes=500).nodes) == 100
    with pytest.raises(RequestTooLarge, match="NodeNames: 500 bytes, at most 400 are accepted"):
        decode_filter(body, max_names_bytes=400)
    duplicate = f'{{"Pod":{POD},"NodeNames":{json.dumps([1] * 100)},"NodeNames":["a"]}}'.encode()
    assert decode_filter(duplicate, max_names_bytes=400).nodes == ["a"]


def test_H5_a_body_of_very_many_objects_is_refused(monkeypatch):
    monkeypatch.setattr("extender.wire.decode.MAX_OBJECTS", 10)
    meta = preemption('{"n":{"Pods":[' + ",".join(['{"UID":"u"}'] * 20) + '],"NumPDBViolations":0}}')
    for decode, body in ((decode_preempt, meta), (decode_filter, args('{"items":[' + "{}," * 99 + "{}]}"))):
        with pytest.raises(RequestTooLarge, match="more than 10 objects"):
            decode(body)


def test_H5_a_preemption_on_more_nodes_than_a_cluster_has_is_refused(monkeypatch):
    monkeypatch.setattr("extender.wire.decode.MAX_CANDIDATES", 2)
    victims = {name: {"Pods": None, "NumPDBViolations": 0} for name in "abc"}
    with pytest.raises(RequestTooLarge, match="more than 2 nodes"):
        decode_preempt(preemption(json.dumps(victims)))


def test_H5_keys_in_another_case_are_read_in_small_bodies_only(monkeypatch):
    body = f'{{"pod":{POD},"nodenames":["a"]}}'.encode()
    assert decode_filter(body).nodes == ["a"]
    monkeypatch.setattr("extender.wire.decode.MAX_RESPELLED_BYTES", len(body) - 1)
    with pytest.raises(RequestError, match="missing required field `Pod`"):
        decode_filter(body)


# --- the incoming pod's size and names ----------------------------------------------------------------------------


@pytest.mark.parametrize("decode", [decode_filter, decode_preempt])
def test_H2_a_pod_that_no_api_server_accepts_is_refused_with_its_size(decode):
    pod = f'{{"metadata":{{"name":"p"}},"x":"{"y" * MAX_POD_BYTES}"}}'
    bodies = {
        decode_filter: [args(pod=pod), args('{"metadata":{},"items":[]}', "null", pod)],
        decode_preempt: [preemption("{}", pod=pod)],
    }
    for body in bodies[decode]:
        with pytest.raises(RequestTooLarge) as raised:
            decode(body)
        assert str(raised.value) == f"Pod: {len(pod)} bytes, at most 3145728 are accepted"


def test_H2_a_pod_of_just_the_limit_is_read():
    frame = '{"metadata":{"name":"p"},"x":""}'
    pod = frame.replace('""}', f'"{"y" * (MAX_POD_BYTES - len(frame))}"}}')
    assert len(pod) == MAX_POD_BYTES
    assert decode_filter(args(pod=pod)).pod.metadata.name == "p"


LONG = "n" * 400


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        ({"metadata": {"name": LONG}}, "Pod.metadata.name: 400 characters, at most 253 are accepted"),
        ({"metadata": {"namespace": LONG}}, "Pod.metadata.namespace: 400 characters, at most 253 are accepted"),
        ({"metadata": {"uid": LONG}}, "Pod.metadata.uid: 400 characters, at most 253 are accepted"),
        (
            {"metadata": {}, "spec": {"overhead": {LONG: "1"}}},
            "Pod.spec.overhead: the name of a resource has 400 characters, at most 317 are accepted",
        ),
        (
            {"metadata": {}, "spec": {"containers": [{"resources": {"requests": {LONG: "1"}}}]}},
            (
                "Pod.spec.containers[0].resources.requests: the name of a resource has 400 characters, "
                "at most 317 are accepted"
            ),
        ),
    ],
)
def test_H4_names_that_are_longer_than_kubernetes_allows_are_refused(pod, says):
    assert refusal(decode_filter, args(pod=json.dumps(pod))) == says


@pytest.mark.parametrize(
    ("pod", "says"),
    [
        ("null", "Pod: Expected `object`, got `null`"),
        ('{"metadata":{},"spec":{"nodeSelector":{"a":1}}}', "Pod.spec.nodeSelector[...]: Expected `str`, got `int`"),
    ],
)
def test_errors_of_the_pod_are_named_by_their_place_in_the_body(pod, says):
    assert refusal(decode_filter, args(pod=pod)) == says
    assert refusal(decode_preempt, preemption("{}", pod=pod)) == says
