"""The hand-kept document of the admin listener: it has the paths and fields that the code has."""

import json

import msgspec
from fastapi.routing import APIRoute

from extender.cli.commands.openapi import ADMIN_DOCUMENT
from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration
from extender.report.lists.node_schema import ListedNodes, NodeDetail
from extender.report.lists.page_schema import ExplainedPod, PendingList, SimulationsInFlight
from extender.report.schema import DecisionList, DecisionReport
from extender.report.simulation_schema import Comparison, Simulation
from extender.server.admin.app import PUBLIC_PATHS
from extender.server.admin.decision_thread import DecisionThread
from extender.server.admin.routes import DebugEndpoints
from extender.server.context import ServerContext
from extender.server.settings import LiveSettings
from extender.version import __version__
from extender.whatif.body import SimulateBody
from tests.server.scheduler.test_openapi import NO_TYPE, REFERENCE, undescribed

DOCUMENT = json.loads(ADMIN_DOCUMENT.read_bytes())
SCHEMAS = DOCUMENT["components"]["schemas"]
TYPES = (
    DecisionList,
    DecisionReport,
    ListedNodes,
    NodeDetail,
    ExplainedPod,
    PendingList,
    SimulationsInFlight,
    Simulation,
    Comparison,
    SimulateBody,
)


def test_the_paths_and_methods_are_those_of_the_service():
    debug = DebugEndpoints(ServerContext(ClusterCache(), LiveSettings(Configuration())), DecisionThread())
    served = {
        (route.path_format, method.lower())
        for route in debug.router().routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    served |= {(path, "get") for path in PUBLIC_PATHS}
    assert {(path, method) for path, item in DOCUMENT["paths"].items() for method in item} == served
    assert DOCUMENT["info"]["version"] == __version__


def test_probes_are_described_by_their_names():
    names = {path: DOCUMENT["paths"][path]["get"]["operationId"] for path in PUBLIC_PATHS}
    assert names == {path: path[1:] for path in PUBLIC_PATHS}


def test_the_schemas_are_those_of_the_types():
    _, components = msgspec.json.schema_components(TYPES, ref_template=REFERENCE)
    components = json.loads(msgspec.json.encode(components))  # a default may be a tuple
    expected = {name: undescribed(schema) for name, schema in components.items()} | NO_TYPE
    assert SCHEMAS.keys() == expected.keys()
    stale = {name: schema for name, schema in expected.items() if undescribed(SCHEMAS[name]) != schema}
    assert not stale, f"write these into {ADMIN_DOCUMENT}: {json.dumps(stale, indent=2, sort_keys=True)}"


def test_every_reference_leads_somewhere():
    references = {part.split('"', 1)[0] for part in json.dumps(DOCUMENT).split('"#/components/schemas/')[1:]}
    assert references
    assert references <= SCHEMAS.keys()
