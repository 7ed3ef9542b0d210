"""Health checks and metrics: /livez, /readyz and /metrics of the admin listener.

/readyz and /metrics wait for the thread that decides; probes that wait at the same time share one answer. /livez waits
for nothing, and fails if that thread has not turned for MAX_SILENT_SECONDS.

Rule: /livez checks nothing but the threads, so that the kubelet never restarts the process for a problem that a restart
cannot fix.
"""

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse

from extender.errors import ExtenderError, UnknownScheduler
from extender.server.admin.decision_thread import DecisionThread
from extender.server.context import ServerContext
from extender.server.http.errors import error_response
from extender.server.observability import metrics
from extender.server.observability.cache_status import check_lines
from extender.server.settings import not_evaluated_lines, scheduler_line

DRAINING = "shutting down: draining in-flight requests"


async def livez(request: Request) -> Response:
    """Answer 200 at once, whatever is decided meanwhile; 503 if no decision can be made any more."""
    decision_thread: DecisionThread = request.app.state.decision_thread
    if decision_thread.is_hung:
        return error_response(503, f"the thread that decides has been stuck for {decision_thread.silent_seconds:.0f}s")
    return PlainTextResponse("ok")


async def readyz(request: Request) -> Response:
    """Answer 200 if the process accepts calls, else 503; `?verbose` lists the checks."""
    server_context: ServerContext = request.app.state.server_context
    decision_thread: DecisionThread = request.app.state.decision_thread
    if server_context.lifecycle.is_draining and "verbose" not in request.query_params:
        return error_response(503, DRAINING)
    problem, checks = await decision_thread.run_shared("readyz", lambda: readiness(server_context))
    if "verbose" in request.query_params:
        conclusion = "readyz check failed" if problem else "readyz check passed"
        return PlainTextResponse("\n".join([*checks, conclusion, ""]), 503 if problem else 200)
    return error_response(503, problem) if problem else PlainTextResponse("ok")


async def show_metrics(request: Request) -> Response:
    """Expose the metrics in the Prometheus text format."""
    server_context: ServerContext = request.app.state.server_context
    decision_thread: DecisionThread = request.app.state.decision_thread
    exposition = await decision_thread.run_shared("metrics", server_context.metrics.exposition)
    return Response(exposition, media_type=metrics.CONTENT_TYPE)


def readiness(server_context: ServerContext) -> tuple[str, list[str]]:
    """Return (reason why the process is not ready, or ""; one line per check).

    The process is ready if it is not shutting down and the cluster cache is ready, where decisions need the cache.
    """
    cache_problem, cluster = _cluster(server_context)
    draining = DRAINING if server_context.lifecycle.is_draining else ""
    checks = [cluster, *check_lines(server_context.source)]
    scheduler = server_context.settings.scheduler
    checks.append(f"[+] {scheduler_line(scheduler)}")
    checks += [f"[!] {line}" for line in not_evaluated_lines(scheduler)]
    warnings = (
        *server_context.source.warnings(),
        *server_context.live_settings.warnings(),
        *server_context.lifecycle.warnings(),
    )
    checks += [f"[!] {warning}" for warning in warnings]
    if not_ours := server_context.metrics.failures_by_reason().get(UnknownScheduler.__name__):
        checks.append(f"[!] {not_ours} calls for pods that are not ours: no profile has their schedulerName")
    rejections = server_context.metrics.guard_rejections()
    checks.append(f"[!] guard: rejected candidates: {rejections}" if rejections else "[+] guard: nothing rejected")
    checks.append(f"[-] {draining}" if draining else "[+] not draining")
    return draining or cache_problem, checks


def _cluster(server_context: ServerContext) -> tuple[str, str]:
    """Return (reason why the cluster cache is not ready, "" if it is ready or not needed; line of the check)."""
    try:
        snapshot = server_context.snapshot()
    except (ExtenderError, ValueError) as error:
        needed = server_context.settings.needs_cluster
        return str(error) if needed else "", f"[{'-' if needed else '!'}] cluster: {error}"
    running, budgets = len(snapshot.pod_table.row_of), len(snapshot.objects.budgets)
    counts = f"{len(snapshot.nodes)} nodes, {running} running pods, {budgets} budgets"
    return "", f"[+] cluster: version {server_context.cache.version}: {counts}"
