"""The failure policy: the answer to a call that could not be decided.

    call          cache not ready, unknown node, overload, deadline exceeded, internal error
    /filter       503
    /prioritize   200, no scores
    /preempt      503, or 200 with no victims (preemption.onFailure: Error | Veto)
    /bind         200 with the error

A pod whose schedulerName no profile has is not ours: /filter accepts every node and /prioritize scores none. A bound
pod that waits for room to grow in place is passed through by all three.

Rule: every failure is counted once, here. Of failures of one verb for the same reason, at most one line per 10 s is
logged; a bug is logged each time.
"""

import logging

from extender.errors import INTERNAL, ExtenderError, LeftToScheduler
from extender.k8s.objects import Pod
from extender.server.context import ServerContext
from extender.server.http.errors import error_body
from extender.server.scheduler import passthrough
from extender.server.scheduler.result import Answer
from extender.wire.encode import encode_bind

log = logging.getLogger(__name__)


def failure_answer(verb: str, server_context: ServerContext, error: Exception) -> Answer:
    """Log and count the error, and return the answer of the verb's failure policy."""
    record_failure(verb, server_context, error)
    server_context.metrics.count("answers", verb, "failed")
    if verb == "bind":
        return Answer(encode_bind(error_message(error)), "error")
    if verb == "prioritize":
        return passthrough.NO_SCORES
    if verb == "preempt" and server_context.settings.on_preempt_failure == "Veto":
        return passthrough.NO_VICTIMS
    return Answer(error_body(error_message(error)), "error", 503)


def pass_through(verb: str, server_context: ServerContext, request: object, error: Exception) -> Answer:
    """Log a pod that is not judged here, count it unless it waits for a resize, and return the pass-through answer."""
    server_context.log_failure((verb, type(error)), "%s passed through: %s", verb, error)
    if not isinstance(error, LeftToScheduler):
        server_context.metrics.count_failure(error)
    server_context.metrics.count("answers", verb, "passthrough")
    return passthrough.ANSWERS[verb](request)


def record_failure(verb: str, server_context: ServerContext, error: Exception) -> None:
    """Count the error in `extender_failures_total`, and log it unless the same has just been logged."""
    server_context.metrics.count_failure(error)
    if isinstance(error, ExtenderError):
        server_context.log_failure((verb, type(error)), "%s failed: %s", verb, error)
    else:
        log.error("%s failed", verb, exc_info=error)


def record_not_evaluated(verb: str, server_context: ServerContext, pod: Pod, plugins: tuple[str, ...]) -> None:
    """Count the plugins that a decision leaves to kube-scheduler, once per call and in every mode, and log them.

    Those that the profile leaves to it for every pod are logged at the start only.
    """
    server_context.metrics.count_not_evaluated(plugins)
    profile = server_context.settings.scheduler.profile_of(pod)
    known = profile.not_evaluated_plugins if profile is not None else ()
    if names := ", ".join(plugin for plugin in plugins if plugin not in known):
        log.info("%s %r: not evaluated, left to kube-scheduler: %s", verb, pod.key, names)


def error_message(error: Exception) -> str:
    """Return the text that clients see; internal errors are not disclosed."""
    return str(error) if isinstance(error, ExtenderError) else INTERNAL
