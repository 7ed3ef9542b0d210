"""The OpenAPI document of the admin listener: summaries, parameters, schemas and errors of every operation.

Rule: documentation only; this module decides and validates nothing.
"""

import inspect
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from extender.report.schema import DecisionReport, DecisionSummary
from extender.report.simulation_schema import Simulation
from extender.server.admin.simulate import Comparison, SimulateBody
from extender.server.observability.decision_log import VERBS

TITLE = "kube-scheduler extender, admin listener"
DESCRIPTION = (
    "Health checks and metrics, open to every client; with debug.enabled also decisions, what-if simulations and the "
    "web page. None of these paths is on the scheduler's listener. Errors are "
    '{"Error": "…"}. Except for health checks and metrics, the client must be local (or debug.allowRemote: true) '
    "and the Host header must be an IP address, localhost or admin.host."
)

_REF = "#/components/schemas/{name}"


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": _REF.format(name=name)}


def _parameter(name: str, description: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema or {"type": "string"}}


def _json_content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _error(description: str) -> dict[str, Any]:
    return {"description": description, "content": _json_content(_ref("Error"))}


def _operation(
    summary: str,
    answer: dict[str, Any] | None,
    *,
    failures: dict[int, dict[str, Any]] | None = None,
    body: dict[str, Any] | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """Return arguments of `add_api_route`; `answer`: the schema of the response; None for a file of the page."""
    if body is not None:
        extra["requestBody"] = {"required": True, "content": _json_content(body)}
    content = {"text/html": {"schema": {"type": "string"}}} if answer is None else _json_content(answer)
    responses = {200: {"description": "OK", "content": content}, **_BUSY, **(failures or {}), **_FORBIDDEN}
    return {"summary": summary, "tags": ["debug"], "responses": responses, "openapi_extra": extra}


_FORBIDDEN = {403: _error("Remote client, foreign Host header or cross-origin request; the message says what to do.")}
_BUSY = {503: _error("Too many requests, or decisions under way; with Retry-After.")}
_BODY_ERRORS = {
    408: _error("The body did not arrive in time."),
    413: _error("The body is too large."),
    415: _error("The body is compressed, or the Content-Type is not JSON."),
}
_BAD_REQUEST = {400: _error("Invalid parameter or body; the message says what is wrong.")}
_NOT_KEPT = {404: _error("The decision is not kept, or did not consider that node.")}
_TIME_DESCRIPTION = "a time such as 2026-03-01T12:00:00Z, or an age such as 15m"
_RECORDING = {
    "type": "object",
    "required": ["enabled"],
    "properties": {"enabled": {"type": "boolean"}, "directory": {"type": ["string", "null"]}},
}
_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_VERBOSE = {
    "name": "verbose",
    "in": "query",
    "allowEmptyValue": True,
    "description": "List the checks as text.",
    "schema": {"type": "string"},
}


def _health_operation(
    summary: str, description: str, failures: dict[int, dict[str, Any]] | None = None, **extra: Any
) -> dict[str, Any]:
    """Return arguments of `add_api_route` for the operations of probes and Prometheus."""
    responses = {200: {"description": description, "content": _TEXT}, **(failures or {})}
    return {"summary": summary, "tags": ["health"], "responses": responses, "openapi_extra": extra}


_NOT_READY = {
    "description": "Not ready; the message says why. With `verbose`, the list of checks.",
    "content": {**_json_content(_ref("Error")), **_TEXT},
}
_STATUS = {
    "type": "object",
    "description": "Version, state of the cluster cache, kube-scheduler's version and profiles, plugins that are not "
    "evaluated, policies, presets, number of kept decisions.",
}

OPERATIONS: dict[str, dict[str, Any]] = {
    "livez": _health_operation(
        "Liveness",
        "The process runs, and the thread that decides is not stuck.",
        {503: _error("No decision could begin for 60 s.")},
    ),
    "readyz": _health_operation(
        "Readiness",
        "The cluster cache is ready, or decisions do not need it, and the process is not shutting down.",
        {503: _NOT_READY},
        parameters=[_VERBOSE],
    ),
    "show_metrics": _health_operation("Metrics", "The Prometheus text format.", _BUSY),
    "list_decisions": _operation(
        "List the latest decisions, newest first",
        {"type": "object", "properties": {"decisions": {"type": "array", "items": _ref("DecisionSummary")}}},
        parameters=[
            _parameter("pod", "`namespace/name`, name or UID of the pod to be scheduled, or of a victim"),
            _parameter("node", "name of a node that the decision considered"),
            _parameter("verb", "filter, prioritize or preempt", {"type": "string", "enum": list(VERBS)}),
            _parameter("since", _TIME_DESCRIPTION),
            _parameter("until", _TIME_DESCRIPTION),
            _parameter(
                "limit",
                "maximum number of decisions",
                {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
            ),
        ],
        failures=_BAD_REQUEST,
    ),
    "show_decision": _operation(
        "Explain one decision",
        _ref("DecisionReport"),
        parameters=[
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}, "example": "preempt-17"},
            _parameter("pods", "none omits the pods of the nodes", {"type": "string", "enum": ["all", "none"]}),
            _parameter("node", "only this node, with its pods"),
        ],
        failures={**_BAD_REQUEST, **_NOT_KEPT},
    ),
    "show_pod": _operation(
        "The pod of a decision, with the fields that decisions read",
        {"type": "object", "description": "A Pod as in the API, without environment, arguments and the like."},
        parameters=[{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
        failures=_NOT_KEPT,
    ),
    "dump_cluster": _operation(
        "The cluster cache as a cluster file",
        {
            "type": "object",
            "description": "A List of objects with the fields that decisions read, as the API server sent them; the "
            "annotation extender/assumed of the List names pods whose state is assumed.",
        },
        failures={503: _error("The cluster cache is not ready, or other dumps are being sent.")},
    ),
    "show_status": _operation("Version, cluster cache, policies and kept decisions", _STATUS),
    "simulate": _operation(
        "Simulate the scheduling of pods (what-if simulation)",
        {"oneOf": [_ref("Simulation"), _ref("Comparison")]},
        body=_ref("SimulateBody"),
        failures={
            **_BAD_REQUEST,
            **_BODY_ERRORS,
            503: _error("The cluster cache is not ready, or other simulations are waiting."),
        },
    ),
    "show_recording": _operation("Status of the recording", _RECORDING),
    "switch_recording": _operation(
        "Start or stop the recording of calls",
        _RECORDING,
        body={"type": "object", "required": ["enabled"], "properties": {"enabled": {"type": "boolean"}}},
        failures={**_BAD_REQUEST, **_BODY_ERRORS, 409: _error("Recording cannot start; the message says why.")},
    ),
    "page": _operation("The web page", None),
    "page_file": _operation("A file of the web page", None, failures=_NOT_KEPT),
}


def document(app: FastAPI) -> dict[str, Any]:
    """Return the whole document, deterministic for one version."""
    found = get_openapi(title=TITLE, version=app.version, description=DESCRIPTION, routes=app.routes)
    types = (DecisionSummary, DecisionReport, Simulation, Comparison, SimulateBody)
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    for schema in schemas.values():
        if "description" in schema:
            # A docstring: before Python 3.13 it keeps the indentation of the source.
            schema["description"] = inspect.cleandoc(schema["description"])
    error = {"type": "object", "required": ["Error"], "properties": {"Error": {"type": "string"}}}
    found["components"] = {"schemas": dict(sorted({**schemas, "Error": error}.items()))}
    return found
