"""Reports about the cluster: its nodes, and why a pod is pending or where it is.

Rule: what nodes have is read between two decisions and rendered on another thread; what evaluates pods runs on a
copy of the snapshot (`SnapshotCopies`).
"""

from collections.abc import Callable
from typing import get_args

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from extender.errors import NotFound
from extender.report.diagnose import diagnose, not_found
from extender.report.facts.wording import describe_fact
from extender.report.lists.node_schema import NodeDetail, NodeSort
from extender.report.lists.nodes import NodeColumns, node_reporter
from extender.report.lists.page_schema import ExplainedPod
from extender.report.scheduler_report import with_source
from extender.server.admin.decision_thread import DecisionThread
from extender.server.admin.in_flight_limit import InFlightLimit, unless_gone
from extender.server.admin.snapshot_copy import SnapshotCopies
from extender.server.context import ServerContext, WorkInputs
from extender.server.http.query import check_parameters, choice, number
from extender.server.http.response import json_response
from extender.utilities.text import suggestion

MAX_LISTED_NODES = 1000
"""Limit of the nodes in one response of GET /nodes."""

MAX_REPORTS = 4
"""Maximum number of GET /why in flight: one that runs, and the others that wait."""


class ClusterReports:
    """The endpoints that show nodes and pods of the cluster cache."""

    def __init__(self, server_context: ServerContext, decision_thread: DecisionThread, copies: SnapshotCopies) -> None:
        self._server_context, self._decision_thread, self._copies = server_context, decision_thread, copies
        self._in_flight = InFlightLimit(MAX_REPORTS, "reports")

    async def list_nodes(self, request: Request) -> Response:
        """List nodes: requested and free resources, taints; `?text=&sort=&offset=&limit=`."""
        given = request.query_params
        check_parameters(given, ("text", "sort", "offset", "limit"))
        sort: NodeSort = choice(given, "sort", get_args(NodeSort)) or "name"
        offset, limit = number(given, "offset", 0, 0, 10**8), number(given, "limit", 50, 1, MAX_LISTED_NODES)
        columns = await self._decision_thread.run(lambda: NodeColumns.of(self._server_context.snapshot()))
        return await run_in_threadpool(
            lambda: json_response(columns.select(given.get("text", ""), sort, offset, limit))
        )

    async def show_node(self, request: Request) -> Response:
        """Return one node with its labels and pods."""
        name = request.path_params["name"]

        def read() -> tuple[Callable[[], NodeDetail] | None, tuple[str, ...]]:
            snapshot = self._server_context.snapshot()
            return node_reporter(snapshot, name), snapshot.frozen_node_names

        report, names = await self._decision_thread.run(read)
        if report is None:
            nearest = await run_in_threadpool(suggestion, name, names)
            raise NotFound(f"the cluster has no node {name!r}{nearest}")
        return await run_in_threadpool(lambda: json_response(report()))

    async def why(self, request: Request) -> Response:
        """Explain one pod on all nodes, with the diagnosis of `extender why`; `?node=NAME` shows that node in full."""
        check_parameters(request.query_params, ("node",))
        key = request.path_params["namespace"], request.path_params["name"]
        node = request.query_params.get("node")

        def explain(inputs: WorkInputs) -> ExplainedPod:
            snapshot, scheduler = inputs.snapshot(), inputs.scheduler
            pod = snapshot.objects.pods.get(key)
            if pod is None:
                raise NotFound(not_found(snapshot, *key, scheduler).why)
            found = with_source(diagnose(snapshot, pod, scheduler, inputs.history, node), inputs.source)
            facts = {one.name: [describe_fact(fact) for fact in one.facts] for one in found.nodes if one.facts}
            return ExplainedPod(diagnosis=found, fact_sentences=facts)

        with self._in_flight.track():
            return await unless_gone(request, self._copies.run(explain))
