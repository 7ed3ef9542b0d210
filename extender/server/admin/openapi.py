"""What the OpenAPI document of the admin listener says beyond paths and methods.

Rule: documentation only. Nothing is decided or validated here.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from extender.core.explain.schema import Decision, Summary
from extender.core.simulator.result import Simulation
from extender.server.admin.simulate import Body, Comparison
from extender.server.observability.decision_log import VERBS
from extender.server.scheduler.openapi import components, ref

TITLE = "kube-scheduler extender, admin listener"
DESCRIPTION = (
    "Health and metrics, which everybody may ask for; and for people what was decided and why, what would happen if, "
    "and the page that shows both (debug.enabled). None of it is on the scheduler's port. Errors are "
    '{"Error": "…"}. Except for health and metrics the caller must be on the same machine (or debug.allowRemote: true) '
    "and the Host header an address, localhost or admin.host."
)


def _parameter(name: str, description: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema or {"type": "string"}}


def _error(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": {"$ref": ref("Error")}}}}


def _operation(
    summary: str, answer: dict[str, Any] | None, *, body: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Arguments of `add_api_route`. `answer`: a schema; None: a file of the page."""
    content = (
        {"text/html": {"schema": {"type": "string"}}} if answer is None else {"application/json": {"schema": answer}}
    )
    extra: dict[str, Any] = {"parameters": more["parameters"]} if "parameters" in more else {}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    responses = {200: {"description": "The answer.", "content": content}, **more.get("failures", {})}
    return {
        "summary": summary,
        "tags": ["people"],
        "responses": {**responses, **_FORBIDDEN},
        "openapi_extra": extra,
    }


_FORBIDDEN = {403: _error("Not from another machine, nor by another site; the text says what to do.")}
_BODY = {
    408: _error("The body did not arrive in time."),
    413: _error("The body is too large."),
    415: _error("The body is compressed, or the Content-Type does not say that it is JSON."),
}
_BAD = {400: _error("A parameter or the body cannot be understood; the text says what is wrong.")}
_GONE = {404: _error("It is not kept, or does not speak of that node.")}
_TIME = "a time such as 2026-03-01T12:00:00Z, or 15m for so long ago"
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
    "description": "List what is checked, as text.",
    "schema": {"type": "string"},
}


def _for_machines(
    summary: str, description: str, failures: dict[int | str, dict[str, Any]] | None = None, **extra: Any
) -> dict[str, Any]:
    """Arguments of `add_api_route` for what probes and Prometheus ask."""
    responses = {200: {"description": description, "content": _TEXT}, **(failures or {})}
    return {"summary": summary, "tags": ["health"], "responses": responses, "openapi_extra": extra}


_NOT_READY = {
    "description": "Not yet, or no more; the text says why. With `verbose` it is the list of checks.",
    "content": {"application/json": {"schema": {"$ref": ref("Error")}}, **_TEXT},
}
_STATUS = {"type": "object", "description": "Version, picture, policies, presets, how many decisions are kept."}

OPERATIONS: dict[str, dict[str, Any]] = {
    "livez": _for_machines("Does the process answer?", "Yes."),
    "readyz": _for_machines(
        "Should calls be sent here?",
        "Yes: there is a picture of the cluster to decide on, or none is needed, and the process is not about to end.",
        {503: _NOT_READY},
        parameters=[_VERBOSE],
    ),
    "show_metrics": _for_machines("What has been counted since the start?", "The Prometheus text format."),
    "list_decisions": _operation(
        "The last decisions, the latest first",
        {"type": "object", "properties": {"decisions": {"type": "array", "items": {"$ref": ref("Summary")}}}},
        parameters=[
            _parameter("pod", "`namespace/name`, name or UID of the pod to be scheduled, or of a victim"),
            _parameter("node", "name of a node that it speaks of"),
            _parameter("verb", "filter, prioritize or preempt", {"type": "string", "enum": list(VERBS)}),
            _parameter("since", _TIME),
            _parameter("until", _TIME),
            _parameter("limit", "how many", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
        ],
        failures=_BAD,
    ),
    "show_decision": _operation(
        "One decision with all that led to it",
        {"$ref": ref("Decision")},
        parameters=[
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}, "example": "preempt-17"},
            _parameter("pods", "none: without the pods of the nodes", {"type": "string", "enum": ["all", "none"]}),
            _parameter("node", "only this node, with its pods"),
        ],
        failures={**_BAD, **_GONE},
    ),
    "show_pod": _operation(
        "The pod of a decision, as far as decisions read it",
        {"type": "object", "description": "A Pod as in the API, without environment, arguments and the like."},
        parameters=[{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
        failures=_GONE,
    ),
    "show_status": _operation("What is served, on what, and by which policies", _STATUS),
    "simulate": _operation(
        "What would happen to some pods?",
        {"oneOf": [{"$ref": ref("Simulation")}, {"$ref": ref("Comparison")}]},
        body={"$ref": ref("Body")},
        failures={**_BAD, **_BODY, 503: _error("There is no cluster picture.")},
    ),
    "show_recording": _operation("Are calls recorded, and where?", _RECORDING),
    "switch_recording": _operation(
        "Record calls from now on, or no more",
        _RECORDING,
        body={"type": "object", "required": ["enabled"], "properties": {"enabled": {"type": "boolean"}}},
        failures={**_BAD, **_BODY, 409: _error("It cannot be recorded; the text says why.")},
    ),
    "page": _operation("The page", None),
    "page_file": _operation("What the page is made of", None, failures=_GONE),
}


def document(app: FastAPI) -> dict[str, Any]:
    """The whole document; the same for the same version."""
    found = get_openapi(title=TITLE, version=app.version, description=DESCRIPTION, routes=app.routes)
    found["components"] = {"schemas": components((Summary, Decision, Simulation, Comparison, Body))}
    return found
