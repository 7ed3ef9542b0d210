"""An Evaluation computes each part once, is valid until its snapshot changes, and keeps no snapshot alive."""

import gc
import weakref

import pytest

from extender.core import engine
from extender.core.evaluation import Evaluation
from extender.core.profile import Profile
from extender.core.record import record_filter, record_preempt, record_prioritize
from extender.k8s.candidates import SentCandidate
from tests.builders import incoming, node, pod, snapshot, typed

PROFILE = Profile()
NODES = {node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): []}
PARTS = (
    *("cached_verdicts", "filter", "feasible", "statuses", "scores", "eligible", "refusal", "dry_run_rows"),
    *("preemption_helps", "policies", "candidates", "ranking", "best_ties", "scheduler_decides"),
)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_computed_once(part):
    evaluation = Evaluation(snapshot(NODES), typed(incoming()), PROFILE)
    assert getattr(evaluation, part) is getattr(evaluation, part)


@pytest.mark.parametrize("part", ["filter", "scores", "policies", "feasible", "statuses"])
def test_a_part_that_is_asked_for_after_a_change_raises(part):
    here = snapshot(NODES)
    evaluation = Evaluation(here, typed(incoming()), PROFILE)
    here.put("Pod", typed(incoming("b")))
    with pytest.raises(RuntimeError, match="the snapshot has changed"):
        getattr(evaluation, part)


@pytest.mark.parametrize(
    "ask",
    [
        lambda one: one.selected,
        lambda one: one.selected_ties,
        lambda one: one.not_evaluated_on(one.rows),
        lambda one: one.policies_on(one.rows),
        lambda one: one.to_dict(),
    ],
)
def test_what_is_made_of_parts_that_were_read_raises_after_a_change_too(ask):
    here = snapshot(NODES)
    evaluation = Evaluation(here, typed(incoming()), PROFILE)
    evaluation.to_dict()
    here.put("Pod", typed(incoming("b")))
    with pytest.raises(RuntimeError, match="the snapshot has changed"):
        ask(evaluation)


def test_a_part_that_was_read_before_stays_as_it_is():
    here = snapshot(NODES)
    evaluation = Evaluation(here, typed(incoming()), PROFILE)
    feasible = evaluation.feasible.tolist()
    here.put("Pod", typed(incoming("b")))
    assert evaluation.feasible.tolist() == feasible == [here.node_row["n2"]]


def test_records_do_not_keep_the_snapshot_alive():
    here, one = snapshot(NODES), typed(incoming())
    sent = {"n1": SentCandidate(("a",))}
    records = [
        record_filter(engine.filter(here, one, ["n1", "n2"], PROFILE)),
        record_prioritize(engine.prioritize(here, one, ["n1", "n2"], PROFILE)),
        record_preempt(engine.preempt(here, one, sent, PROFILE), sent),
    ]
    held = weakref.ref(here)
    del here
    gc.collect()
    assert held() is None, f"one of {len(records)} records refers to the snapshot"
