"""What the OpenAPI document says beyond paths and methods: bodies, answers, examples.

The hot routes parse their bodies themselves, so FastAPI cannot know them; the schemas come from the wire types.

Rule: documentation only. Nothing is decided or validated here.
"""

import inspect
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from extender import wire

TITLE = "kube-scheduler extender"
DESCRIPTION = (
    "The endpoints that kube-scheduler calls (k8s.io/kube-scheduler/extender/v1); health and metrics are on the admin "
    "listener. "
    'Keys are accepted in any case; unknown keys are ignored; every error is {"Error": "…"}. '
    "With the kill switch on, and in mode Observe, /filter accepts every node, /prioritize scores none, and /preempt "
    "answers what was offered (the kill switch may also veto)."
)

NOT_EVALUATED = "X-Extender-Not-Evaluated"
"""Response header: the plugins that an answer leaves to kube-scheduler; extender/v1 has no field to say so in."""

VETOED = "X-Extender-Vetoed"
"""Header of a /preempt answer that evicts nobody: why, and until when where that ends by itself."""

DECISION = "X-Extender-Decision"
"""Response header: what the call is called in /decisions, in recordings and in audit lines."""

PICTURE = "X-Extender-Picture"
"""Response header: which state of the cluster the answer was made on."""

_REF = "#/components/schemas/{name}"

_POD = {
    "metadata": {"name": "web-0", "namespace": "shop", "uid": "0d9c4b7e-0d5f-4f0e-9f0d-2b1f3f1f8f10"},
    "spec": {
        "priority": 1000,
        "containers": [{"name": "app", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}}],
    },
}
_NODE = {"metadata": {"name": "worker-0001"}}
_VICTIMS = {"worker-0002": {"Pods": [{"UID": "3a8731ee-d934-4de2-8966-e33f595dde9f"}], "NumPDBViolations": 0}}

_ARGS_EXAMPLES = {
    "names": {
        "summary": "nodeCacheCapable: true",
        "value": {"Pod": _POD, "Nodes": None, "NodeNames": ["worker-0001", "worker-0002"]},
    },
    "whole nodes": {
        "summary": "nodeCacheCapable: false",
        "value": {"Pod": _POD, "Nodes": {"metadata": {}, "items": [_NODE]}, "NodeNames": None},
    },
}
_PREEMPTION_EXAMPLES = {
    "names": {
        "summary": "nodeCacheCapable: true",
        "value": {"Pod": _POD, "NodeNameToVictims": None, "NodeNameToMetaVictims": _VICTIMS},
    },
}
_BINDING_EXAMPLES = {
    "bind": {
        "summary": "always the same form",
        "value": {
            "PodName": "web-0",
            "PodNamespace": "shop",
            "PodUID": "0d9c4b7e-0d5f-4f0e-9f0d-2b1f3f1f8f10",
            "Node": "worker-0001",
        },
    },
}
_FILTER_ANSWER = {
    "Nodes": None,
    "NodeNames": ["worker-0001"],
    "FailedNodes": {"worker-0002": "Insufficient cpu"},
    "FailedAndUnresolvableNodes": {},
    "Error": "",
}


def _error(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": {"$ref": ref("Error")}}}}


def ref(name: str) -> str:
    """Where the document has a schema."""
    return _REF.format(name=name)


def _json(schema: dict[str, Any], examples: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema, "examples": examples}}


_REFUSED: dict[int | str, dict[str, Any]] = {
    400: _error("The body cannot be understood; the text says what is wrong and where."),
    408: _error("The body did not arrive in time."),
    413: _error("The body is too large."),
    415: _error("The body is compressed, or says that it is not JSON."),
}
_UNAVAILABLE: dict[int | str, dict[str, Any]] = {
    503: _error("No safe answer: no cluster picture, an unknown node, an internal error."),
}
_DECISION = {
    DECISION: {
        "description": "What the call is called in audit lines and, but for /bind, in recordings and at "
        "/decisions/{id} of the admin listener. Absent where the request could not be read, or was not.",
        "schema": {"type": "string"},
        "example": "preempt-12",
    },
}
_HEADERS = _DECISION | {
    NOT_EVALUATED: {
        "description": "The filter plugins of kube-scheduler that have a say about this pod but are not modelled: "
        "their part is left to kube-scheduler. Absent where there are none, and where no answer could be given.",
        "schema": {"type": "string"},
        "example": "DynamicResources",
    },
    PICTURE: {
        "description": "Which state of the cluster the answer was made on: how often the picture has changed, and of "
        "a live cluster each kind's resourceVersion and the seconds since the API server last confirmed it. Absent "
        "where nothing was decided.",
        "schema": {"type": "string"},
        "example": "version=812 Node=8123@0.2s Pod=8125@0.0s",
    },
}

_PREEMPT_HEADERS = _HEADERS | {
    VETOED: {
        "description": "Why nobody is to be evicted, and until when where that ends by itself; at most 500 characters. "
        "Absent where somebody is.",
        "schema": {"type": "string"},
        "example": "12 nodes: would break disruption budget shop/cart; 1 node: Insufficient cpu",
    },
}


def _verb(
    summary: str,
    description: str,
    body: tuple[str, dict[str, Any]],
    answer: dict[str, Any],
    example: Any,
    failures: dict[int | str, dict[str, Any]],
    headers: dict[str, Any] = _HEADERS,
) -> dict[str, Any]:
    """Arguments of `add_api_route` for an endpoint that kube-scheduler calls."""
    content = _json({"$ref": ref(body[0])}, body[1])
    success = {
        "description": "The answer.",
        "headers": headers,
        "content": _json(answer, {"answer": {"value": example}}),
    }
    return {
        "summary": summary,
        "description": description,
        "tags": ["scheduler"],
        "responses": {200: success, **_REFUSED, **failures},
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


OPERATIONS: dict[str, dict[str, Any]] = {
    "filter": _verb(
        "Which of the offered nodes can the pod run on?",
        "Exactly one of Nodes and NodeNames is not null; the answer has the same form. A node is in FailedNodes where "
        "evicting pods of lower priority would help, else in FailedAndUnresolvableNodes.",
        ("ExtenderArgs", _ARGS_EXAMPLES),
        {"$ref": ref("ExtenderFilterResult")},
        _FILTER_ANSWER,
        _UNAVAILABLE,
    ),
    "prioritize": _verb(
        "How good is each of the offered nodes, 0 to 10?",
        "Where no score can be given the answer is an empty list, which changes nothing for the scheduler.",
        ("ExtenderArgs", _ARGS_EXAMPLES),
        {"type": "array", "items": {"$ref": ref("HostPriority")}},
        [{"Host": "worker-0001", "Score": 7}],
        {},
    ),
    "preempt": _verb(
        "Where should which pods be evicted so that this one fits?",
        "Exactly one of NodeNameToVictims and NodeNameToMetaVictims is not null. The answer always has the second "
        "form; an empty map vetoes the preemption.",
        ("ExtenderPreemptionArgs", _PREEMPTION_EXAMPLES),
        {"$ref": ref("ExtenderPreemptionResult")},
        {"NodeNameToMetaVictims": _VICTIMS},
        _UNAVAILABLE,
        headers=_PREEMPT_HEADERS,
    ),
    "bind": _verb(
        "Bind the pod to the node.",
        "Off by default. Error is empty only if the API server says that the pod with this UID is on this node; every "
        "failure is 200 with an Error, after which the scheduler starts over with the pod.",
        ("ExtenderBindingArgs", _BINDING_EXAMPLES),
        {"$ref": ref("ExtenderBindingResult")},
        {"Error": ""},
        {404: _error("Binding is switched off.")},
        headers=_DECISION,
    ),
}


def document(app: FastAPI) -> dict[str, Any]:
    """The whole document; the same for the same version, so that it can be compared with a file."""
    found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    for name, operation in OPERATIONS.items():
        if "requestBody" in operation["openapi_extra"]:
            # As written above: FastAPI leaves nulls out, also those of examples.
            documented = found["paths"][f"/{name}"]["post"]
            documented["requestBody"] = operation["openapi_extra"]["requestBody"]
            documented["responses"]["200"] = operation["responses"][200]
    found["components"] = {"schemas": _schemas()}
    return found


def _schemas() -> dict[str, Any]:
    types = (
        wire.ExtenderArgs,
        wire.ExtenderPreemptionArgs,
        wire.ExtenderFilterResult,
        wire.HostPriority,
        wire.ExtenderPreemptionResult,
        wire.ExtenderBindingArgs,
        wire.ExtenderBindingResult,
    )
    return components(types)


def components(types: tuple[type, ...]) -> dict[str, Any]:
    """Schemas of the types and of all that they are made of, and of an error, by name."""
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    for schema in schemas.values():
        if "description" in schema:
            # A docstring, which before Python 3.13 has the indentation of the source.
            schema["description"] = inspect.cleandoc(schema["description"])
    return dict(sorted({**schemas, "Error": error_schema()}.items()))


def error_schema() -> dict[str, Any]:
    """Of every answer that is no success."""
    return {"type": "object", "required": ["Error"], "properties": {"Error": {"type": "string"}}}
