"""Everything that can go wrong with a request or a file, each with the HTTP status it is answered with.

    ExtenderError
    ├── RequestError            400  the request cannot be understood; says what and where
    │   ├── SwitchedOff         404  the configuration does not want this
    │   ├── BodyTooSlow         408
    │   ├── RequestTooLarge     413
    │   └── UnsupportedBody     415
    ├── UnknownNode             503  a node that is not in the cluster picture: no safe answer
    ├── NotReady                503  there is no cluster picture (yet, or any more)
    ├── Overloaded              503  more calls are under way than may be (server.maxInFlight)
    ├── DeadlineMissed          503  it took so long that kube-scheduler soon gives the call up
    ├── GuardError              503  an answer of ours that would mislead the scheduler: a bug, and kept in
    ├── ClusterLost             503  there is no point in following the cluster: says what is missing
    ├── ClusterFileError        503  a cluster file cannot be read; says which object and field
    ├── RecordingError          409  calls cannot be recorded, or not be replayed; says why
    ├── TookTooLong             503  a what-if question that takes longer than people may wait
    ├── CannotListen            500  the address that people are to ask at cannot be had
    └── ConfigError             500  the configuration is wrong; says which key and line

Rule: a "no" about a node is a value (a Verdict), never an exception.
"""

INTERNAL = "internal error; the log says more"
"""What users read of anything that is not one of these."""


class ExtenderError(Exception):
    """Base of all; `str()` of it is what the user reads."""

    status = 500


class RequestError(ExtenderError):
    status = 400


class SwitchedOff(RequestError):
    status = 404


class BodyTooSlow(RequestError):
    status = 408


class RequestTooLarge(RequestError):
    status = 413


class UnsupportedBody(RequestError):
    status = 415


class UnknownNode(ExtenderError):
    status = 503


class NotReady(ExtenderError):
    status = 503


class Overloaded(ExtenderError):
    status = 503


class DeadlineMissed(ExtenderError):
    status = 503


class GuardError(ExtenderError):
    status = 503


class ClusterLost(ExtenderError):
    status = 503


class ClusterFileError(ExtenderError):
    status = 503


class RecordingError(ExtenderError):
    status = 409


class TookTooLong(ExtenderError):
    status = 503


class CannotListen(ExtenderError):
    status = 500


class ConfigError(ExtenderError):
    status = 500


def printable(text: str) -> str:
    """The text with everything that a terminal might act on spelled as an escape: `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
