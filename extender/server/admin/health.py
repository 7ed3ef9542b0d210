"""What machines ask: does the process turn, should calls be sent here, and what has been counted.

Rule: /livez asks nothing, so that nobody restarts a process for what a restart cannot mend.
"""

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse

from extender.errors import ExtenderError
from extender.server.context import ServerContext
from extender.server.http.errors import error_response
from extender.server.observability import metrics
from extender.server.observability.cache_status import check_lines

DRAINING = "draining: the process is about to end"


async def livez() -> Response:
    """Does the event loop turn? Asks nothing else."""
    return PlainTextResponse("ok")


async def readyz(request: Request) -> Response:
    """Should calls be sent here? `?verbose` lists what is checked."""
    problem, checks = readiness(request.app.state.service)
    if "verbose" in request.query_params:
        verdict = "readyz check failed" if problem else "readyz check passed"
        return PlainTextResponse("\n".join([*checks, verdict, ""]), 503 if problem else 200)
    return error_response(503, problem) if problem else PlainTextResponse("ok")


async def show_metrics(request: Request) -> Response:
    """Counters since the start, in the Prometheus text format."""
    service: ServerContext = request.app.state.service
    return Response(service.metrics.text(), media_type=metrics.CONTENT_TYPE)


def readiness(service: ServerContext) -> tuple[str, list[str]]:
    """(why not ready, or ""; one line per check).

    Ready is who is not about to end, and has a picture of the cluster to decide on if it needs one.
    """
    unpictured, cluster = _cluster(service)
    draining = DRAINING if service.lifecycle.draining else ""
    checks = [cluster, *check_lines(service.source)]
    warnings = (*service.source.warnings(), *service.configured.warnings(), *service.lifecycle.warnings())
    checks += [f"[!] {warning}" for warning in warnings]
    rejections = service.metrics.guard_rejections()
    checks.append(f"[!] guard: rejected candidates: {rejections}" if rejections else "[+] guard: nothing rejected")
    checks.append(f"[-] {draining}" if draining else "[+] not draining")
    return draining or unpictured, checks


def _cluster(service: ServerContext) -> tuple[str, str]:
    """(why there is no picture where one is needed, or ""; the line about it)."""
    try:
        snapshot = service.snapshot()
    except (ExtenderError, ValueError) as error:
        needed = service.settings.needs_picture
        return str(error) if needed else "", f"[{'-' if needed else '!'}] cluster: {error}"
    counts = (
        f"{len(snapshot.nodes)} nodes, {len(snapshot.running.row_of)} running pods, {len(snapshot.budgets)} budgets"
    )
    return "", f"[+] cluster: version {service.cache.version}: {counts}"
