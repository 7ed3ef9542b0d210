"""The hand-kept document of the scheduler's port: it has the paths, headers and fields that the code has."""

import json

import msgspec
import pytest

from extender.cli.commands.openapi import SCHEDULER_DOCUMENT
from extender.k8s.objects import Pod
from extender.server.scheduler import routes
from extender.version import __version__
from extender.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
)
from tests.server.conftest import BODIES

pytestmark = pytest.mark.anyio

DOCUMENT = json.loads(SCHEDULER_DOCUMENT.read_bytes())
SCHEMAS = DOCUMENT["components"]["schemas"]
REFERENCE = "#/components/schemas/{name}"

TYPES = {
    "/filter": (ExtenderArgs, ExtenderFilterResult),
    "/filter-dryrun": (ExtenderArgs, ExtenderFilterResult),
    "/prioritize": (ExtenderArgs, list[HostPriority]),
    "/preempt": (ExtenderPreemptionArgs, ExtenderPreemptionResult),
    "/bind": (ExtenderBindingArgs, ExtenderBindingResult),
}
"""Path -> types of the request and of the answer."""

NO_TYPE = {"Error": {"type": "object", "required": ["Error"], "properties": {"Error": {"type": "string"}}}}
"""Schemas that the code has no type for."""


def generated(*types):
    """Schema of each type, then name -> schema of what they refer to; Pod is raw bytes in the types of requests."""
    found, components = msgspec.json.schema_components((*types, Pod), ref_template=REFERENCE)
    return found, {name: undescribed(schema) for name, schema in components.items()}


def undescribed(schema):
    """The schema without its description, which is free text."""
    return {key: value for key, value in schema.items() if key != "description"}


def content(part):
    return part["content"]["application/json"]["schema"]


def test_the_paths_are_those_of_the_service():
    assert set(DOCUMENT["paths"]) == {*routes.PATHS, routes.DRYRUN_PATH} == set(TYPES)
    assert DOCUMENT["paths"].keys() >= BODIES.keys()
    assert {path: (list(item), item["post"]["operationId"]) for path, item in DOCUMENT["paths"].items()} == {
        path: (["post"], path[1:]) for path in DOCUMENT["paths"]
    }
    assert DOCUMENT["info"]["version"] == __version__
    assert "422" not in json.dumps(DOCUMENT)


@pytest.mark.parametrize("path", TYPES)
def test_a_path_names_the_types_that_it_reads_and_answers(path):
    operation = DOCUMENT["paths"][path]["post"]
    (request, answer, _), _ = generated(*TYPES[path])
    assert content(operation["requestBody"]) == request
    assert content(operation["responses"]["200"]) == answer


def test_the_schemas_are_those_of_the_types():
    _, expected = generated(*(one for types in TYPES.values() for one in types))
    expected |= NO_TYPE
    assert SCHEMAS.keys() == expected.keys()
    stale = {name: schema for name, schema in expected.items() if undescribed(SCHEMAS[name]) != schema}
    assert not stale, f"write these into {SCHEDULER_DOCUMENT}: {json.dumps(stale, indent=2, sort_keys=True)}"


def test_the_headers_are_those_of_the_routes():
    headers = {name for name in vars(routes) if name.endswith("_HEADER")}
    named = {
        header.lower().encode() for item in DOCUMENT["paths"].values() for header in answered(item).get("headers", {})
    }
    assert named == {getattr(routes, name) for name in headers}


def answered(item):
    return item["post"]["responses"]["200"]


def test_the_examples_spell_every_key():
    text = json.dumps(DOCUMENT["paths"]["/filter"]["post"])
    assert '"NodeNames": ["worker-0001"' in text
    assert '"Nodes": null' in text
    assert '"NodeNames": null' in text


@pytest.mark.parametrize("path", BODIES)
async def test_the_examples_are_understood(client, path):
    body = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    for example in body["examples"].values():
        response = await client.post(path, content=json.dumps(example["value"]))
        assert response.status_code in (200, 503)
