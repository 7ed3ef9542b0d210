"""What the reflector makes of single objects, by script: C13, cheap relists, and the compare of C15."""

import logging

import pytest

from extender.cluster.apiserver.stream import ApiError, ApiUnreachable
from extender.cluster.watch.decode import Decoder
from extender.cluster.watch.delta_queue import Deltas
from tests.cluster.watch.reflector_rig import Said, Script, a_list, a_pod, added, line, ok, paged

EXPIRED = ApiError(410, "Expired", "too old resource version")

UNREADABLE = {"spec": {"priority": "high"}}


class Counting(Decoder):
    """Counts the objects that it decoded."""

    decoded = 0

    def decode(self, raw):
        self.decoded += 1
        return super().decode(raw)


def unreadable(name: str, version: int):
    return a_pod(name, version) | UNREADABLE


@pytest.mark.parametrize(
    "odd",
    [
        line("SURPRISE", a_pod("x", 9)),
        line("ADDED", a_pod("x", 9) | {"kind": "Node"}),
        line("ADDED", a_pod("x", 9) | {"metadata": None}),
        line("ADDED", a_pod("x", 9) | {"metadata": {"resourceVersion": "9"}}),
        line("ADDED", a_pod("x", 9) | {"metadata": []}),
        line("ADDED", None),
        line("BOOKMARK", {"kind": "Pod", "metadata": None}),
        line("ADDED", a_pod("x", 9) | UNREADABLE),
    ],
    ids=["unknown type", "wrong kind", "null metadata", "no name", "a list", "null", "bookmark", "does not parse"],
)
def test_C13_what_cannot_be_read_is_counted_and_skipped_and_the_loop_lives(odd):
    script = paged(a_list(7), Said([added("a", 8), odd, added("b", 10)]), ok()).run()
    assert script.store.names == {"a", "b"}
    assert script.state.skipped == 1
    assert len(script.watches) == 3


def test_C13_in_a_list_too():
    script = paged(a_list(7, unreadable("x", 3), a_pod("a", 4), {"metadata": None}), ok()).run()
    assert script.store.names == {"a"}
    assert script.state.skipped == 2


def test_C13_a_change_that_cannot_be_read_leaves_what_is_held_and_its_deletion_deletes():
    script = paged(
        a_list(7, a_pod("a", 3)),
        Said([line("MODIFIED", unreadable("a", 8))], error=EXPIRED),
        a_list(9, unreadable("a", 8)),
        Said([line("DELETED", unreadable("a", 10))]),
    ).run()
    assert script.store.calls == ["listed 1 @7", "listed 1 @9", "changed -a"]
    assert script.state.skipped == 3


def test_C13_an_unreadable_pod_of_another_uid_does_not_keep_the_old_one():
    script = paged(
        a_list(7, a_pod("a", 3)),
        Said(refused=EXPIRED),
        a_list(9, a_pod("a", 8, uid="another") | UNREADABLE),
        Said([line("DELETED", a_pod("a", 10, uid="third") | UNREADABLE)]),
    ).run()
    assert script.store.calls == ["listed 1 @7", "listed 0 @9"]


def test_C13_what_is_skipped_is_logged_once_a_minute_by_kind_and_name(caplog):
    minute = Said([line("ADDED", unreadable(name, 9)) for name in "abc"], seconds=61.0)
    script = paged(a_list(7), minute, Said([line("ADDED", unreadable("d", 10))]))
    with caplog.at_level(logging.WARNING, "extender.cluster.watch.object_reader"):
        script.run()
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "Pod 'default/a' skipped",
        "Pod 'default/d' skipped",
    ]
    assert script.state.skipped == 4


def test_C13_a_line_that_is_no_json_ends_the_connection_because_nobody_knows_what_it_was():
    script = paged(a_list(7), Said([added("a", 8), b'{"type":"ADDED","obj', added("c", 10)]), ok()).run()
    assert script.store.names == {"a"}
    assert script.watches[-1]["resourceVersion"] == "8"


def test_C13_an_error_event_without_a_code_is_one_of_the_server():
    script = paged(a_list(7), Said([line("ERROR", {})]), Said([line("ERROR", {})]), ok()).run()
    assert script.clock.waits == [0.8]
    assert script.state.last_error == "500 Unknown"


def test_a_bug_in_the_sink_costs_a_new_list_and_not_the_loop(caplog):
    script = paged(a_list(7), Said([added("a", 8)]), a_list(9, a_pod("a", 8)), ok())

    put = script.store.put

    def fails(item):
        if isinstance(item, Deltas):
            raise ZeroDivisionError
        put(item)

    script.store.put = fails  # type: ignore[method-assign]
    script.run()
    assert script.store.calls == ["listed 0 @7", "listed 1 @9"]
    assert "unexpected error" in caplog.text


# --- cheap relists, and C15 -----------------------------------------------------------------------------------------


def test_a_relist_decodes_only_what_has_changed():
    counting = Counting("Pod")

    script = paged(
        a_list(7, a_pod("same", 3), a_pod("newer", 4), a_pod("other", 5)),
        Said(refused=EXPIRED),
        a_list(20, a_pod("same", 3), a_pod("newer", 9), a_pod("other", 5, uid="another")),
        ok(),
        decoder=counting,
    ).run()
    assert counting.decoded == 5
    assert {key[1]: one.metadata.resource_version for key, one in script.store.objects.items()} == {
        "same": "3",
        "newer": "9",
        "other": "5",
    }


@pytest.mark.parametrize("why", ["a compare", "a server that has gone back"])
def test_where_there_is_doubt_the_same_version_is_no_proof(why):
    counting = Counting("Pod")

    gone_back = why != "a compare"
    again = [a_list(6, a_pod("a", 3))] * (1 + gone_back)
    script = paged(a_list(7 if gone_back else 6, a_pod("a", 3)), Said(refused=EXPIRED), *again, ok(), decoder=counting)
    if not gone_back:
        script.answers[2].before = lambda: script.reflector.request_relist(why)
        script.answers[2].refused = ApiUnreachable("given up")
    script.run()
    assert counting.decoded == 2


def test_C15_names_uids_and_versions_as_the_server_has_them():
    script = Script("Pod", a_list(7, a_pod("a", 3), rest="next"), a_list(7, a_pod("b", 5)))
    assert script.reflector.list_metadata() == {("default", "a"): ("uid-a", "3"), ("default", "b"): ("uid-b", "5")}


def test_C15_a_relist_that_is_asked_for_is_done_at_once():
    watch = Said([added("a", 8)], [added("b", 9)])
    script = paged(a_list(7), watch, a_list(9, a_pod("b", 9)), ok())
    put = script.store.put

    def ask(item):
        put(item)
        if isinstance(item, Deltas):
            script.reflector.request_relist("the compare found a difference")
            script.store.put = put  # type: ignore[method-assign]

    script.store.put = ask  # type: ignore[method-assign]
    script.run()
    assert script.store.calls == ["listed 0 @7", "changed +a", "listed 1 @9"]
    assert script.state.relists == 1
    assert script.clock.waits == []
    assert script.state.last_error is None
