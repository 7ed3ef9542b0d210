"""POST /filter-dryrun: decide where the pod would fit if the nodes of the request were in the cluster as sent.

Cluster Autoscaler sends template nodes: nodes that a node group would add. The answer is the same as to /filter,
including pass-through answers (a pod that is not ours, kill switch, mode Observe).

Rule: a dry run has no effects and is not recorded, no call from kube-scheduler waits for more than one dry run, and
only extender_filter_dryruns_total counts dry runs.
"""

import asyncio
import logging
from dataclasses import dataclass, field

from extender.core import engine
from extender.errors import ExtenderError, LeftToScheduler, Overloaded, RequestError, UnknownScheduler
from extender.server.context import ServerContext
from extender.server.guard.guard import guard_filter
from extender.server.http.deadline import Deadline
from extender.server.observability.cache_status import cache_summary
from extender.server.scheduler.failure_policy import error_message
from extender.server.scheduler.passthrough import accept_every_node
from extender.server.scheduler.result import Answer
from extender.server.scheduler.sent_nodes import SentNodes, decode_in_steps
from extender.server.scheduler.verbs import decode_nodes
from extender.wire.decode import FilterRequest
from extender.wire.encode import encode_filter, encode_filter_error

log = logging.getLogger(__name__)

MAX_WAITING = 32
"""Maximum number of dry runs in flight; Cluster Autoscaler sends them from up to 16 threads."""


@dataclass(slots=True)
class DryRuns:
    """The dry runs of one listener, decided one after another."""

    server_context: ServerContext
    _waiting: int = 0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def answer(self, body: bytes, deadline: Deadline) -> Answer:
        """Answer a request; if the dry run fails, the answer contains the error. Raises RequestError."""
        self._waiting += 1
        try:
            if self._waiting > MAX_WAITING:
                raise Overloaded(f"more than {MAX_WAITING} dry runs in flight")
            deadline.check()
            return await self._answer(decode_nodes(self.server_context, body), deadline)
        except RequestError:
            raise
        except Exception as error:
            return self.failed(error)
        finally:
            self._waiting -= 1

    def failed(self, error: Exception) -> Answer:
        """Log the error and return it as an answer."""
        if isinstance(error, ExtenderError):
            self.server_context.log_failure(("filter-dryrun", type(error)), "%s failed: %s", "filter-dryrun", error)
        else:
            log.error("filter-dryrun failed", exc_info=error)
        return Answer(encode_filter_error(error_message(error)), "error")

    async def _answer(self, request: FilterRequest, deadline: Deadline) -> Answer:
        context, sent = self.server_context, SentNodes()
        if context.settings.kill_switch is not None or context.settings.is_observing:
            return accept_every_node(request)
        async with self._turn:
            await asyncio.sleep(0)  # lets calls from kube-scheduler go first
            for _ in decode_in_steps(request, sent):
                await asyncio.sleep(0)
            deadline.check()
            try:
                snapshot, profile, history = context.decision_inputs(request.pod, None)
            except (UnknownScheduler, LeftToScheduler):
                return accept_every_node(request)
            with snapshot.with_nodes(sent.that_differ(snapshot)):
                decision = engine.filter(snapshot, request.pod, request.nodes, profile, history)
            guard_filter(request.nodes, decision)
            status = cache_summary(context.cache, context.source)
            body = encode_filter(request, decision.accepted, decision.failed, decision.unresolvable)
            deadline.check()
        return Answer(body, "decided", not_evaluated=decision.not_evaluated, cache_status=status)
