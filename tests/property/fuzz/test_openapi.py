"""Schemathesis on both OpenAPI documents: what it makes of them, right and wrong, is answered as they say.

503 is in the document of `/filter` for a node that is not in the cache (E10), and nodes that are made up never are.
"""

import json
from functools import cache

import pytest
import schemathesis
from hypothesis import Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.e2e.image.dockerfile import ROOT
from tests.profiles import examples
from tests.property.fuzz.corpus import corpus
from tests.property.fuzz.served import Answer, Served, assert_is_error

CONFORMS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
POSITIVE, NEGATIVE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
PEOPLE = {"Host": "127.0.0.1:8889"}
MANY = settings(examples(2, 12, 1_000), phases=tuple(Phase))


def read(name):
    return json.loads((ROOT / name).read_bytes())


def operations(name):
    """METHOD /path of a document, with each way to ask; what takes no query and no body cannot be asked wrongly."""
    paths = read(name)["paths"]
    every = [(f"{method.upper()} {path}", one) for path, methods in paths.items() for method, one in methods.items()]
    wrong = [which for which, one in every if "requestBody" in one or takes_a_query(one)]
    asked = [(which, POSITIVE) for which, _ in every] + [(which, NEGATIVE) for which in wrong]
    return [pytest.param(which, mode, id=f"{which} {mode.value}") for which, mode in asked]


def takes_a_query(operation):
    return any(one["in"] == "query" for one in operation.get("parameters", ()))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("recording"))
    one = Served(recording={"directory": directory}, debug={"allowRemote": True})
    for verb in ("filter", "prioritize", "preempt"):
        one.post(f"/{verb}", corpus(verb)[0])
    yield one
    assert one.server_context.recorder is not None
    one.server_context.recorder.stop()
    one.close()


@cache
def schema_of(name):
    return schemathesis.openapi.from_dict(read(name))


def operation(name, app, which):
    schema = schema_of(name)
    schema.app = app
    method, path = which.split()
    return schema[path][method]


def conforms(of, mode, headers=None, may_name_it=False):
    """Ask so many times, and compare every answer with the document."""

    @MANY
    @given(case=of.as_strategy(generation_mode=mode))
    def check(case):
        response = case.call(headers=headers)
        assert not 300 <= response.status_code < 400, "a redirect"
        if response.status_code >= 400:
            found = {name: values[0] for name, values in response.headers.items()}
            assert_is_error(Answer(response.status_code, found, response.content), may_name_it=may_name_it)
        if (of.path, response.status_code) == ("/filter", 503):
            assert b"not in the cluster cache" in response.content, "503 for another reason than the document has"
        else:
            case.validate_response(response, checks=[not_a_server_error])
        case.validate_response(response, checks=CONFORMS)

    check()


@pytest.mark.parametrize(("which", "mode"), operations("extender/server/scheduler/openapi.json"))
def test_the_schedulers_port_answers_as_its_document_says(served, which, mode):
    conforms(operation("extender/server/scheduler/openapi.json", served.scheduler, which), mode)
    served.assert_as_before()


@pytest.mark.parametrize(("which", "mode"), operations("extender/server/admin/openapi.json"))
def test_the_admin_listener_answers_as_its_document_says(served, which, mode):
    conforms(operation("extender/server/admin/openapi.json", served.admin, which), mode, PEOPLE, may_name_it=True)
    served.assert_as_before()
