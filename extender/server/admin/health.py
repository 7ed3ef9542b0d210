"""Health checks and metrics: /livez, /readyz and /metrics of the admin listener.

/readyz and /metrics wait for the thread that decides; requests that wait at the same time share one result. /livez
waits for nothing, and fails if that thread is hung (`DecisionThread.is_hung`).

Rule: /livez checks only the threads: the kubelet must not restart the process for a problem that a restart cannot fix.
"""

from dataclasses import dataclass

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse

from extender.errors import ExtenderError, UnknownScheduler
from extender.report.wording import describe_source
from extender.server.admin.decision_thread import DecisionThread
from extender.server.context import ServerContext
from extender.server.http.errors import error_response
from extender.server.observability import metrics
from extender.server.observability.cache_status import check_lines
from extender.server.settings import not_evaluated_lines, scheduler_line

DRAINING = "shutting down: draining in-flight requests"


@dataclass(frozen=True, slots=True)
class HealthEndpoints:
    """The endpoints that every client may read."""

    server_context: ServerContext
    decision_thread: DecisionThread

    async def livez(self) -> Response:
        """Answer 200 at once, also during a decision; 503 if decisions can no longer be made."""
        if self.decision_thread.is_hung:
            seconds = self.decision_thread.silent_seconds
            return error_response(503, f"the thread that decides has been stuck for {seconds:.0f}s")
        return PlainTextResponse("ok")

    async def readyz(self, request: Request) -> Response:
        """Answer 200 if the process accepts calls, else 503; `?verbose` lists the checks."""
        is_verbose = "verbose" in request.query_params
        # Do not wait for a decision: endpoints should be removed at once.
        if self.server_context.lifecycle.is_draining and not is_verbose:
            return error_response(503, DRAINING)
        problem, checks = await self.decision_thread.run_shared("readyz", lambda: readiness(self.server_context))
        if is_verbose:
            conclusion = "readyz check failed" if problem else "readyz check passed"
            return PlainTextResponse("\n".join([*checks, conclusion, ""]), 503 if problem else 200)
        return error_response(503, problem) if problem else PlainTextResponse("ok")

    async def metrics(self) -> Response:
        """Return the metrics in the Prometheus text format."""
        exposition = await self.decision_thread.run_shared("metrics", self.server_context.metrics.exposition)
        return Response(exposition, media_type=metrics.CONTENT_TYPE)


def readiness(server_context: ServerContext) -> tuple[str, list[str]]:
    """Return the reason why the process is not ready, or "", and one line per check.

    It is ready unless it is shutting down, or the cluster cache is not ready although decisions need it.
    """
    cache_problem, cluster = _cluster(server_context)
    scheduler = server_context.settings.scheduler
    source = f"[+] source: {describe_source(server_context.where())}"
    checks = [source, cluster, *check_lines(server_context.source), f"[+] {scheduler_line(scheduler)}"]
    checks += [f"[!] {line}" for line in (*not_evaluated_lines(scheduler), *server_context.warnings())]
    if not_ours := server_context.metrics.nonzero("failures").get(UnknownScheduler.__name__):
        checks.append(f"[!] {not_ours} calls for pods that are not ours: no profile has their schedulerName")
    rejections = server_context.metrics.nonzero("guard_rejections")
    checks.append(f"[!] guard: rejected candidates: {rejections}" if rejections else "[+] guard: nothing rejected")
    draining = DRAINING if server_context.lifecycle.is_draining else ""
    checks.append(f"[-] {draining}" if draining else "[+] not draining")
    return draining or cache_problem, checks


def _cluster(server_context: ServerContext) -> tuple[str, str]:
    """Return the reason why the cluster cache is not ready, or "" if it is ready or not needed, and its check line."""
    try:
        snapshot = server_context.snapshot()
    except (ExtenderError, ValueError) as error:
        needed = server_context.settings.needs_cluster
        return str(error) if needed else "", f"[{'-' if needed else '!'}] cluster: {error}"
    running, budgets = len(snapshot.pod_table.row_of), len(snapshot.objects.budgets)
    counts = f"{len(snapshot.nodes)} nodes, {running} running pods, {budgets} budgets"
    return "", f"[+] cluster: version {server_context.cache.version}: {counts}"
