"""Which pods ceased to hold room shortly ago, as the cache notices it from what the API server says."""

import pytest

from extender.cluster.cache.cache import Change, ClusterCache
from extender.cluster.cache.recent_deletions import MAX_RECENT_DELETIONS, RECENT_SECONDS, RecentDeletions
from extender.k8s.kinds import ClusterObjects
from tests.builders import pod, typed
from tests.fakes.clock import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(clock):
    cache = ClusterCache(clock)
    cache.replace(ClusterObjects(pods=(placed("a"), placed("b"))))
    return cache


def placed(name, version="1", *, metadata=None, **rest):
    return typed(pod(name, nodeName="n1", metadata={"resourceVersion": version, **(metadata or {})}, **rest))


def recent(cache):
    return cache.recent_deletions.on_nodes({"n1"})


def test_nothing_was_deleted_at_first(cache):
    assert recent(cache) == {}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            Change("Pod", placed("a", "2", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})), id="terminates"
        ),
        pytest.param(Change("Pod", placed("a", "2", status={"phase": "Succeeded"})), id="has finished"),
        pytest.param(Change("Pod", placed("a", "2"), deleted=True), id="is gone"),
        pytest.param(Change("Pod", placed("a", "2", metadata={"uid": "another"})), id="was replaced by its namesake"),
    ],
)
def test_a_pod_that_holds_no_room_any_more_is_remembered(cache, change):
    cache.apply(change)
    assert recent(cache) == {"uid-a": "n1"}
    assert cache.recent_deletions.on_nodes({"n2"}) == {}


def test_a_pod_that_goes_on_running_is_not(cache):
    cache.apply(Change("Pod", placed("a", "2", metadata={"labels": {"x": "y"}})))
    cache.apply(Change("Pod", typed(pod("waits", metadata={"resourceVersion": "2"}))))
    assert recent(cache) == {}


def test_it_is_noted_once_when_it_begins(cache, clock):
    cache.apply(Change("Pod", placed("a", "2", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})))
    clock.now += RECENT_SECONDS + 1
    cache.apply(Change("Pod", placed("a", "3"), deleted=True))
    assert recent(cache) == {}


def test_it_is_forgotten_after_a_while(cache, clock):
    cache.apply(Change("Pod", placed("a", "2"), deleted=True))
    clock.now += RECENT_SECONDS
    assert recent(cache) == {"uid-a": "n1"}
    clock.now += 0.1
    assert recent(cache) == {}


def test_an_approved_eviction_counts_until_the_preemptor_comes_back_without_its_nomination(cache):
    (victim, preemptor) = (placed("a"), typed(pod("p", priority=100)))
    cache.assumed.assume_preempted(preemptor, "n1", [victim])
    assert recent(cache) == {"uid-a": "n1"}
    cache.assumed.forget_preemption(preemptor)
    assert recent(cache) == {}


def test_its_confirmation_counts_anew(cache, clock):
    cache.assumed.assume_preempted(typed(pod("p", priority=100)), "n1", [placed("a")])
    clock.now += RECENT_SECONDS
    cache.apply(Change("Pod", placed("a", "2", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})))
    clock.now += RECENT_SECONDS
    assert recent(cache) == {"uid-a": "n1"}


def test_a_relist_notes_what_it_misses(cache):
    for _ in cache.relist("Pod", [placed("b")]):
        pass
    assert recent(cache) == {"uid-a": "n1"}


def test_it_takes_bounded_memory(clock):
    deletions = RecentDeletions(clock)
    for number in range(MAX_RECENT_DELETIONS + 10):
        deletions.note(placed(f"p{number}"), None)
    assert len(deletions.on_nodes({"n1"})) == MAX_RECENT_DELETIONS
