"""Bad input on the admin listener: cases of every kind, and no 5xx, no redirect, no answer of another shape.

Its answers are for people: they may name the key or the value that is refused, in printable characters and cut short.
"""

import json
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import strategies as st

from tests.property.fuzz.corpus import corpus, questions
from tests.property.fuzz.mutate import words
from tests.property.fuzz.served import JSON, Served, assert_is_error
from tests.property.fuzz.test_bodies import hostile, run


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """With decisions that can be asked about, and a directory to record into."""
    one = Served(recording={"directory": str(tmp_path_factory.mktemp("recording"))})
    for verb in ("filter", "prioritize", "preempt"):
        for body in corpus(verb):
            one.post(f"/{verb}", body)
    yield one
    assert one.server_context.recorder is not None
    one.server_context.recorder.stop()
    one.close()


def test_no_question_to_the_simulation_gets_a_5xx(served):
    def check(body):
        answer = served.ask(served.admin, "POST", b"/simulate", headers=JSON, body=body)
        if answer.status == 200:
            assert answer.headers["content-type"] == "application/json"
            assert isinstance(json.loads(answer.body), dict)
        else:
            assert answer.status == 400
            assert_is_error(answer, may_name_it=True)
        served.assert_as_before()

    run(hostile(questions()), check)


SWITCHES = (b'{"enabled": true}', b'{"enabled": false}', b'{"enabled":true,"directory":"/tmp/hunter2"}')


def test_no_switching_of_the_recording_gets_a_5xx(served):
    def check(body):
        answer = served.ask(served.admin, "POST", b"/recording", headers=JSON, body=body)
        if answer.status == 200:
            assert json.loads(answer.body)["enabled"] is json.loads(body)["enabled"]
        else:
            assert answer.status in (400, 413)
            assert_is_error(answer, may_name_it=True)

    run(hostile(SWITCHES), check)
    served.assert_as_before()


@pytest.mark.parametrize("path", [b"/simulate", b"/recording"])
@pytest.mark.parametrize("body", [b'{"\xff":true}', b'{"enabled":"\xff"}', b'{"\xed\xa0\x80":1}'])
def test_keys_and_texts_that_are_not_utf8_are_refused(served, path, body):
    answer = served.ask(served.admin, "POST", path, headers=JSON, body=body)
    assert answer.status == 400
    assert_is_error(answer)


PATHS = words(
    """
    /decisions /decisions/filter-1 /decisions/preempt-2 /decisions/preempt-2/pod /decisions/unknown /decisions/-
    /decisions/%2e%2e /decisions/filter-1%00 /decisions/\u0663 /status /recording /livez /readyz /metrics /ui /ui/
    /ui/x.js /ui/..%2f..%2fdebug.py /ui/%2e%2e/ /ui/index.html /
    """
)
WORDS = words(
    """
    filter prioritize preempt bind FILTER all none 0 1 1000 1001 -1 1e3 \u0661 15m 15M 0s 999999999d \u0663m 1h30m now
    2026-03-01T12:00:00Z 2026-03-01T12:00:00 2026-03-01 20260301T120000Z 2026-W09-7T00:00:00Z 0001-01-01T00:00:00+23:59
    9999-12-31T23:59:59-23:59 2026-02-30T00:00:00Z 2026-03-01T24:00:00Z shop/web-0 worker-0001 hunter2 %00 %ff %zz
    """
)
NAMES = words("pod node verb since until limit pods verbose POD pod[] hunter2")
written = st.sampled_from(WORDS) | st.text(max_size=12) | st.binary(max_size=12).map(quote_from_bytes)


@st.composite
def queries(draw):
    """A query string, from right to absurd; sometimes very long."""
    pairs = draw(st.lists(st.tuples(st.sampled_from(NAMES) | written, written), max_size=4))
    text = "&".join(f"{name}={value}" if draw(st.booleans()) else name + value for name, value in pairs)
    return (text * draw(st.sampled_from((1, 1, 1, 1_000)))).encode("utf-8", "surrogatepass")


def test_no_query_gets_a_5xx_or_a_redirect(served):
    def check(asked):
        path, query = asked
        answer = served.ask(served.admin, "GET", quote(path), quote_query(query))
        if answer.status != 200:
            assert answer.status in (400, 404)
            assert_is_error(answer, may_name_it=True)
        elif answer.media_type == "application/json":
            json.loads(answer.body)

    run(st.tuples(st.sampled_from(PATHS), queries()), check)
    served.assert_as_before()


def quote(path: str) -> bytes:
    """As it would stand in a request line: ASCII."""
    return "".join(one if one.isascii() else quote_from_bytes(one.encode()) for one in path).encode()


def quote_query(query: bytes) -> bytes:
    """A server hands a query on as it came, and that may be any byte above the space."""
    return bytes(byte for byte in query if byte > 32)
