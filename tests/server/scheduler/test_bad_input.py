"""Bodies that no scheduler sends: refused with a reason, on every endpoint. more in `tests/property/fuzz`."""

import gzip
import json

import pytest

from tests.server.conftest import BODIES, INCOMING, URGENT, error_of, filter_body, preempt_body

pytestmark = pytest.mark.anyio

EVERY_PATH = pytest.mark.parametrize("path", BODIES)


async def post(client, path, body):
    """The answer, which is checked as far as it can be without knowing what was asked."""
    response = await client.post(path, content=body)
    if response.status_code == 200:
        assert_shape(path, response.json())
    else:
        error_of(response)
    return response


def assert_shape(path, answer):
    if path == "/filter":
        assert list(answer) == ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]
        assert (answer["Nodes"] is None) != (answer["NodeNames"] is None)
    elif path == "/prioritize":
        assert all(list(score) == ["Host", "Score"] and type(score["Score"]) is int for score in answer)
    else:
        assert list(answer) == ["NodeNameToMetaVictims"]
        for victims in answer["NodeNameToMetaVictims"].values():
            assert victims["Pods"]
            assert all(list(one) == ["UID"] for one in victims["Pods"])
            assert type(victims["NumPDBViolations"]) is int


def with_pod(path, pod):
    """The usual body with this text as its Pod."""
    body = json.loads(BODIES[path])
    body["Pod"] = "POD"
    return json.dumps(body).replace('"POD"', pod).encode()


def with_container(path, resources):
    spec = f'"spec":{{"priority":100,"containers":[{{"resources":{resources}}}]}}'
    return with_pod(path, f'{{"metadata":{{"name":"p","uid":"u"}},{spec}}}')


# --- not JSON -------------------------------------------------------------------------------------------------------


@EVERY_PATH
async def test_truncated_anywhere(client, path):
    body = BODIES[path]
    for length in [*range(0, len(body), 17), len(body) - 1]:
        assert (await post(client, path, body[:length])).status_code == 400


@EVERY_PATH
@pytest.mark.parametrize("more", [b"}", b"x", b"{}", b"\x00", b",", b"\xff"])
async def test_trailing_data(client, path, more):
    assert (await post(client, path, BODIES[path] + more)).status_code == 400


@EVERY_PATH
async def test_white_space_around_is_fine(client, path):
    assert (await post(client, path, b"\r\n\t " + BODIES[path] + b" \n")).status_code == 200


@EVERY_PATH
async def test_a_byte_order_mark_is_named(client, path):
    response = await post(client, path, b"\xef\xbb\xbf" + BODIES[path])
    assert response.status_code == 400
    assert "byte order mark" in error_of(response)


@EVERY_PATH
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le"])
async def test_other_encodings(client, path, encoding):
    assert (await post(client, path, BODIES[path].decode().encode(encoding))).status_code == 400


@EVERY_PATH
@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xe2\x82"])
@pytest.mark.parametrize("place", [b"worker-1", b"shop", b"containers"])
async def test_text_that_is_not_utf8(client, path, place, bad):
    response = await post(client, path, BODIES[path].replace(place, bad))
    assert response.status_code == 400
    assert "UTF-8" in error_of(response)


@EVERY_PATH
@pytest.mark.parametrize("body", [b"", b" ", b"null", b"[]", b"7", b'"x"', b"true", b"<html>", b"\x00" * 100, b"{"])
async def test_another_thing_than_an_object(client, path, body):
    assert (await post(client, path, body)).status_code == 400


@EVERY_PATH
async def test_a_compressed_body(client, path):
    assert (await post(client, path, gzip.compress(BODIES[path]))).status_code == 400
    headers = {"Content-Encoding": "gzip"}
    assert (await client.post(path, content=gzip.compress(BODIES[path]), headers=headers)).status_code == 415


# --- numbers --------------------------------------------------------------------------------------------------------


@EVERY_PATH
@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "5.0", "5e0", "0.5", '"5"', "01", "+1", "--1"]
)
async def test_a_priority_that_is_no_integer(client, path, number):
    body = with_pod(path, f'{{"metadata":{{"name":"p","uid":"u"}},"spec":{{"priority":{number}}}}}')
    assert (await post(client, path, body)).status_code == 400


@EVERY_PATH
@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**63, 2**64, 10**400])
async def test_a_priority_that_is_too_large(client, path, number):
    body = with_pod(path, f'{{"metadata":{{"name":"p","uid":"u"}},"spec":{{"priority":{number}}}}}')
    response = await post(client, path, body)
    assert response.status_code == 400
    assert "Pod.spec.priority" in error_of(response)


@pytest.mark.parametrize("number", ["NaN", "1e999", "0.0", "7.5", '"7"', str(2**63), str(-(2**63) - 1), "null"])
async def test_a_count_of_violations_that_is_no_int64(client, number):
    body = preempt_body().replace(b'"NumPDBViolations": 0', b'"NumPDBViolations": ' + number.encode())
    assert (await post(client, "/preempt", body)).status_code == 400


@EVERY_PATH
@pytest.mark.parametrize("number", ["1e999", "-1e999", str(2**64), "1e-999"])
async def test_numbers_that_nobody_reads_do_not_matter(client, path, number):
    body = BODIES[path][:-1] + f',"unknown":{number}}}'.encode()
    assert (await post(client, path, body)).status_code == 200


# --- quantities -----------------------------------------------------------------------------------------------------


@EVERY_PATH
@pytest.mark.parametrize("value", ["1e3", "1Ei", "-1", "0.5m", "1", "100m", "1e-3", ".5", "5.", "+1"])
@pytest.mark.parametrize("quoted", [True, False])
async def test_quantities(client, path, value, quoted):
    text = f'"{value}"' if quoted else value
    response = await post(client, path, with_container(path, f'{{"requests":{{"cpu":{text}}}}}'))
    assert response.status_code in ((200,) if quoted else (200, 400))


@EVERY_PATH
@pytest.mark.parametrize("value", ["", " ", "x", "\\uff11", "1e", "1 Gi", "0x10", "1,5", "NaN", "1KiB", "9" * 2000])
async def test_what_is_no_quantity(client, path, value):
    response = await post(client, path, with_container(path, f'{{"requests":{{"memory":"{value}"}}}}'))
    assert response.status_code == 400
    assert "Pod.spec.containers[0].resources.requests[memory]" in error_of(response)


@EVERY_PATH
async def test_a_quantity_that_is_null_is_none(client, path):
    """Go leaves the Quantity as it is then: 0."""
    assert (await post(client, path, with_container(path, '{"requests":{"memory":null}}'))).status_code == 200


@EVERY_PATH
@pytest.mark.parametrize("value", ["true", "[]", "{}", "1e999"])
async def test_quantities_of_another_type(client, path, value):
    response = await post(client, path, with_container(path, f'{{"requests":{{"memory":{value}}}}}'))
    assert response.status_code == 400


@EVERY_PATH
@pytest.mark.parametrize("value", ["9223372036854775807Ei", "1e400", "1e-400", "-9e99", "0e999999999"])
async def test_amounts_beyond_all_nodes(client, path, value):
    assert (await post(client, path, with_container(path, f'{{"requests":{{"cpu":"{value}"}}}}'))).status_code == 200


# --- shape ----------------------------------------------------------------------------------------------------------


@EVERY_PATH
@pytest.mark.parametrize("depth", [1_500, 1_000_000])
@pytest.mark.parametrize("place", ['{"unknown":DEEP,', '{"Pod":DEEP,', '{"Nodes":{"items":[DEEP]},', '{"pod":DEEP,'])
async def test_nesting_without_end(client, path, depth, place):
    start = place.replace("DEEP", "[" * depth + "]" * depth)
    response = await post(client, path, start.encode() + BODIES[path][1:])
    if depth == 1_500 and response.status_code == 200:
        # Python 3.13 has a deeper stack, 3.14 that of the thread: an unknown key is ignored then, and of equal keys
        # the last one counts.
        assert response.content == (await post(client, path, BODIES[path])).content
    else:
        assert response.status_code == 400


@EVERY_PATH
async def test_duplicate_keys_the_last_one_counts(client, path):
    usual = await post(client, path, BODIES[path])
    twice = b'{"Pod":null,"NodeNames":7,"NodeNameToMetaVictims":{},' + BODIES[path][1:]
    if path == "/preempt":
        assert (await post(client, path, twice)).content == usual.content
    else:
        assert (await post(client, path, b'{"Pod":null,"NodeNames":[],' + BODIES[path][1:])).content == usual.content


@EVERY_PATH
@pytest.mark.parametrize("respell", [str.lower, str.upper, lambda key: key[0].lower() + key[1:]])
async def test_other_letter_case_is_accepted(client, path, respell):
    keys = (
        "Pod",
        "Nodes",
        "NodeNames",
        "NodeNameToVictims",
        "NodeNameToMetaVictims",
        "Pods",
        "UID",
        "NumPDBViolations",
    )
    body = BODIES[path].decode()
    for key in keys:
        body = body.replace(f'"{key}":', f'"{respell(key)}":')
    usual = await post(client, path, BODIES[path])
    assert (await post(client, path, body.encode())).content == usual.content


@EVERY_PATH
@pytest.mark.parametrize("escape", ["\\ud800", "\\udfff", "\\ud800\\ud800", "\\udc00\\ud800", "a\\ud83d"])
async def test_lone_surrogates_are_refused(client, path, escape):
    response = await post(client, path, BODIES[path].replace(b"worker-1", escape.encode()))
    assert response.status_code == 400
    assert "surrogate" in error_of(response)


@EVERY_PATH
@pytest.mark.parametrize("pod", ["null", "{}", "[]", '"p"', "7", '{"metadata":null}', '{"metadata":7}', '{"spec":{}}'])
async def test_a_pod_that_is_none(client, path, pod):
    response = await post(client, path, with_pod(path, pod))
    assert response.status_code == 400
    assert error_of(response).startswith("Pod")


@EVERY_PATH
async def test_a_body_without_a_pod(client, path):
    body = json.loads(BODIES[path])
    del body["Pod"]
    response = await post(client, path, json.dumps(body).encode())
    assert "`Pod`" in error_of(response)


@pytest.mark.parametrize("path", ["/filter", "/prioritize"])
@pytest.mark.parametrize(
    ("nodes", "status"),
    [
        ({}, 400),
        ({"Nodes": None, "NodeNames": None}, 400),
        ({"Nodes": {"items": []}, "NodeNames": []}, 400),
        ({"Nodes": None, "NodeNames": []}, 200),
        ({"NodeNames": ["worker-1"]}, 200),
        ({"Nodes": {"items": None}, "NodeNames": None}, 200),
        ({"Nodes": {"metadata": {}, "items": []}}, 200),
        ({"Nodes": {}}, 400),
        ({"Nodes": []}, 400),
        ({"NodeNames": {}}, 400),
        ({"NodeNames": "worker-1"}, 400),
        ({"NodeNames": [None]}, 400),
        ({"NodeNames": [["worker-1"]]}, 400),
    ],
    ids=str,
)
async def test_both_or_neither_form_of_nodes(client, path, nodes, status):
    response = await post(client, path, json.dumps({"Pod": INCOMING, **nodes}).encode())
    assert response.status_code == status


@pytest.mark.parametrize(
    ("victims", "status"),
    [
        ({}, 400),
        ({"NodeNameToVictims": None, "NodeNameToMetaVictims": None}, 400),
        ({"NodeNameToVictims": {}, "NodeNameToMetaVictims": {}}, 400),
        ({"NodeNameToVictims": {}}, 200),
        ({"NodeNameToMetaVictims": {}}, 200),
        ({"NodeNameToMetaVictims": {"worker-1": None}}, 400),
        ({"NodeNameToMetaVictims": {"worker-1": {"Pods": [None]}}}, 400),
        ({"NodeNameToMetaVictims": {"worker-1": {"Pods": None}}}, 200),
        ({"NodeNameToMetaVictims": {"worker-1": {"Pods": []}}}, 200),
        ({"NodeNameToMetaVictims": {"worker-1": {"Pods": [{"UID": "uid-small"}] * 2}}}, 200),
        ({"NodeNameToMetaVictims": {"": {"Pods": [{"UID": ""}]}}}, 200),
    ],
    ids=str,
)
async def test_odd_maps_of_victims(client, victims, status):
    response = await post(client, "/preempt", json.dumps({"Pod": URGENT, **victims}).encode())
    assert response.status_code == status


SELECTORS = [
    {"nodeSelector": {"": "x", "a b": "-"}},
    {"tolerations": [{"operator": "Sideways", "effect": "None"}]},
    {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
    {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "",
                        "labelSelector": {"matchExpressions": [{"key": "a b", "operator": "Near", "values": ["?"]}]},
                    }
                ]
            }
        }
    },
    {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["many"]}]},
                        {"matchFields": [{"key": "spec.nope", "operator": "In", "values": []}]},
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "", "operator": "?"}]}}
                ],
            }
        }
    },
]


@pytest.mark.parametrize("spec", SELECTORS, ids=str)
@EVERY_PATH
async def test_selectors_that_kubernetes_would_refuse(client, path, spec):
    pod = {**URGENT, "spec": {**URGENT["spec"], **spec}}
    response = await post(client, path, with_pod(path, json.dumps(pod)))
    assert response.status_code in (200, 400)


@EVERY_PATH
async def test_nothing_of_the_input_comes_back_in_an_error(client, path):
    for body in (
        with_pod(path, '{"metadata":{"labels":{"hunter2":["hunter2"]}}}'),
        with_container(path, '{"requests":{"cpu":"hunter2"}}'),
        b'{"hunter2',
    ):
        assert "hunter2" not in error_of(await client.post(path, content=body))


@pytest.mark.parametrize(
    "name", ["", "\x00", "a" * 100_000, "<script>", "worker-1\n", "\uff57orker", "👩‍👩‍👧", "../.."]
)
async def test_odd_node_names(client, name):
    assert (await post(client, "/filter", filter_body([name]))).status_code == 503
    assert (await post(client, "/prioritize", filter_body([name]))).json() == []
    answer = (await post(client, "/preempt", preempt_body(**{name: ["uid-small"]}))).json()
    assert answer == {"NodeNameToMetaVictims": {}}
