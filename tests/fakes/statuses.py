"""The Status objects that a Kubernetes API server answers with when it does not answer with what was asked for.

Rule: code, reason and message have the shape of the real ones (apimachinery's `api/errors`).
"""

from typing import Any

from tests.fakes.kinds import Resource, Target

JSON = dict[str, Any]

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}

MESSAGES = {
    401: "Unauthorized",
    410: "The resourceVersion for the provided watch is too old.",
    429: "Too many requests, please try again later.",
    503: "apiserver is shutting down",
}

CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class Refused(Exception):
    """The request gets this Status instead of an answer."""

    def __init__(self, status: JSON) -> None:
        super().__init__(status["message"])
        self.status = status


def failure(code: int, message: str = "", reason: str = "", details: JSON | None = None) -> JSON:
    """A Status of a failure; what is left out is the usual of its code."""
    message = message or MESSAGES.get(code, REASONS.get(code, "unknown"))
    status: JSON = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    status |= {"reason": reason or REASONS.get(code, "")}
    return status | ({"details": details} if details else {}) | {"code": code}


def success(code: int) -> JSON:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}


def forbidden(user: str, verb: str, target: Target) -> JSON:
    resource, details = target.resource, _details(target.resource, target.name)
    what = f"{resource.plural}/{target.subresource}" if target.subresource else resource.plural
    one = f'{_qualified(resource)} "{target.name}"' if target.name else _qualified(resource)
    scope = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    message = (
        f'{one} is forbidden: User "{user}" cannot {verb} resource "{what}" in API group "{resource.group}" {scope}'
    )
    return failure(403, message, details=details)


def not_found(resource: Resource, name: str) -> JSON:
    return failure(404, f'{_qualified(resource)} "{name}" not found', details=_details(resource, name))


def no_such_resource() -> JSON:
    return failure(404, "the server could not find the requested resource")


def conflict(name: str, why: str) -> JSON:
    """A binding that cannot be."""
    message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    return failure(409, message, details={"name": name, "kind": "pods/binding"})


def too_old(asked: int, oldest: int) -> JSON:
    return failure(410, f"too old resource version: {asked} ({oldest})")


def too_large(asked: int, current: int) -> JSON:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Too large resource version: {asked}, current: {current}"
    return failure(504, message, details={"causes": [cause], "retryAfterSeconds": 1})


def invalid_options(field: str, why: str) -> JSON:
    """List options that are forbidden."""
    message = f'ListOptions.meta.k8s.io "" is invalid: {field}: Forbidden: {why}'
    cause = {"reason": "FieldValueForbidden", "message": f"Forbidden: {why}", "field": field}
    return failure(422, message, details={"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]})


def _qualified(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _details(resource: Resource, name: str) -> JSON:
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in details.items() if value}
