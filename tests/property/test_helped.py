"""Where eviction would help is told to kube-scheduler without choosing victims; a dry run must agree."""

from hypothesis import given

from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.framework.status import Code
from extender.core.preemption.candidates import apply_policies, preemption_would_help
from extender.core.preemption.dry_run import dry_run_preemption
from extender.core.profile import Profile
from tests.builders import built, typed
from tests.profiles import SEEDS, examples
from tests.property.generate import case
from tests.property.policies import question

SOME = examples(10, 75, 20_000)


def says_where_a_dry_run_finds_victims(filter_run):
    rows = filter_run.rows(Code.UNSCHEDULABLE)
    run = apply_policies(dry_run_preemption(filter_run.context, filter_run.checks, rows))
    assert preemption_would_help(filter_run.context, filter_run.checks, rows).tolist() == run.candidate.tolist(), (
        "all nodes: an eviction helps elsewhere than the dry run finds"
    )
    some = rows[::2]
    assert preemption_would_help(filter_run.context, filter_run.checks, some).tolist() == run.candidate[::2].tolist(), (
        "some nodes: an eviction helps elsewhere than the dry run finds"
    )


@SOME
@given(SEEDS)
def test_eviction_helps_where_a_dry_run_finds_victims(seed):
    one = case(seed)
    says_where_a_dry_run_finds_victims(
        run_filter_plugins(scheduling_context(built(one.cluster), typed(one.pod), Profile()))
    )


@SOME
@given(SEEDS)
def test_eviction_helps_where_a_dry_run_finds_victims_that_all_policies_allow(seed):
    one = question(seed)
    snapshot = built(one.cluster)
    context = scheduling_context(snapshot, typed(one.pod), one.profile, one.history)
    says_where_a_dry_run_finds_victims(run_filter_plugins(context))
