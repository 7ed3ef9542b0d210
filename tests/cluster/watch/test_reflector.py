"""The reflector by script: what it asks, in which order, what it waits, and what it says of itself. No time passes."""

import logging

import pytest

from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from extender.cluster.cache.cache import compare_resource_versions
from extender.cluster.watch.list_watch import WatchSettings, backoff
from tests.cluster.watch.reflector_rig import (
    NO_INITIAL_EVENTS,
    Said,
    Script,
    a_list,
    a_pod,
    added,
    bookmark,
    deleted,
    error,
    line,
    modified,
    ok,
    paged,
)

REFUSED = ApiUnreachable("127.0.0.1: connection refused")
RESET = ApiUnreachable("connection reset")
SILENCE = ApiUnreachable("timed out")
EXPIRED = ApiError(410, "Expired", "too old resource version")


# --- the first sync -------------------------------------------------------------------------------------------------


def test_lists_in_pages_and_watches_from_the_version_of_the_list():
    script = paged(
        a_list(7, a_pod("a", 3), rest="next"),
        a_list(7, a_pod("b", 5)),
        Said([added("c", 8)], [modified("a", 9), deleted("b", 10)]),
    ).run()
    assert script.store.calls == ["listed 2 @7", "changed +c", "changed +a -b"]
    assert script.lists == [{"limit": "500"}, {"limit": "500", "continue": "next"}]
    assert script.watches[1]["resourceVersion"] == "7"
    assert script.watches[1]["allowWatchBookmarks"] == "true"
    assert (script.state.version, script.state.events, script.state.relists) == ("10", 3, 0)


@pytest.mark.parametrize(("jitter", "seconds"), [(0.0, "300"), (0.5, "450"), (1.0, "600")])
def test_a_watch_is_asked_for_five_to_ten_minutes(jitter, seconds):
    script = paged(a_list(7), ok(), jitter=jitter).run()
    assert script.watches[1]["timeoutSeconds"] == seconds


def test_takes_the_list_from_the_initial_events_of_a_watch_and_goes_on_in_the_same_watch():
    script = Script(
        "Pod",
        Said([added("a", 3), added("b", 5)], [modified("a", 6), bookmark(7, end=True), added("c", 8)]),
        Said([added("d", 9)]),
    ).run()
    assert script.store.calls == ["listed 2 @7", "changed +c", "changed +d"]
    assert script.lists == []
    assert script.asked[0]["sendInitialEvents"] == "true"
    assert script.asked[0]["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in script.asked[0]
    assert script.asked[1]["resourceVersion"] == "8"
    assert "sendInitialEvents" not in script.asked[1]


def test_what_was_deleted_among_the_initial_events_is_not_listed():
    script = Script("Pod", Said([added("a", 3), added("b", 5), deleted("a", 6), bookmark(7, end=True)])).run()
    assert script.store.names == {"b"}


NO_PROGRESS = "the required storage feature RequestWatchProgress is disabled"
"""What kube-apiserver v1.36 says after 200, in an ERROR event, on an etcd before 3.4.31 or 3.5.13."""


@pytest.mark.parametrize(
    "refusal",
    [
        Said([error(500, "InternalError", NO_PROGRESS)]),
        Said([added("a", 3)], [error(500, "InternalError", "etcdserver: request timed out")]),
        Said([error(504, "Timeout", "Too large resource version: 9, current: 5", retryAfterSeconds=1)]),
        Said(refused=ApiError(400, "BadRequest", "what?")),
        Said(refused=NO_INITIAL_EVENTS),
        Said(refused=ApiError(405, "MethodNotAllowed", "")),
        Said(refused=ApiError(406, "NotAcceptable", "")),
        *[Said(refused=ApiError(code, "", "")) for code in (500, 501, 502, 503, 504)],
        Said(refused=ApiError(503, "ServiceUnavailable", "", retry_after=60.0)),
    ],
    ids=lambda said: str(said.refused or said.batches[-1][-1])[:40],
)
def test_D1_whatever_error_answers_a_request_for_initial_events_the_kind_is_listed_in_pages(refusal, caplog):
    caplog.set_level(logging.INFO)
    quiet = Said([bookmark(8)], seconds=60.0)
    script = Script("Pod", refusal, a_list(7), quiet, Said(refused=EXPIRED), a_list(9), ok()).run()
    assert ["watch" in params for params in script.asked] == [True, False, True, True, False, True]
    assert [params.get("sendInitialEvents") for params in script.watches] == ["true", None, None, None]
    assert script.store.calls == ["listed 0 @7", "listed 0 @9"]
    assert script.clock.waits == []
    assert sum("in pages" in record.message for record in caplog.records) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_D1_a_server_that_fails_the_list_too_is_asked_for_initial_events_again():
    failed = ApiError(500, "InternalError", "etcdserver: no leader")
    listed = Said([bookmark(7, end=True)], seconds=60.0)
    script = Script("Pod", *[Said(refused=failed)] * 4, listed).run()
    assert [params.get("sendInitialEvents") for params in script.asked] == ["true", None, "true", None, "true"]
    assert script.store.calls == ["listed 0 @7"]
    assert script.clock.waits == [0.8]


@pytest.mark.parametrize(
    ("refusal", "waits"),
    [
        (ApiError(429, "TooManyRequests", "storage is (re)initializing", retry_after=1.0), [1.0]),
        (ApiError(401, "Unauthorized", ""), []),
        (EXPIRED, []),
        (RESET, []),
    ],
    ids=["429", "401", "410", "no answer"],
)
def test_D1_what_says_nothing_of_initial_events_is_asked_for_them_again(refusal, waits):
    script = Script("Pod", Said(refused=refusal), Said([bookmark(7, end=True)], seconds=60.0)).run()
    assert script.store.calls == ["listed 0 @7"]
    assert script.clock.waits == waits


def test_a_bookmark_that_does_not_end_the_initial_events_is_of_a_server_that_does_not_know_them():
    script = Script("Pod", Said([added("a", 3)], [bookmark(7)]), a_list(8, a_pod("a", 3)), ok()).run()
    assert script.store.calls == ["listed 1 @8"]


def test_initial_events_that_take_too_long_are_given_up():
    slow = Said([added("a", 3)], [added("b", 4)])
    script = Script("Pod", slow, a_list(8), ok(), settings=WatchSettings(initial_events_timeout=-1.0)).run()
    assert script.store.calls == ["listed 0 @8"]


def test_initial_events_that_are_cut_three_times_are_given_up():
    cut = [Said([added("a", 3)], error=RESET) for _ in range(3)]
    script = Script("Pod", *cut, a_list(8, a_pod("a", 3)), ok()).run()
    assert script.store.calls == ["listed 1 @8"]
    assert ["watch" in params for params in script.asked] == [True, True, True, False, True]


def test_a_list_is_handed_over_whole_or_not_at_all():
    script = paged(
        a_list(7, a_pod("a", 3), rest="next"),
        Said(refused=RESET),
        a_list(8, a_pod("a", 3), rest="next"),
        a_list(8, a_pod("b", 8)),
        ok(),
    ).run()
    assert script.store.calls == ["listed 2 @8"]
    assert "continue" not in script.lists[2]


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"kind":"Status","metadata":{}}', b'{"items":[]}'])
def test_what_is_no_list_is_never_taken_for_an_empty_one(body):
    script = paged(Said(body=body), a_list(7, a_pod("a", 3)), ok()).run()
    assert script.store.calls == ["listed 1 @7"]


# --- C1, C3: going on where it was ----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [None, RESET, SILENCE], ids=["clean end", "reset", "silence"])
def test_C1_goes_on_from_the_last_version_without_a_list(end):
    script = paged(a_list(7), Said([added("a", 8)], error=end), Said([added("b", 9)])).run()
    assert script.store.versions == ["8", "9"]
    assert [params.get("resourceVersion") for params in script.watches] == [None, "7", "8"]
    assert len(script.lists) == 1
    assert script.clock.waits == []
    assert (script.state.relists, script.state.watch_restarts) == (0, 1)


def test_C1_a_bookmark_moves_the_place_from_which_it_goes_on():
    script = paged(a_list(7), Said([bookmark(20)], error=RESET), ok()).run()
    assert script.watches[-1]["resourceVersion"] == "20"


def test_C1_events_before_an_error_in_the_same_read_count():
    script = paged(a_list(7), Said([added("a", 8), error(500, "InternalError"), added("b", 9)]), ok()).run()
    assert script.store.versions == ["8"]
    assert script.watches[-1]["resourceVersion"] == "8"


def test_C3_an_old_event_that_comes_again_is_handed_on_but_does_not_move_the_place_back():
    script = paged(a_list(7), Said([added("a", 8), added("b", 9)], [added("a", 8)]), ok()).run()
    assert script.store.versions == ["8", "9", "8"]
    assert script.watches[-1]["resourceVersion"] == "9"


# --- C2: 410 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gone",
    [Said(refused=EXPIRED), Said([error(410, "Expired")]), Said([error(410, "Gone")]), Said([error(500, "Expired")])],
    ids=["status", "event", "Gone", "by its reason"],
)
def test_C2_a_version_that_is_too_old_costs_exactly_one_relist(gone):
    script = paged(a_list(7, a_pod("a", 3), a_pod("b", 4)), gone, a_list(20, a_pod("b", 4)), ok()).run()
    assert script.store.calls == ["listed 2 @7", "listed 1 @20"]
    assert script.state.relists == 1
    assert script.clock.waits == []


def test_C2_a_continue_token_that_is_too_old_restarts_the_list_from_its_beginning():
    script = paged(
        a_list(7, a_pod("a", 3), rest="next"),
        Said(refused=EXPIRED),
        a_list(20, a_pod("b", 4), rest="more"),
        a_list(20),
        ok(),
    ).run()
    assert script.store.calls == ["listed 1 @20"]
    assert [params.get("continue") for params in script.lists] == [None, "next", None, "more"]
    assert script.state.relists == 1


def test_C2_a_server_that_forgets_at_once_every_time_is_not_hammered():
    rounds = [answer for version in range(5) for answer in (a_list(10 + version), Said(refused=EXPIRED))]
    script = paged(*rounds, a_list(30), ok()).run()
    assert script.clock.waits == [0.8, 1.6, 3.2, 6.4]


# --- C4: a server that has gone back --------------------------------------------------------------------------------


def test_C4_a_list_older_than_what_is_held_is_believed_the_second_time_and_said_meanwhile():
    second = a_list(5, a_pod("a", 3))
    script = paged(a_list(7, a_pod("a", 3), a_pod("b", 7)), Said(refused=EXPIRED), a_list(5), second, ok())
    seen = []
    second.before = lambda: seen.append((script.state.regressed, script.state.broken_since, script.store.calls[:]))
    script.run()
    assert seen == [(True, 1000.0, ["listed 2 @7"])]
    assert script.store.calls == ["listed 2 @7", "listed 1 @5"]
    assert (script.state.regressed, script.state.broken_since) == (False, None)
    assert script.watches[-1]["resourceVersion"] == "5"


def test_C4_a_single_stale_list_changes_nothing():
    script = paged(a_list(7, a_pod("a", 3)), Said(refused=EXPIRED), a_list(5), a_list(9, a_pod("a", 3)), ok()).run()
    assert script.store.calls == ["listed 1 @7", "listed 1 @9"]


def test_C4_the_same_by_initial_events():
    old = [added("a", 3), bookmark(5, end=True), added("z", 6)]
    script = Script("Pod", Said([bookmark(7, end=True)]), Said(refused=EXPIRED), Said(old), Said(old)).run()
    assert script.store.calls == ["listed 0 @7", "listed 1 @5", "changed +z"]


def test_C4_a_bookmark_older_than_what_is_held_asks_for_a_list():
    script = paged(a_list(7), Said([bookmark(5)]), a_list(5), a_list(5), ok()).run()
    assert script.store.calls == ["listed 0 @7", "listed 0 @5"]


def test_C4_watches_in_which_nothing_comes_at_all_end_in_a_list():
    silent = [Said(error=SILENCE, seconds=90.0) for _ in range(2)]
    script = paged(a_list(7), *silent, a_list(5), a_list(5), ok()).run()
    assert script.store.calls == ["listed 0 @7", "listed 0 @5"]


@pytest.mark.parametrize(
    ("version", "held", "older"),
    [("9", "10", True), ("10", "9", False), ("10", "10", False), ("abc", "10", False), ("9", "", False)],
)
def test_versions_are_compared_as_numbers_where_both_are_numbers(version, held, older):
    assert (compare_resource_versions(version, held) < 0) is older


def test_a_version_that_the_server_does_not_understand_is_given_up():
    script = paged(a_list(7), Said(refused=ApiError(400, "BadRequest", "invalid")), a_list(1), a_list(1), ok()).run()
    assert script.store.calls == ["listed 0 @7", "listed 0 @1"]


def test_a_server_that_is_behind_is_given_time_and_then_listed():
    behind = [
        Said(refused=ApiError(504, "Timeout", "Too large resource version: 7, current: 5", retry_after=1))
        for _ in range(3)
    ]
    script = paged(a_list(7), *behind, a_list(8), ok()).run()
    assert script.clock.waits == [1.0, 1.0, 1.6]
    assert script.store.calls == ["listed 0 @7", "listed 0 @8"]


# --- C6, C7: what it says of itself ---------------------------------------------------------------------------------


def test_C6_a_quiet_healthy_watch_is_never_broken():
    script = paged(a_list(7))
    phases = []

    def look() -> None:
        phases.append((script.state.phase, script.state.broken_since))

    for _ in range(10):  # an hour of watches that end as they should, with bookmarks only
        watch = Said([bookmark(7)], seconds=360.0)
        watch.before = look
        script.answers.append(watch)
    script.run()
    assert phases == [("listing", None)] + [("watching", None)] * 9
    assert script.clock.waits == []
    assert script.state.watch_restarts == 9


def test_C6_ten_minutes_without_even_a_bookmark_are_not_broken_either():
    script = paged(a_list(7))
    behind = []

    def look() -> None:
        since = script.state.broken_since
        behind.append(0.0 if since is None else script.clock.now - since)

    for number in range(7):
        watch = Said(error=SILENCE, seconds=90.0)
        watch.before = look
        script.answers += [watch] if number % 2 else [watch] if number == 0 else [a_list(7), watch]
    script.run()
    assert script.clock.now >= 1600.0
    assert behind == [0.0] * 7
    assert script.clock.waits == []


def test_C7_broken_since_is_when_the_connection_was_lost_and_ends_when_the_watch_is_accepted():
    last = Said(seconds=60.0)
    script = paged(a_list(7), Said([bookmark(8)], error=RESET), Said(refused=REFUSED), Said(refused=REFUSED), last)
    lost: list[tuple[object, ...]] = []
    last.before = lambda: lost.append((script.state.phase, script.state.broken_since, script.clock.now))
    script.run()
    assert lost == [("broken", 1000.0, 1002.4)]
    assert (script.state.phase, script.state.broken_since) == ("watching", None)
    assert script.state.last_error == str(REFUSED)


def test_C7_while_a_list_is_due_the_cache_is_stale_until_it_is_complete():
    pages = [a_list(9, rest="next"), a_list(9)]
    script = paged(a_list(7), Said(refused=EXPIRED), *pages, ok())
    seen: list[float | None] = []
    pages[1].before = lambda: seen.append(script.state.broken_since)
    script.run()
    assert seen == [1000.0]
    assert script.state.broken_since is None


def test_last_contact_is_the_last_line_not_the_last_event():
    script = paged(a_list(7), Said([added("a", 8)], seconds=30.0), Said([bookmark(9)], error=RESET, seconds=50.0)).run()
    assert script.state.last_contact == 1030.0


# --- C8, C9: waiting ------------------------------------------------------------------------------------------------


def test_C8_errors_are_answered_with_waits_that_double_to_30_s_and_never_more():
    failed = Said(refused=ApiError(500, "InternalError", ""))
    assert paged(a_list(7), *[failed] * 9, ok()).run().clock.waits == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


@pytest.mark.parametrize("failure", [REFUSED, ApiError(503, "ServiceUnavailable", "")], ids=["refused", "a gateway's"])
def test_D6_a_server_that_cannot_be_reached_is_tried_every_3_s_by_a_reflector_that_is_alone(failure):
    script = paged(a_list(7), *[Said(refused=failure)] * 9, ok()).run()
    assert script.clock.waits == [0.8, 1.6, *[3.0] * 6]


def test_D6_a_server_that_answers_again_but_not_yet_well_is_not_made_to_wait_for():
    failed = [Said(refused=error) for error in (*[REFUSED] * 9, ApiError(500, "", ""), ApiError(429, "", ""))]
    assert paged(a_list(7), *failed, ok()).run().clock.waits[-2:] == [0.8, 1.6]


def test_C8_chance_takes_away_up_to_half_of_a_wait():
    low, high = backoff(0.8, 30.0, lambda: 0.0), backoff(0.8, 30.0, lambda: 1.0)
    assert [next(low) for _ in range(4)] == [0.0, 0.4, 0.8, 1.6]
    assert [next(high) for _ in range(4)] == [0.0, 0.8, 1.6, 3.2]
    assert max(next(high) for _ in range(2000)) == 30.0


@pytest.mark.parametrize("code", [500, 501, 502, 503, 504])
def test_C8_5xx_is_waited_out(code):
    broken = [Said(refused=ApiError(code, "InternalError", "")) for _ in range(3)]
    assert paged(a_list(7), *broken, ok()).run().clock.waits == [0.8, 1.6]


def test_C8_a_watch_that_lasts_ends_the_waiting():
    refused = [Said(refused=REFUSED) for _ in range(4)]
    assert paged(a_list(7), *refused[:2], ok(), *refused[2:], ok()).run().clock.waits == [0.8, 0.8]


def test_C8_watches_that_end_as_soon_as_they_begin_are_not_hammered():
    assert paged(a_list(7), *[Said() for _ in range(5)]).run().clock.waits == [0.8, 1.6, 3.2, 6.4]


@pytest.mark.parametrize("code", [429, 503])
def test_C9_retry_after_is_honoured(code):
    busy = ApiError(code, "TooManyRequests", "later", retry_after=12.0)
    script = paged(a_list(7), Said(refused=busy), Said([error(code, retryAfterSeconds=17)]), ok())
    assert script.run().clock.waits == [12.0, 17.0]


def test_C9_429_without_retry_after_is_not_asked_again_at_once():
    assert paged(Said(refused=ApiError(429, "TooManyRequests", "")), a_list(7), ok()).run().clock.waits == [1.0]


def test_C9_nobody_stays_away_for_longer_than_five_minutes():
    busy = ApiError(429, "TooManyRequests", "", retry_after=86400.0)
    assert paged(Said(refused=busy), a_list(7), ok()).run().clock.waits == [300.0]


# --- permissions ----------------------------------------------------------------------------------------------------

FORBIDDEN = ApiError(403, "Forbidden", 'pods is forbidden: User "extender" cannot watch resource "pods"')
ABSENT = ApiError(404, "NotFound", "the server could not find the requested resource")


def test_a_core_kind_that_is_forbidden_at_first_is_fatal_and_says_what_is_missing():
    script = Script("Pod", Said(refused=FORBIDDEN)).run()
    assert script.state.fatal is not None
    assert "watch pods" in script.state.fatal
    assert 'User "extender"' in script.state.fatal


def test_a_core_kind_that_is_forbidden_later_is_waited_for():
    script = paged(a_list(7), ok(), Said(refused=FORBIDDEN), Said(refused=FORBIDDEN), ok()).run()
    assert script.state.fatal is None
    assert script.store.calls == ["listed 0 @7"]


def test_a_core_kind_that_is_absent_is_an_error_not_an_empty_cluster():
    script = Script(
        "Pod", Said(refused=ABSENT), Said(refused=ABSENT), Said([bookmark(7, end=True)], seconds=60.0)
    ).run()
    assert script.store.calls == ["listed 0 @7"]
    assert script.clock.waits == [0.8]


@pytest.mark.parametrize(
    ("refusal", "why", "level"), [(FORBIDDEN, "forbidden", logging.WARNING), (ABSENT, "absent", logging.INFO)]
)
def test_an_optional_kind_that_cannot_be_read_is_said_once_and_tried_every_five_minutes(refusal, why, level, caplog):
    script = Script("CSINode", *[Said(refused=refusal) for _ in range(3)])
    with caplog.at_level(logging.INFO):
        script.run()
    assert script.store.calls == [f"unreadable {why}"]
    assert script.clock.waits == [300.0] * 3
    text = f"csinodes {why}, retrying in 300.0s: {refusal}"
    assert [(record.message, record.levelno) for record in caplog.records] == [(text, level)]
    assert (script.state.phase, script.state.broken_since) == (why, None)


def test_an_optional_kind_that_becomes_readable_is_followed():
    node = {"kind": "CSINode", "metadata": {"name": "n1", "uid": "u", "resourceVersion": "3"}, "spec": {"drivers": []}}
    events = [line("ADDED", node), bookmark(7, end=True, kind="CSINode")]
    script = Script("CSINode", Said(refused=ABSENT), Said(events)).run()
    assert script.store.calls == ["unreadable absent", "listed 1 @7"]
    assert script.state.phase == "watching"


def test_a_server_that_has_just_started_may_refuse_for_a_moment():
    refusals = [Said(refused=FORBIDDEN) for _ in range(2)]
    script = paged(a_list(7, kind="CSINode"), ok(), *refusals, ok(), kind="CSINode").run()
    assert script.store.calls == ["listed 0 @7"]


def test_an_optional_kind_that_is_taken_away_is_said():
    refusals = [Said(refused=ABSENT) for _ in range(3)]
    lists = [a_list(7, kind="CSINode"), a_list(3, kind="CSINode")]
    script = paged(lists[0], ok(), *refusals, lists[1], ok(), kind="CSINode").run()
    assert script.store.calls == ["listed 0 @7", "unreadable absent", "listed 0 @3"]
