"""The rings of decisions, and how the service fills them: what is kept, for how long, and how it is found again."""

import enum
import json
import logging
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from types import FunctionType

import msgspec
import numpy as np
import pytest

from extender.config import Configuration
from extender.core import engine
from extender.core.eviction_history import Eviction, EvictionHistory
from extender.core.profile import Profile
from extender.core.record import (
    DecisionRecord,
    PreemptRecord,
    RecordedPod,
    record_filter,
    record_preempt,
    record_prioritize,
)
from extender.errors import RequestError
from extender.k8s.candidates import SentCandidate
from extender.k8s.kinds import ClusterObjects
from extender.k8s.time import SECOND
from extender.report.schema import DecisionReport
from extender.server.context import ServerContext
from extender.server.observability.decision_log import DecisionLog, DecisionQuery, KeptDecision
from extender.server.scheduler.verbs import VERBS, answer
from extender.server.settings import LiveSettings
from extender.utilities.time_share import TimeShare
from tests.builders import built, cluster, incoming, node, pod, typed
from tests.server.conftest import CLUSTER, INCOMING, URGENT, configuration, filled_cache, filter_body, preempt_body

PLENTY = 1 << 30


def filtered(number: int, at: int = 0, name: str = "incoming", nodes: tuple[str, ...] = ("n1",)) -> KeptDecision:
    snapshot, wanted = built(cluster({node(one): [] for one in nodes})), typed(incoming(name))
    record = record_filter(engine.filter(snapshot, wanted, nodes, Profile()))
    return KeptDecision(f"filter-{number}", at, 1.0, RecordedPod.of(wanted), Profile(), "answered", "", record)


def preempted(number: int, at: int = 0, name: str = "incoming", victim: str = "victim") -> KeptDecision:
    snapshot, wanted = built(cluster({node("n1", cpu="1"): [pod(victim)]})), typed(incoming(name))
    sent = {"n1": SentCandidate((f"uid-{victim}",))}
    record = record_preempt(engine.preempt(snapshot, wanted, sent, Profile()), sent)
    return KeptDecision(f"preempt-{number}", at, 1.0, RecordedPod.of(wanted), Profile(), "answered", "", record)


def ring(*kept: KeptDecision, most: int = 100, most_bytes: int = PLENTY) -> DecisionLog:
    found = DecisionLog(most, most_bytes)
    for one in kept:
        found.keep(one)
    return found


def ids(decisions: DecisionLog, **query) -> list[str]:
    return [one.id for one in DecisionQuery(**query).select(decisions.newest_first())[0]]


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_of_each_verb_so_many_are_kept_and_the_oldest_goes():
    """A flood of filters does not push out the preemption."""
    decisions = ring(preempted(1), *(filtered(number, at=number) for number in range(1, 8)), most=3)
    assert ids(decisions) == ["filter-7", "filter-6", "filter-5", "preempt-1"]
    assert decisions.get("filter-4") is None
    assert decisions.get("preempt-1") is not None


def test_of_the_verb_that_takes_most_the_oldest_goes_when_all_take_too_much():
    """There is room for the preemption and two filters of the four."""
    first, *others = (filtered(number, at=number) for number in range(1, 5))
    decisions = ring(preempted(1, at=9), first, *others, most_bytes=preempted(1).size + 2 * first.size)
    assert ids(decisions) == ["preempt-1", "filter-4", "filter-3"]


def test_one_decision_that_is_too_large_is_not_kept_and_takes_no_other_with_it():
    """A decision about 200 nodes; there is room for two of one node each."""
    small, large = filtered(1), preempted_on_many(400)
    decisions = ring(small, large, filtered(2, at=1), most_bytes=3 * small.size)
    assert large.size > 3 * small.size
    assert ids(decisions) == ["filter-2", "filter-1"]


def preempted_on_many(count: int) -> KeptDecision:
    names = [f"n{place}" for place in range(count)]
    snapshot = built(cluster({node(name, cpu="1"): [pod(f"{name}-a")] for name in names}))
    wanted, sent = typed(incoming()), dict.fromkeys(names, SentCandidate(()))
    record = record_preempt(engine.preempt(snapshot, wanted, sent, Profile()), sent)
    return KeptDecision("preempt-1", 0, 1.0, RecordedPod.of(wanted), Profile(), "answered", "", record)


# --- what a decision holds itself -------------------------------------------------------------------------------------


def deep_size(root: object, without: frozenset[int]) -> int:
    """The memory of everything that is reached from there, but for what is reached through the ids `without`."""
    seen, waiting, total = set(without), [root], 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen or one is None or isinstance(one, (type, FunctionType, bool, enum.Enum)):
            continue
        seen.add(id(one))
        total += -(-sys.getsizeof(one) // 16) * 16
        if isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple, set, frozenset)):
            waiting += one
        elif isinstance(one, msgspec.Struct):
            waiting += [getattr(one, name) for name in one.__struct_fields__]
        elif isinstance(one, np.ndarray):
            waiting += [one.base] if one.base is not None else []
        else:
            waiting += vars(one).values() if hasattr(one, "__dict__") else ()
            slots = (name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()))
            waiting += [getattr(one, name) for name in slots if hasattr(one, name) and name != "__weakref__"]
    return total


HOSTILE = {
    "a usual pod": {},
    "tolerations": {"tolerations": [{"key": f"k{number}"} for number in range(20_000)]},
    "volumes without a field": {"volumes": [{"name": ""}] * 20_000},
    "terms": {
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {f"a{n}": "x"}}},
                    }
                    for n in range(2000)
                ]
            }
        }
    },
    "resources that no node has": {
        "containers": [{"resources": {"requests": {f"example.com/r{number}": "1" for number in range(2000)}}}]
    },
}


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in HOSTILE.items()])
def test_H4_the_size_of_a_kept_decision_is_its_memory(verb, spec):
    """Between nine tenths of it and three times; without what all decisions share."""
    names = [f"n{number}" for number in range(50)]
    snapshot = built(cluster({node(name, cpu="1"): [pod(f"{name}-a")] for name in names}))
    pending = incoming()
    wanted = typed({**pending, "spec": {**pending["spec"], **spec}})
    record: DecisionRecord
    if verb == "preempt":
        sent = dict.fromkeys([*names, "x" * 100_000], SentCandidate(()))
        record = record_preempt(engine.preempt(snapshot, wanted, sent, Profile()), sent)
    else:
        record = (
            record_filter(engine.filter(snapshot, wanted, names, Profile()))
            if verb == "filter"
            else record_prioritize(engine.prioritize(snapshot, wanted, names, Profile()))
        )
    kept = KeptDecision(f"{verb}-1", 0, 1.0, record.request.pod, Profile(), "answered", "", record)
    # Objects of the cluster cache, and what all records share.
    aside = {id(record.request.context.profile), id(record.request.context.snapshot), id(kept.profile)}
    aside |= {id(kept.scheduler), id(snapshot.frozen_node_names), id(snapshot.frozen_allocatable)}
    if isinstance(record, PreemptRecord) and record.dry_run is not None:
        aside |= set(map(id, record.dry_run.pods_on_node)) | {id(record.dry_run.budgets), id(record.dry_run.allowed)}
        aside |= {id(one) for on in record.dry_run.pods_on_node for one in on.pods}
    _ = kept.size
    memory = deep_size(kept, frozenset(aside))
    assert 0.9 * memory < kept.size < 3 * memory + 4000


def test_H4_a_decision_that_is_too_large_is_kept_without_its_details():
    log, wanted = DecisionLog(10, 16 << 20), typed(incoming())
    huge = msgspec.structs.replace(wanted, spec=msgspec.structs.replace(wanted.spec, scheduler_name="x" * (3 << 20)))
    record = record_filter(engine.filter(built(cluster({node("n1"): []})), huge, ["n1"], Profile()))
    log.keep(KeptDecision("filter-1", 0, 1.0, record.request.pod, Profile(), "answered", "", record))
    (one,) = log.newest_first()
    found = one.decision()
    assert one.size < 10_000
    assert (found.outcome, found.sentence, found.nodes) == ("answered", "default/incoming fits on n1", [])
    assert found.error is not None
    assert re.fullmatch(r"the details are not kept: they take \d+ KiB, too much of debug.decisionsSize", found.error)
    assert log.stripped == 1


def test_L3_what_a_moment_remembers_counts():
    one = filtered(1)
    assert one.record is not None
    evictions = tuple(Eviction(ago, ("default", "Job", "sort")) for ago in range(1000))
    context_then = replace(one.record.request.context, history=EvictionHistory(0, evictions))
    record = replace(one.record, request=replace(one.record.request, context=context_then))
    assert replace(one, record=record).size - one.size >= 100 * len(evictions)


def test_without_room_nothing_is_kept():
    assert not DecisionLog(0, PLENTY).is_enabled
    assert ids(ring(filtered(1), most_bytes=10)) == []


def test_numbers_go_on_where_decisions_have_gone():
    decisions = DecisionLog(1, PLENTY)
    assert [decisions.next_id(verb) for verb in ("filter", "filter", "preempt", "filter")] == [
        "filter-1",
        "filter-2",
        "preempt-1",
        "filter-3",
    ]


def test_ids_that_were_never_given_are_not_found():
    decisions = ring(filtered(1))
    assert [decisions.get(one) for one in ("filter-2", "filter", "bind-1", "", "preempt-1")] == [None] * 5


# --- queries ----------------------------------------------------------------------------------------------------------

BUSY = ring(
    filtered(1, at=10, name="web", nodes=("n1", "n2")),
    preempted(1, at=20, name="web", victim="old"),
    filtered(2, at=30, name="db", nodes=("n3",)),
    preempted(2, at=40, name="db", victim="web"),
)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param({}, ["preempt-2", "filter-2", "preempt-1", "filter-1"], id="1: all, the latest first"),
        pytest.param({"limit": 2}, ["preempt-2", "filter-2"], id="2: the latest few"),
        pytest.param({"verb": "filter"}, ["filter-2", "filter-1"], id="3: of a verb"),
        pytest.param({"verb": "bind"}, [], id="4: of a verb that decides nothing"),
        pytest.param({"pod": "web"}, ["preempt-2", "preempt-1", "filter-1"], id="5: by name, also of a victim"),
        pytest.param({"pod": "default/web"}, ["preempt-2", "preempt-1", "filter-1"], id="6: with its namespace"),
        pytest.param({"pod": "uid-old"}, ["preempt-1"], id="7: by UID"),
        pytest.param({"pod": "shop/web"}, [], id="8: of another namespace"),
        pytest.param({"pod": "we"}, [], id="9: not by a part of the name"),
        pytest.param({"node": "n1"}, ["preempt-2", "preempt-1", "filter-1"], id="10: that speak of a node"),
        pytest.param({"node": "n2"}, ["filter-1"], id="11: of another node"),
        pytest.param({"since": 20, "until": 30}, ["filter-2", "preempt-1"], id="12: of a time, both ends included"),
        pytest.param({"pod": "web", "verb": "preempt", "limit": 1}, ["preempt-2"], id="13: all together"),
    ],
)
def test_decisions_are_found_by(query, found):
    assert ids(BUSY, **query) == found


def test_of_one_moment_the_later_one_comes_first():
    assert ids(ring(filtered(1), filtered(2), filtered(3))) == ["filter-3", "filter-2", "filter-1"]


def test_the_time_is_shown_in_milliseconds():
    assert filtered(1, at=1_767_225_600 * SECOND + 7_999_999).summary.time == "2026-01-01T00:00:00.007Z"


# --- the service fills them -------------------------------------------------------------------------------------------


def service(**sections) -> ServerContext:
    return ServerContext(
        filled_cache(CLUSTER), LiveSettings(configuration(**sections)), decisions=DecisionLog(100, PLENTY)
    )


def request(verb: str, body: bytes, history: EvictionHistory | None = None, **sections) -> DecisionReport:
    """What is kept of one call."""
    running = service(**sections)
    answer(VERBS[verb], running, body, history)
    (one,) = running.decisions.newest_first()
    return one.decision()


def test_a_call_that_is_answered_is_kept_as_it_was_answered():
    running = service()
    answered = answer(VERBS["preempt"], running, preempt_body())
    (one,) = running.decisions.newest_first()
    found = one.decision()
    (chosen,) = json.loads(answered.body)["NodeNameToMetaVictims"]
    assert (found.id, found.verb, found.outcome, found.chosen) == ("preempt-1", "preempt", "answered", [chosen])
    assert (found.pod, found.uid, found.priority) == ("shop/urgent", "uid-urgent", 100)
    assert found.cache.startswith("version=")
    assert found.milliseconds > 0


def test_assumed_evictions_do_not_change_a_kept_decision():
    """The cluster cache changes as soon as the answer is sent."""
    found = request("preempt", preempt_body())
    assert [pod.terminating for shown in found.nodes for pod in shown.pods if pod.role == "victim"] == [False, False]


def test_a_filter_that_rejects_nodes_is_kept_with_facts_of_the_cluster_as_it_was():
    running = service()
    answer(VERBS["filter"], running, filter_body(["worker-1"], URGENT))
    (one,) = running.decisions.newest_first()
    running.cache.replace(ClusterObjects())
    found = one.decision()
    assert found.nodes[0].fact_sentences == ["requests 4 cpu, 3 of 4 free; most free in the cluster: 4 on worker-3"]
    assert found.sentence == (
        "shop/urgent does not fit on worker-1: Insufficient cpu (requests 4 cpu, 3 of 4 free on worker-1)"
    )


def test_facts_take_a_share_of_the_time():
    """A service that rejects pods all the time stays as fast as without facts."""
    running = service()
    running.decisions.time_for_facts = TimeShare(0, 0)
    answer(VERBS["filter"], running, filter_body(["worker-1"], URGENT))
    (one,) = running.decisions.newest_first()
    assert one.decision().nodes[0].facts == []
    assert one.decision().sentence == "shop/urgent does not fit on worker-1: Insufficient cpu"


def test_the_moment_of_the_decision_is_its_time():
    assert request("filter", filter_body(), EvictionHistory(5 * SECOND)).time == "1970-01-01T00:00:05.000Z"


def test_a_preemption_without_victims_says_so():
    found = request("preempt", preempt_body(incoming=INCOMING, **{"worker-3": []}))
    assert (found.outcome, found.chosen) == ("noVictims", [])
    assert found.sentence.startswith("evicts no pod for shop/incoming: ")


def test_a_preemption_that_may_not_be_says_so():
    never = {**URGENT, "spec": URGENT["spec"] | {"preemptionPolicy": "Never"}}
    found = request("preempt", preempt_body(incoming=never))
    assert (found.outcome, found.sentence) == (
        "vetoed",
        "evicts no pod for shop/urgent: not eligible due to preemptionPolicy=Never.",
    )
    assert {shown.outcome for shown in found.nodes} == {"vetoed"}


def test_an_observed_decision_is_kept():
    found = request("preempt", preempt_body(), mode="Observe")
    assert (found.outcome, len(found.chosen)) == ("observed", 1)
    assert found.sentence.startswith("would evict shop/small from worker-1 for shop/urgent: ")
    assert found.nodes


def test_with_the_kill_switch_nothing_was_decided():
    found = request("preempt", preempt_body(), killSwitch={"enabled": True})
    assert (found.outcome, found.nodes, found.error) == ("passthrough", [], None)
    assert found.sentence == "no decision for shop/urgent: the kill switch is on"
    assert (found.incoming.key, found.filters) == ("shop/urgent", [])


def test_a_decision_that_could_not_be_made_says_why():
    found = request("filter", filter_body(nodes=["nowhere"]))
    assert (found.outcome, found.nodes) == ("failed", [])
    assert found.error == "1 of 1 nodes are not in the cluster cache"
    assert found.sentence == f"no decision for shop/incoming: {found.error}"


def test_a_failure_of_what_is_only_observed_is_kept_as_a_failure():
    assert request("filter", filter_body(nodes=["nowhere"]), mode="Observe").outcome == "failed"


def test_every_kept_decision_can_be_written_and_read():
    for verb, body in (("filter", filter_body()), ("preempt", preempt_body())):
        found = request(verb, body)
        assert msgspec.json.decode(msgspec.json.encode(found), type=DecisionReport) == found


def test_a_body_that_cannot_be_read_is_no_decision():
    running = service()
    with pytest.raises(RequestError):
        answer(VERBS["filter"], running, b"{")
    assert running.decisions.newest_first() == []


def test_without_rings_the_answer_is_the_same():
    running = ServerContext(filled_cache(CLUSTER), LiveSettings(Configuration()))
    assert answer(VERBS["filter"], running, filter_body()) == answer(VERBS["filter"], service(), filter_body())
    assert running.decisions.newest_first() == []


def test_a_decision_that_cannot_be_kept_does_not_cost_the_answer(caplog):
    class Full(DecisionLog):
        def keep(self, kept):
            raise MemoryError

    running = replace(service(), decisions=Full(1, PLENTY))
    with caplog.at_level(logging.ERROR):
        assert answer(VERBS["filter"], running, filter_body()).status == 200
    assert "failed to store the decision" in caplog.text


# --- rendered on another thread -------------------------------------------------------------------------------------


def test_a_decision_may_be_rendered_on_other_threads_during_decisions():
    """Every thread renders the same decision, whatever happens to the cluster cache."""
    running = service()
    answer(VERBS["preempt"], running, preempt_body())
    (one,) = running.decisions.newest_first()
    expected = msgspec.json.encode(one.decision())
    rendered: list[bytes] = []
    threads = [threading.Thread(target=lambda: rendered.extend(encoded(one) for _ in range(20))) for _ in range(3)]
    for thread in threads:
        thread.start()
    snapshot = running.cache.mutable_snapshot()
    for key, gone in list(snapshot.objects.pods.items()):
        snapshot.remove("Pod", key)
        snapshot.refresh_layout()
        answer(VERBS["filter"], running, filter_body())
        snapshot.put("Pod", gone)
        snapshot.refresh_layout()
    for thread in threads:
        thread.join()
    assert set(rendered) == {expected}
    assert len(rendered) == 60


def encoded(one: KeptDecision) -> bytes:
    return msgspec.json.encode(one.decision())


def test_the_names_of_many_nodes_are_not_kept_twice():
    """A set of them for each of a thousand decisions would be more than all that is kept of these."""
    snapshot, wanted = built(cluster({node(one): [] for one in ("n1", "n2")})), typed(incoming())
    first, second = (record_filter(engine.filter(snapshot, wanted, ("n2", "n1"), Profile())) for _ in range(2))
    assert first.names == ("n2", "n1")
    assert first.node_names is second.node_names
    kept = KeptDecision("filter-1", 0, 1.0, RecordedPod.of(wanted), Profile(), "answered", "", first)
    assert kept.nodes == ("n2", "n1")
