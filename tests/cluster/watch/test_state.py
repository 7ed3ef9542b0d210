"""The phases of a reflector: which transitions take place, and what each of them means for the cache."""

import pytest

from extender.cluster.apiserver.stream import ApiUnreachable
from extender.cluster.watch.state import Phase, ReflectorState

RESET = ApiUnreachable("connection reset")
UNREADABLE = [Phase.FORBIDDEN, Phase.ABSENT]


def in_phase(phase):
    state = ReflectorState()
    state.take_list("7", now=10.0)
    state.enter(phase, 11.0)
    return state


def test_the_values_of_the_metric_and_of_the_status_stay():
    assert [*Phase] == ["starting", "listing", "watching", "broken", "forbidden", "absent"]


@pytest.mark.parametrize("before", Phase)
@pytest.mark.parametrize("after", Phase)
def test_every_transition_takes_place_but_that_of_a_failure_while_a_kind_is_unreadable(before, after):
    state = in_phase(before)
    state.enter(after, 12.0, RESET)
    assert state.phase == (before if before.is_unreadable and after is Phase.BACKOFF else after)
    assert state.last_error == "connection reset"


def test_a_failure_is_counted_once_and_the_cache_is_stale_since_then_until_it_is_complete_or_watched():
    state = in_phase(Phase.WATCHING)
    for now in (12.0, 13.0):
        state.enter(Phase.BACKOFF, now, RESET)
    state.enter(Phase.LISTING, 14.0)
    assert (state.broken_since, state.interruptions) == (12.0, 1)
    state.take_list("9", 15.0)
    assert (state.phase, state.version, state.broken_since) == (Phase.LISTING, "9", None)
    state.enter(Phase.BACKOFF, 16.0, RESET)
    state.enter(Phase.WATCHING, 17.0)
    assert (state.broken_since, state.interruptions) == (None, 2)


@pytest.mark.parametrize("phase", UNREADABLE)
def test_a_kind_that_is_unreadable_has_no_version_and_is_not_stale(phase):
    state = in_phase(Phase.BACKOFF)
    state.regressed = True
    state.enter(phase, 12.0, RESET)
    assert (state.version, state.broken_since, state.regressed) == ("", None, False)


@pytest.mark.parametrize("phase", UNREADABLE)
def test_a_complete_list_makes_a_kind_readable_again(phase):
    state = in_phase(phase)
    state.take_list("9", 12.0)
    assert (state.phase, state.version) == (Phase.LISTING, "9")
