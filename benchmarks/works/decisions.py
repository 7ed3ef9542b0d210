"""The engine's steps on every node: running the filter plugins, and the dry run of preemption with its ranking.

Each step runs both with warm caches and after a change of a pod, which invalidates the values cached for the
cluster's pods.
"""

from functools import partial

from benchmarks.measure import Work, nothing
from benchmarks.works import Maker
from benchmarks.world import World, change_a_pod
from extender.core.framework.filter import FilterRun, run_filter_plugins, scheduling_context
from extender.core.framework.status import Code
from extender.core.preemption.criteria import best_candidates
from extender.core.preemption.dry_run import dry_run_preemption
from extender.core.profile import Profile
from extender.k8s.objects import Pod

CHANGED = ", after a pod changed"


def filter_all(world: World, pod: Pod) -> FilterRun:
    return run_filter_plugins(scheduling_context(world.snapshot, pod, Profile()))


def filtering(world: World, mixed: bool, changed: bool) -> Work:
    """Run the filter plugins, which give a status code for every node."""
    pod = world.spreading if mixed else world.pod
    return Work(lambda: filter_all(world, pod), partial(change_a_pod, world.snapshot) if changed else nothing)


def preempting(world: World, mixed: bool, changed: bool) -> Work:
    """Dry run on all nodes, PDB violations, the best node and its victims; filter results are computed beforehand."""
    pod = world.spreading if mixed else world.pod
    ready: list[FilterRun] = []

    def prepare() -> None:
        if changed:
            change_a_pod(world.snapshot)
        ready[:] = [filter_all(world, pod)]

    def run() -> tuple[Pod, ...]:
        (filter_run,) = ready
        run = dry_run_preemption(filter_run.context, filter_run.checks, filter_run.rows(Code.UNSCHEDULABLE))
        (best,) = best_candidates(run, 1).tolist()
        return run.victims_on(best)

    return Work(run, prepare)


WORKS: dict[str, Maker] = {
    f"{what}, {kind}{when}": partial(work, mixed=kind == "mixed", changed=bool(when))
    for what, work in (("filter", filtering), ("dry run and ranking", preempting))
    for kind in ("resources", "mixed")
    for when in ("", CHANGED)
}
