"""Answer `POST /simulate`, within limits per request; independent of HTTP.

A scheduling cycle takes about a millisecond, or tens of them if pods are evicted. Building the snapshot of a cluster
with 150,000 pods takes seconds; a forked child avoids that because it inherits a copy.
"""

import time

import msgspec

from extender.core.eviction_history import EvictionHistory
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.k8s.kinds import ClusterObjects
from extender.report.scheduler_report import with_source
from extender.report.schema import OBJECTS, SourceReport
from extender.report.simulation_schema import Comparison, Simulation
from extender.server.admin.fork_worker import ForkedWorker
from extender.whatif.body import decode_body
from extender.whatif.comparison import compare_policies
from extender.whatif.policies import SimulatedPolicy, StepObserver, run_simulation
from extender.whatif.scenario import Scenario
from extender.whatif.simulator import SimulationProgress

MAX_SIMULATED_PODS = 1000
"""Maximum number of pods of one request (with pending pods and replicas), of its workloads, and of its claims."""

MAX_ADDED_NODES = 1000
"""Maximum number of nodes that one request adds."""

MAX_DISPLACED_PODS = 10_000
"""Maximum number of pods on the nodes that one request removes and drains."""

MAX_DAEMON_PODS = 10_000
"""Maximum number of pods of one request's DaemonSets, if they run on every node."""

SIMULATION_TIMEOUT_SECONDS = 60.0
"""Time limit of one simulation, or of two that are compared."""


def simulate_request(
    cluster: ClusterObjects | Snapshot,
    base: KubeScheduler,
    body: bytes,
    history: EvictionHistory | None = None,
    source: SourceReport = OBJECTS,
    progress: SimulationProgress | None = None,
    *,
    is_yaml: bool = False,
) -> Simulation | Comparison:
    """Return the answer to `POST /simulate`; RequestError for an invalid body, or one that exceeds a limit.

    `cluster`: see `run_simulation`; comparing two policies on a snapshot requires os.fork: the first runs in a forked
    child. `base`: the kube-scheduler and the policies in effect. `history`: the time and the recent evictions; by
    default now, without evictions. `source`: where the cluster comes from; `progress` is kept up to date. `is_yaml`:
    the body is YAML (`whatif.body`).
    """
    scenario, policies = decode_body(body, base, is_yaml=is_yaml)
    history = history or EvictionHistory(time.time_ns())
    _check_limits(cluster, scenario)
    progress = progress or SimulationProgress()
    progress.begin(scenario, cluster, len(policies))
    *others, last = policies
    run_other = _simulate_on_copy if isinstance(cluster, Snapshot) else run_simulation
    results = [run_other(cluster, policy, scenario, history, progress.count) for policy in others]
    results.append(run_simulation(cluster, last, scenario, history, progress.count))
    results = [with_source(result, source) for result in results]
    return compare_policies(results) if others else results[0]


def _simulate_on_copy(
    snapshot: ClusterObjects | Snapshot,
    policy: SimulatedPolicy,
    scenario: Scenario,
    history: EvictionHistory,
    observer: StepObserver,
) -> Simulation:
    """Simulate on a forked child's copy of the snapshot: forking is the fastest way to copy a large one."""

    def simulated() -> Simulation | str | None:
        try:
            return run_simulation(snapshot, policy, scenario, history, observer)
        except RequestError as error:
            return str(error)
        except MemoryError:
            return None

    child = ForkedWorker.start(lambda: [msgspec.json.encode(simulated())], SIMULATION_TIMEOUT_SECONDS)
    found = msgspec.json.decode(child.wait(), type=Simulation | str | None)
    if isinstance(found, Simulation):
        return found
    raise MemoryError if found is None else RequestError(found)


def _check_limits(cluster: ClusterObjects | Snapshot, scenario: Scenario) -> None:
    """Raise RequestError if the simulation would be too large for one request."""
    nodes = len(cluster.nodes) + scenario.added
    daemon_sets = sum(one.kind == "DaemonSet" for one in scenario.workloads)
    for number, what, limit in (
        (scenario.arriving_pods(cluster), "pods", MAX_SIMULATED_PODS),
        (len(scenario.claims), "claims", MAX_SIMULATED_PODS),
        (len(scenario.workloads), "workloads", MAX_SIMULATED_PODS),
        (scenario.added, "added nodes", MAX_ADDED_NODES),
        (daemon_sets * nodes, "pods of DaemonSets", MAX_DAEMON_PODS),
        (scenario.displaced_pods(cluster), "pods on removed and drained nodes", MAX_DISPLACED_PODS),
    ):
        if number > limit:
            raise RequestError(f"{number} {what} exceed the limit of {limit} per request")
