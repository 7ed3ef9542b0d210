"""All errors of a request or a file, each with the HTTP status of its response.

    ExtenderError
    ├── RequestError            400  the request is malformed; the message has place and reason
    │   ├── VerbDisabled        404  the verb is disabled by the configuration
    │   ├── NotFound            404  the cluster has no such pod or node
    │   ├── BodyTooSlow         408  the body did not arrive in time
    │   ├── RequestTooLarge     413  the body exceeds the configured limits
    │   └── UnsupportedBody     415  the body has an unsupported media type or encoding
    ├── UnknownScheduler        503  no profile of kube-scheduler has the pod's schedulerName
    ├── PluginFailed            503  a kube-scheduler plugin fails for the pod, which ends its scheduling cycle
    ├── LeftToScheduler         503  the pod is being resized, or in a group: the decision is left to kube-scheduler
    ├── UnknownNode             503  a node is not in the cluster cache: no safe answer is possible
    ├── NotReady                503  the cluster cache is not synced yet, or is stale
    ├── Overloaded              503  more calls are in flight than server.maxInFlight allows
    ├── DeadlineMissed          503  the decision took nearly as long as kube-scheduler waits
    ├── CallerGone              503  the caller closed the connection before the response
    ├── GuardError              503  our own answer would mislead kube-scheduler: a bug, so it is not sent
    ├── ClusterLost             503  the cluster cannot be watched with these settings; the message has the reason
    ├── ClusterFileError        503  a cluster file is invalid; the message has object and field
    ├── RecordingError          409  calls cannot be recorded or replayed; the message has the reason
    ├── SimulationTimeout       503  a simulation or report exceeded its time limit
    ├── ListenError             500  the server cannot listen on an address; the message has the setting to change
    └── ConfigError             500  the configuration is invalid; the message has key and line

Rule: a node that does not fit is a value (a Status), never an exception.
"""

import json

INTERNAL = "internal error; the log says more"
"""Message for every error that is not an ExtenderError; only the log has the details."""


class ExtenderError(Exception):
    """Base class; `str(error)` is the message for the user."""

    status = 500


class RequestError(ExtenderError):
    status = 400


class VerbDisabled(RequestError):
    status = 404


class NotFound(RequestError):
    status = 404


class BodyTooSlow(RequestError):
    status = 408


class RequestTooLarge(RequestError):
    status = 413


class UnsupportedBody(RequestError):
    status = 415


class UnknownScheduler(ExtenderError):
    status = 503


class PluginFailed(ExtenderError):
    status = 503


class LeftToScheduler(ExtenderError):
    status = 503


class UnknownNode(ExtenderError):
    status = 503


class NotReady(ExtenderError):
    status = 503


class Overloaded(ExtenderError):
    status = 503


class DeadlineMissed(ExtenderError):
    status = 503


class CallerGone(ExtenderError):
    status = 503


class GuardError(ExtenderError):
    status = 503


class ClusterLost(ExtenderError):
    status = 503


class ClusterFileError(ExtenderError):
    status = 503


class RecordingError(ExtenderError):
    status = 409


class SimulationTimeout(ExtenderError):
    status = 503


class ListenError(ExtenderError):
    status = 500


class ConfigError(ExtenderError):
    status = 500


def printable(text: str) -> str:
    """Escape characters that could control a terminal: `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_json(value: object, *, indent: int | None = 2) -> str:
    """Return JSON with everything but printable ASCII escaped, so that no name can control a terminal."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")
