"""The OpenAPI document of the scheduler's port: request bodies, responses, headers and examples.

The schemas come from the types in `wire`, which the verbs parse their bodies with.

Rule: documentation only; nothing is decided or validated here.
"""

import inspect
from typing import Any

import msgspec

from extender import wire
from extender.k8s.objects import Pod
from extender.version import __version__

TITLE = "kube-scheduler extender"
DESCRIPTION = (
    "The endpoints that kube-scheduler calls (k8s.io/kube-scheduler/extender/v1), and /filter-dryrun for autoscalers; "
    "health and metrics are on the admin listener. "
    'Keys are accepted in any case; unknown keys are ignored; every error is {"Error": "…"}. '
    "With the kill switch on, and in mode Observe, /filter accepts every node, /prioritize scores none, and /preempt "
    "returns the candidates as sent (the kill switch may also veto)."
)

NOT_EVALUATED_HEADER = "X-Extender-Not-Evaluated"
"""Response header: the filter plugins that an answer leaves to kube-scheduler; extender/v1 has no field for them."""

VETOED_HEADER = "X-Extender-Vetoed"
"""Response header of a /preempt without victims: the reason, and its end if it expires."""

DECISION_HEADER = "X-Extender-Decision"
"""Response header: the ID of the call in /decisions, recordings and audit lines."""

CACHE_HEADER = "X-Extender-Cache"
"""Response header: the cache status that the answer was decided on."""

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
_TEMPLATE = {
    "metadata": {
        "name": "template-node-for-pool-a-0",
        "labels": {"kubernetes.io/hostname": "template-node-for-pool-a-0", "topology.kubernetes.io/zone": "zone-a"},
    },
    "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
}
_DRYRUN_EXAMPLES = {
    "template": {
        "summary": "a node that a group would add",
        "value": {"Pod": _POD, "Nodes": {"metadata": {}, "items": [_TEMPLATE]}, "NodeNames": None},
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
_DRYRUN_ANSWER = {
    "Nodes": {"metadata": {}, "items": [_TEMPLATE]},
    "NodeNames": None,
    "FailedNodes": {},
    "FailedAndUnresolvableNodes": {},
    "Error": "",
}


def _error(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": {"$ref": ref("Error")}}}}


def ref(name: str) -> str:
    """Return the JSON reference to a schema of the document."""
    return _REF.format(name=name)


def _json(schema: dict[str, Any], examples: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema, "examples": examples}}


_REFUSED: dict[str, dict[str, Any]] = {
    "400": _error("The body is malformed; the message says what is wrong and where."),
    "408": _error("The body did not arrive in time."),
    "413": _error("The body, or the pod in it, is too large."),
    "415": _error("The body is compressed, or its Content-Type is not JSON."),
}
_UNAVAILABLE: dict[str, dict[str, Any]] = {
    "503": _error("No safe answer: the cluster cache is not ready or stale, a node is unknown, or an internal error.")
    | {
        "headers": {
            "Retry-After": {
                "description": "Seconds; present if too many calls, or bytes of request bodies, are in flight.",
                "schema": {"type": "integer"},
                "example": 1,
            },
        },
    },
}
_DECISION = {
    DECISION_HEADER: {
        "description": "ID of the call in audit lines and, except for /bind, in recordings and at "
        "/decisions/{id} of the admin listener. Absent if the request could not be parsed.",
        "schema": {"type": "string"},
        "example": "preempt-12",
    },
}
_HEADERS = _DECISION | {
    NOT_EVALUATED_HEADER: {
        "description": "The filter plugins of kube-scheduler that apply to this pod but are not modelled: "
        "they are left to kube-scheduler. Absent if no such plugin applies, or if the call failed.",
        "schema": {"type": "string"},
        "example": "DynamicResources",
    },
    CACHE_HEADER: {
        "description": "The cache status that the answer was decided on: the version of the cluster cache and, for a "
        "live cluster, each kind's resourceVersion and the seconds since the API server last confirmed it. Absent if "
        "nothing was decided.",
        "schema": {"type": "string"},
        "example": "version=812 Node=8123@0.2s Pod=8125@0.0s",
    },
}

_PREEMPT_HEADERS = _HEADERS | {
    VETOED_HEADER: {
        "description": "Why no pod is evicted, and until when if the reason expires; at most 500 characters. "
        "Absent if a pod is evicted.",
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
    failures: dict[str, dict[str, Any]],
    headers: dict[str, Any] = _HEADERS,
) -> dict[str, Any]:
    """Return the operation object of an endpoint that kube-scheduler calls."""
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
        "requestBody": {"required": True, "content": content},
        "responses": {"200": success, **_REFUSED, **failures},
    }


OPERATIONS: dict[str, dict[str, Any]] = {
    "filter": _verb(
        "Which of the nodes in the request can the pod run on?",
        "Exactly one of Nodes and NodeNames is not null; the answer has the same form. A node is in FailedNodes if "
        "evicting pods of lower priority would help, else in FailedAndUnresolvableNodes.",
        ("ExtenderArgs", _ARGS_EXAMPLES),
        {"$ref": ref("ExtenderFilterResult")},
        _FILTER_ANSWER,
        _UNAVAILABLE,
    ),
    "filter-dryrun": _verb(
        "Where would the pod fit if the nodes of the request were in the cluster as they were sent?",
        "For Cluster Autoscaler (filterVerb: filter-dryrun, nodeCacheCapable: false): whole Nodes may be templates "
        "that are not in the cluster, or nodes of the cluster in another state. Nothing is assumed, recorded or kept. "
        "The answer is that of /filter; every failure is 200 with an Error.",
        ("ExtenderArgs", _DRYRUN_EXAMPLES),
        {"$ref": ref("ExtenderFilterResult")},
        _DRYRUN_ANSWER,
        {},
        headers={NOT_EVALUATED_HEADER: _HEADERS[NOT_EVALUATED_HEADER], CACHE_HEADER: _HEADERS[CACHE_HEADER]},
    ),
    "prioritize": _verb(
        "How good is each node of the request, 0 to 10?",
        "If scoring fails the answer is an empty list, which changes nothing for kube-scheduler.",
        ("ExtenderArgs", _ARGS_EXAMPLES),
        {"type": "array", "items": {"$ref": ref("HostPriority")}},
        [{"Host": "worker-0001", "Score": 7}],
        {},
    ),
    "preempt": _verb(
        "Which pods should be evicted, on which node, so that this pod fits?",
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
        "Disabled by default. Error is empty only if the API server confirms that the pod with this UID is on this "
        "node; every failure is 200 with an Error, after which kube-scheduler retries the pod.",
        ("ExtenderBindingArgs", _BINDING_EXAMPLES),
        {"$ref": ref("ExtenderBindingResult")},
        {"Error": ""},
        {"404": _error("Binding is disabled.")},
        headers=_DECISION,
    ),
}


def document() -> dict[str, Any]:
    """Return the whole document; deterministic per version, so that it can be compared with the checked-in file."""
    types = (
        wire.ExtenderArgs,
        wire.ExtenderPreemptionArgs,
        Pod,
        wire.ExtenderFilterResult,
        wire.HostPriority,
        wire.ExtenderPreemptionResult,
        wire.ExtenderBindingArgs,
        wire.ExtenderBindingResult,
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "description": DESCRIPTION, "version": __version__},
        "paths": {f"/{name}": {"post": {"operationId": name, **operation}} for name, operation in OPERATIONS.items()},
        "components": {"schemas": components(types)},
    }


def components(types: tuple[type, ...]) -> dict[str, Any]:
    """Return name -> schema for the types, everything they refer to, and the error body."""
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    for schema in schemas.values():
        if "description" in schema:
            # A docstring: before Python 3.13 it keeps the indentation of the source.
            schema["description"] = inspect.cleandoc(schema["description"])
    error = {"type": "object", "required": ["Error"], "properties": {"Error": {"type": "string"}}}
    return dict(sorted({**schemas, "Error": error}.items()))
