"""Bad input: other methods, paths and headers than a scheduler's; 400, 404, 405, 413, 415, and never a redirect.

What only a socket can carry, such as a body of another length than announced, is in `test_sockets.py`.
"""

import pytest
from hypothesis import strategies as st

from tests.property.fuzz.corpus import corpus
from tests.property.fuzz.mutate import words
from tests.property.fuzz.served import JSON, Served, assert_has_shape, assert_is_error
from tests.property.fuzz.test_bodies import run

VERBS = ("/filter", "/prioritize", "/preempt", "/bind")
METHODS = st.sampled_from(words("GET HEAD POST PUT PATCH DELETE OPTIONS TRACE CONNECT PROPFIND post HUNTER2 M-SEARCH"))
ENDS = ("", "", "", "/", "//", "/.", "/..", "%2f", "%00", "%0d%0a", ";a=b", ".json", "%ff", "%E2%80%AE", "x" * 9_000)


@st.composite
def paths(draw):
    """A known path, spelled otherwise."""
    known = draw(
        st.sampled_from([*VERBS, "/", "/livez", "/readyz", "/metrics", "/ui", "/decisions", "/docs", "/openapi.json"])
    )
    begin = draw(st.sampled_from(["", "", "", "/", "/.", "/..", "//", "/x/..", "/%2e%2e", "/hunter2"]))
    respell = draw(st.sampled_from([str, str, str, str.upper, str.title, lambda path: path.replace("e", "%65")]))
    return (begin + respell(known) + draw(st.sampled_from(ENDS))).encode()


TYPES = b"""
    application/json application/JSON application/json;charset=utf-8 application/json;charset=utf-16 text/json
    application/vnd.kubernetes.protobuf application/vnd.api+json text/plain multipart/form-data;boundary=x
    application/x-www-form-urlencoded application/json,text/plain json ; ;; application/ /json */* hunter2
""".split()
LENGTHS = (b"0", b"1", b"-1", b"+5", b"5 ", b"0x10", b"9" * 30, b"hunter2", b"\xb2", b"1, 1", b"", b"999999999999")
headers = st.one_of(
    st.tuples(st.just(b"content-type"), st.sampled_from(TYPES) | st.binary(max_size=20)),
    st.tuples(
        st.just(b"content-encoding"), st.sampled_from([b"gzip", b"identity", b"IDENTITY", b"br, gzip", b"", b"\xff"])
    ),
    st.tuples(st.just(b"content-length"), st.sampled_from(LENGTHS)),
    st.tuples(st.just(b"accept"), st.sampled_from([b"text/html", b"application/xml", b"", b"\xff"])),
    st.tuples(
        st.sampled_from([b"host", b"origin", b"x-forwarded-for", b"x-forwarded-proto", b"forwarded"]),
        st.binary(max_size=30),
    ),
    st.tuples(
        st.sampled_from([b"cookie", b"authorization", b"traceparent", b"x-request-id", b"expect"]),
        st.binary(max_size=60),
    ),
)


@pytest.fixture(scope="module")
def served():
    one = Served()
    yield one
    one.close()


def check_error(answer, method):
    assert answer.status in (400, 404, 405, 413, 415)
    assert "location" not in answer.headers
    if method != "HEAD":
        assert_is_error(answer)


def test_no_method_or_path_gets_a_5xx_or_a_redirect(served):
    def check(asked):
        method, path = asked
        answer = served.ask(served.scheduler, method, path, headers=JSON, body=corpus("filter")[0])
        if answer.status == 200:
            assert method == "POST"
            assert_has_shape("/filter" if b"filt" in path else "/prioritize", answer)
        else:
            check_error(answer, method)

    run(st.tuples(METHODS, paths()), check)
    served.assert_as_before()


def test_no_header_gets_a_5xx_or_a_redirect(served):
    def check(asked):
        path, extra = asked
        answer = served.post(path, corpus(path[1:])[0], headers=extra)
        if answer.status == 200:
            assert_has_shape(path, answer)
        else:
            check_error(answer, "POST")

    run(st.tuples(st.sampled_from(VERBS), st.lists(headers, max_size=5)), check)
    served.assert_as_before()


def test_the_admin_listener_gives_no_method_path_or_header_a_5xx_or_a_redirect(served):
    def check(asked):
        method, path, extra = asked
        answer = served.ask(served.admin, method, path, headers=extra, body=b'{"pending": true}')
        assert "location" not in answer.headers
        if answer.status != 200:
            assert answer.status in (400, 403, 404, 405, 409, 413, 415)
            if method != "HEAD":
                assert_is_error(answer, may_name_it=True)

    run(st.tuples(METHODS, paths(), st.lists(headers, max_size=5)), check)
    served.assert_as_before()
