"""All errors of a request or a file, each with the HTTP status of its answer.

    ExtenderError
    ├── RequestError            400  the request cannot be understood; says what and where
    │   ├── VerbDisabled        404  the configuration disables this verb
    │   ├── BodyTooSlow         408  the body did not arrive in time
    │   ├── RequestTooLarge     413  the body exceeds the limits of the configuration
    │   └── UnsupportedBody     415  the body has another media type or encoding
    ├── UnknownScheduler        503  no profile of kube-scheduler's has the pod's schedulerName
    ├── PluginFailed            503  a plugin of kube-scheduler's fails for the pod, which ends its scheduling cycle
    ├── LeftToScheduler         503  a bound pod is to grow in place, or a group is scheduled: kube-scheduler decides
    ├── UnknownNode             503  a node is not in the cluster cache: no safe answer is possible
    ├── NotReady                503  the cluster cache is not synced yet, or is stale
    ├── Overloaded              503  more calls are in flight than server.maxInFlight allows
    ├── DeadlineMissed          503  the decision took so long that kube-scheduler is about to give up
    ├── CallerGone              503  the caller closed the connection before it was answered
    ├── GuardError              503  our own answer would mislead kube-scheduler: a bug, and not sent
    ├── ClusterLost             503  the cluster can never be watched like this; says what is missing
    ├── ClusterFileError        503  a cluster file cannot be read; says which object and field
    ├── RecordingError          409  calls cannot be recorded or replayed; says why
    ├── SimulationTimeout       503  a simulation took longer than its limit
    ├── ListenError             500  an address cannot be listened on; says which setting to change
    └── ConfigError             500  the configuration is invalid; says which key and line

Rule: a node that does not fit is a value (a Status), never an exception.
"""

import json

INTERNAL = "internal error; the log says more"
"""Message for every error that is not an ExtenderError: details are only in the log."""


class ExtenderError(Exception):
    """Base class; `str()` of an error is its message to the user."""

    status = 500


class RequestError(ExtenderError):
    status = 400


class VerbDisabled(RequestError):
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
    """Escape every character that could control a terminal: `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_json(value: object, *, indent: int | None = 2) -> str:
    """Return JSON in which everything but printable ASCII is escaped, so that no name can steer a terminal."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")
