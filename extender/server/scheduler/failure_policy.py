"""The failure rule: what is answered where nothing could be decided.

    call          not ready, unknown node, overload, too late, a mistake of ours
    /filter       503
    /prioritize   200, no scores
    /preempt      503, or 200 and nobody is evicted (preemption.onFailure)
    /bind         200 with the error

Rule: every failure is logged once and counted once, here.
"""

import logging

from extender.errors import INTERNAL, ExtenderError
from extender.server.context import ServerContext
from extender.server.http.errors import error_body
from extender.server.scheduler import passthrough
from extender.server.scheduler.result import Answer
from extender.wire import encode_bind

log = logging.getLogger(__name__)


def failure(verb: str, service: ServerContext, error: Exception) -> Answer:
    """Log the error, count it, and say what is answered."""
    note_failure(verb, service, error)
    service.metrics.told(verb, "failed")
    if verb == "bind":
        return Answer(encode_bind(said(error)))
    if verb == "prioritize":
        return Answer(passthrough.NO_SCORES)
    if verb == "preempt" and service.settings.on_preempt_failure == "Veto":
        return Answer(passthrough.VETO)
    return Answer(error_body(said(error)), 503)


def note_failure(verb: str, service: ServerContext, error: Exception) -> None:
    """Log and count it."""
    service.metrics.failed(error)
    if isinstance(error, ExtenderError):
        log.warning("%s failed: %s", verb, error)
    else:
        log.error("%s failed", verb, exc_info=error)


def said(error: Exception) -> str:
    """What users read of it."""
    return str(error) if isinstance(error, ExtenderError) else INTERNAL
