"""Answered preemptions, for the tests of what is said about them."""

from dataclasses import replace

from extender.core import engine
from extender.core.eviction_history import NO_HISTORY
from extender.core.profile import UPSTREAM, PreemptionPolicy
from extender.core.record import record_preempt
from extender.server.events.notices import AnsweredPreemption, notices, rejecting_policies
from tests.builders import candidates_sent_by_kube_scheduler, snapshot, typed


def decide(nodes, preemptor, policy=None, *, history=NO_HISTORY, keep=1, **cluster):
    """The decision on what kube-scheduler sends, and the record of it."""
    profile = replace(UPSTREAM, preemption=policy or PreemptionPolicy(), keep_candidates=keep)
    state, pod = snapshot(nodes, **cluster), typed(preemptor)
    sent = candidates_sent_by_kube_scheduler(state, pod)
    decision = engine.preempt(state, pod, sent, profile, history)
    return decision, AnsweredPreemption(record_preempt(decision, sent), rejecting_policies(decision))


def answered(nodes, preemptor, policy=None, **rest):
    return decide(nodes, preemptor, policy, **rest)[1]


def reported(preemption, *, names_across_namespaces=False):
    """(reason, pod, note) of each notice."""
    found = notices(preemption, names_across_namespaces=names_across_namespaces)
    return [(one.reason, one.pod.key, one.note) for one in found]
