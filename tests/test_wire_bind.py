"""extender/v1 ExtenderBindingArgs and ExtenderBindingResult: what is read, what is refused, what is answered."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.errors import RequestError
from extender.wire import ExtenderBindingArgs
from extender.wire.decode import decode_bind
from extender.wire.encode import MAX_ERROR_BYTES, encode_bind

RECORDINGS = Path(__file__).parents[0] / "contract" / "recordings"
RECORDED = sorted(RECORDINGS.glob("*/*-bind.request.json"))

BINDING = {"PodName": "web-0", "PodNamespace": "shop", "PodUID": "u-1", "Node": "worker-1"}
REQUEST = ExtenderBindingArgs(pod_namespace="shop", pod_name="web-0", pod_uid="u-1", node="worker-1")
BODY = json.dumps(BINDING).encode()
KEYS = pytest.mark.parametrize("key", BINDING)


def but(**changes):
    """The usual body with some values replaced; those that become ... are left out."""
    return json.dumps({key: value for key, value in {**BINDING, **changes}.items() if value is not ...}).encode()


def refusal(body):
    with pytest.raises(RequestError) as raised:
        decode_bind(body)
    message = str(raised.value)
    assert 10 < len(message) <= 300
    return message


# --- what is read -------------------------------------------------------------------------------------------------


def test_the_pod_and_its_node_are_decoded():
    assert decode_bind(BODY) == REQUEST


def test_there_are_recorded_binds():
    assert len(RECORDED) > 40


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name.split('.')[0]}")
def test_what_a_real_scheduler_sends_is_read_and_answered_as_recorded(path):
    body = path.read_bytes()
    sent, request = json.loads(body), decode_bind(body)
    read = (request.pod_name, request.pod_namespace, request.pod_uid, request.node)
    assert read == (sent["PodName"], sent["PodNamespace"], sent["PodUID"], sent["Node"])
    assert encode_bind() == path.with_name(path.name.replace("request", "response")).read_bytes()


@pytest.mark.parametrize("respell", [str.lower, str.upper, lambda key: key[0].lower() + key[1:]])
def test_keys_in_any_case(respell):
    assert decode_bind(json.dumps({respell(key): value for key, value in BINDING.items()}).encode()) == REQUEST


@KEYS
def test_one_key_in_another_case_is_enough_to_look_again(key):
    assert decode_bind(BODY.replace(key.encode(), key.lower().encode())) == REQUEST


def test_the_exact_spelling_wins():
    assert decode_bind(b'{"podname":"other",' + BODY[1:-1] + b',"NODE":"other"}') == REQUEST


@KEYS
def test_of_duplicate_keys_the_last_one_counts(key):
    assert decode_bind(f'{{"{key}":"first",'.encode() + BODY[1:]) == REQUEST


def test_of_duplicate_keys_in_another_case_the_last_one_counts():
    body = BODY.replace(b'"Node"', b'"node": "first", "NODE": "second", "nOde"')
    assert decode_bind(body) == REQUEST


def test_unknown_keys_and_white_space_are_ignored():
    assert decode_bind(b' {"Unknown":{"deep":[1e999]},' + BODY[1:] + b"\r\n") == REQUEST


# --- refusals -----------------------------------------------------------------------------------------------------


@KEYS
def test_a_missing_field_is_named(key):
    assert refusal(but(**{key: ...})) == f"the body: Object missing required field `{key}`"


@KEYS
@pytest.mark.parametrize("respell", [str, str.lower])
def test_an_empty_field_is_named(key, respell):
    body = but(**{key: ""}).replace(key.encode(), respell(key).encode())
    assert refusal(body) == f"{key}: Expected `str` of length >= 1"


@KEYS
@pytest.mark.parametrize(
    ("value", "got"), [(None, "null"), (7, "int"), ({}, "object"), (["x"], "array"), (True, "bool")]
)
def test_a_field_of_another_type_is_named(key, value, got):
    assert refusal(but(**{key: value})) == f"{key}: Expected `str`, got `{got}`"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the body is empty"),
        (b" \n", "the body is empty"),
        (b"{}", "the body: Object missing required field `PodName`"),
        (b"[]", "the body: Expected `object`, got `array`"),
        (b"null", "the body: Expected `object`, got `null`"),
        (b"<html>", "invalid character (byte 0)"),
        (BODY[:-3], "truncated"),
        (BODY + b"}", "trailing characters"),
        (b"\xef\xbb\xbf" + BODY, "byte order mark (byte 0)"),
        (BODY.decode().encode("utf-16"), "not valid UTF-8"),
        (BODY.replace(b"shop", b"\xff"), "not valid UTF-8"),
        (BODY.replace(b"shop", b"\\ud800"), "lone surrogate"),
        (but(PodUID=float("nan")), "invalid character"),
        (BODY.replace(b'"u-1"', b"[" * 1_000_000 + b"]" * 1_000_000), "nested too deeply"),
        (b'{"unknown":' + b'{"a":' * 1_000_000 + b"1" + b"}" * 1_000_000 + b"," + BODY[1:], "nested too deeply"),
    ],
)
def test_errors_of_binding_arguments(body, says):
    assert says in refusal(body)


def test_no_refusal_repeats_the_input():
    for body in (but(PodName=["hunter2"]), but(hunter2=1, Node=...), b'{"hunter2'):
        assert "hunter2" not in refusal(body)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
keys = st.sampled_from([*BINDING, "podname", "PODUID", "node", "x"])
values = st.recursive(scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(keys, below, max_size=4))


@st.composite
def mangled(draw):
    """The usual body with some bytes cut out and others put in."""
    start = draw(st.integers(0, len(BODY)))
    return BODY[:start] + draw(st.binary(max_size=8)) + BODY[draw(st.integers(start, len(BODY))) :]


objects = st.dictionaries(keys, values).map(lambda changes: {**BINDING, **changes})
bodies = mangled() | st.binary() | objects.map(lambda body: json.dumps(body).encode())


@given(bodies)
def test_any_body_is_a_request_or_refused(body):
    try:
        request = decode_bind(body)
    except RequestError:
        return
    assert all((request.pod_namespace, request.pod_name, request.pod_uid, request.node)), (
        "a request with an empty field is accepted"
    )


@given(st.fixed_dictionaries(dict.fromkeys(BINDING, st.text(st.characters(exclude_categories=["Cs"]), min_size=1))))
def test_any_text_survives(binding):
    request = decode_bind(json.dumps(binding).encode())
    assert binding == {
        "PodName": request.pod_name,
        "PodNamespace": request.pod_namespace,
        "PodUID": request.pod_uid,
        "Node": request.node,
    }, "a field is changed by the decoder"


# --- answers ------------------------------------------------------------------------------------------------------


def test_success_is_an_empty_error():
    assert encode_bind() == b'{"Error":""}'


def test_a_failure_says_why():
    assert encode_bind("shop/web-0 is gone") == b'{"Error":"shop/web-0 is gone"}'


def test_control_characters_become_escapes():
    assert encode_bind('a\x00\x1b[2J\n"') == b'{"Error":"a\\u0000\\u001b[2J\\n\\""}'


@given(st.text(st.characters()) | st.text("aé€😀\ud800", min_size=250, max_size=1100))
def test_any_text_is_answered_and_a_long_one_is_cut(error):
    text = json.loads(encode_bind(error))["Error"]
    assert error.encode("utf-8", "replace").decode().startswith(text)
    size = len(text.encode())
    assert size <= MAX_ERROR_BYTES, "longer than the limit"
    assert bool(text) == bool(error), "an error without text, or the reverse"
    assert size > MAX_ERROR_BYTES - 4 or text == error.encode("utf-8", "replace").decode()
