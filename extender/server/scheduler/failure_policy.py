"""The failure policy: the answer to a call for which no decision could be made.

    call          cache not ready, unknown node, overload, deadline exceeded, internal error
    /filter       503
    /prioritize   200, no scores
    /preempt      503, or 200 with no victims (preemption.onFailure: Error | Veto)
    /bind         200 with the error

A pod whose schedulerName matches no profile is not ours: /filter accepts every node and /prioritize scores none. For a
bound pod that waits for an in-place resize, all three verbs pass through, and in mode Observe every failed call does.

Rule: every failure is counted once, here. Failures of one verb for the same reason are logged at most once per 10 s; a
bug is logged each time.
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
    """Pass the call through and log it; count it as a failure unless the pod waits for an in-place resize."""
    server_context.log_failure((verb, type(error)), "%s passed through: %s", verb, error)
    if not isinstance(error, LeftToScheduler):
        server_context.metrics.count_failure(error)
    server_context.metrics.count("answers", verb, "passthrough")
    return passthrough.ANSWERS[verb](request)


def record_failure(verb: str, server_context: ServerContext, error: Exception) -> None:
    """Count the error in `extender_failures_total`, and log it; a repeated ExtenderError is throttled."""
    server_context.metrics.count_failure(error)
    if isinstance(error, ExtenderError):
        server_context.log_failure((verb, type(error)), "%s failed: %s", verb, error)
    else:
        log.error("%s failed", verb, exc_info=error)


def record_not_evaluated(
    verb: str, server_context: ServerContext, pod: Pod, plugins: tuple[str, ...], counted: set[str]
) -> None:
    """Count and log the plugins that a decision leaves to kube-scheduler, in every mode.

    `counted`: plugins already counted for this call, which may make several decisions.
    """
    plugins = tuple(plugin for plugin in plugins if plugin not in counted)
    if not plugins:
        return
    counted.update(plugins)
    server_context.metrics.count_not_evaluated(plugins)
    # Plugins of the profile that are never evaluated were logged at startup.
    profile = server_context.settings.scheduler.profile_of(pod)
    known = profile.not_evaluated_plugins if profile is not None else ()
    if names := ", ".join(plugin for plugin in plugins if plugin not in known):
        log.info("%s %r: not evaluated, left to kube-scheduler: %s", verb, pod.key, names)


def error_message(error: Exception) -> str:
    """Return the error text for clients, which does not disclose internal errors."""
    return str(error) if isinstance(error, ExtenderError) else INTERNAL
