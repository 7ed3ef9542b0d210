"""extender explain --follow: each decision once, the oldest first, whatever happens to the service."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from extender.cli.http_client import TLSClientConfig
from extender.cli.output import following
from extender.cli.output.decision_report import Invocation
from extender.cli.output.explanation import Output
from extender.cli.output.following import Follower
from extender.cli.output.tables import new_console
from extender.cli.sources.decision_source import DecisionListOptions, DecisionSourceError, ServiceDecisions
from extender.errors import RequestError
from extender.k8s.time import format_time, parse_time
from tests.cli.commands.test_explain import ask, explain, fill, new_service
from tests.server.conftest import filter_body, listening

START = parse_time("2026-03-01T12:00:00Z")


class FakeDecisions:
    """The decision log of a service: a test adds decisions, and can have calls fail."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []
        self.asked: list[DecisionListOptions] = []
        self.error: Exception | None = None

    def make(self, id_: str, second: float, **more: Any) -> None:
        time = format_time(START + int(second * 1e9), 3)
        sentence = f"sentence of {id_}"
        one = {"id": id_, "verb": "filter", "time": time, "milliseconds": 1.0, "outcome": "answered", "uid": "u"}
        self.kept.append({**one, "sentence": sentence, "pod": "shop/a", **more})

    def list_decisions(self, options: DecisionListOptions) -> bytes:
        self.asked.append(options)
        if self.error is not None:
            raise self.error
        since = "" if options.since is None or not options.since[0].isdigit() else options.since
        later = [one for one in self.kept if one["time"] >= since]
        newest = sorted(later, key=lambda one: one["time"], reverse=True)[: options.limit]
        return msgspec.json.encode({"decisions": newest})

    def get_decision(self, *_: object, **__: object) -> bytes | None:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError


def ids(found: Any) -> list[str]:
    return [one.id for _, one in found]


@pytest.fixture
def service() -> FakeDecisions:
    return FakeDecisions()


def test_the_list_comes_first_and_then_each_new_decision_once(service):
    for number in range(30):
        service.make(f"filter-{number}", number / 10)
    follower = Follower(service, DecisionListOptions(limit=3))
    assert ids(follower.poll()) == ["filter-27", "filter-28", "filter-29"]
    assert follower.poll() == []
    service.make("filter-30", 3.0)
    service.make("preempt-1", 3.2)
    service.make("filter-late", 2.9)  # it waited for the watch
    assert ids(follower.poll()) == ["filter-late", "filter-30", "preempt-1"]
    assert follower.poll() == []
    assert [one.limit for one in service.asked[:2]] == [3, 1000]


def test_options_narrow_every_answer(service):
    follower = Follower(service, DecisionListOptions("shop/a", "n1", "filter", "15m", 5))
    follower.poll()
    service.make("filter-1", 10)
    follower.poll()
    follower.poll()
    assert [one.since for one in service.asked] == ["15m", "15m", "2026-03-01T12:00:10.000Z"]
    assert {(one.pod, one.node, one.verb) for one in service.asked} == {("shop/a", "n1", "filter")}


def test_ids_that_begin_again_are_new_decisions(service):
    service.make("filter-1", 1)
    follower = Follower(service, DecisionListOptions())
    follower.poll()
    service.kept.clear()  # a restart
    assert follower.poll() == []
    service.make("filter-1", 2)
    assert ids(follower.poll()) == ["filter-1"]


def test_what_is_remembered_is_bounded_by_time(service):
    follower = Follower(service, DecisionListOptions())
    for second in range(100):
        service.make(f"filter-{second}", second)
        assert ids(follower.poll()) == [f"filter-{second}"]
    assert len(follower._seen) < 10


def test_more_decisions_than_an_answer_lists_are_said_to_be_missing(service):
    follower = Follower(service, DecisionListOptions())
    service.make("filter-0", 0)
    follower.poll()
    for number in range(1, 1002):
        service.make(f"filter-{number}", 1 + number / 1000)
    assert len(follower.poll()) == 1000
    assert follower.may_lack
    follower.poll()
    assert not follower.may_lack


class Stop(Exception):
    """Ends following."""


def followed(service: FakeDecisions, steps: Iterator[Any], monkeypatch, *, is_json: bool = False) -> None:
    """Follow; each wait is a step."""

    def wait(_: float) -> None:
        if next(steps, Stop) is Stop:
            raise Stop

    monkeypatch.setattr("extender.cli.output.following.time.sleep", wait)
    output = Output(Invocation("extender explain"), new_console(no_color=True), show_all=False, is_json=is_json)
    with pytest.raises(Stop):
        following.follow(service, DecisionListOptions(), output)


def test_a_service_that_does_not_answer_for_a_while_is_asked_again(service, monkeypatch, capsys):
    def steps():
        service.make("filter-1", 1)
        yield
        for error in (DecisionSourceError("cannot connect\x1b"), RequestError("starting")):
            service.error = error
            yield
        service.error = None
        service.make("filter-1", 3)
        yield

    followed(service, steps(), monkeypatch)
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "2026-03-01 12:00:01  filter-1          sentence of filter-1",
        "2026-03-01 12:00:03  filter-1          sentence of filter-1",
    ]
    assert err.splitlines() == [r"extender: cannot connect\x1b; trying again", "extender: the service answers again"]


def test_json_is_one_decision_per_line_with_keys_of_a_newer_service(service, monkeypatch, capsys):
    service.make("filter-1", 1, newer={"a": 1})
    service.make("filter-2", 2, sentence="two\nlines \x1b[31m\x7f\x9b\u202e")
    followed(service, iter([None]), monkeypatch, is_json=True)
    out = capsys.readouterr().out
    assert out.isascii()
    assert not set("\x1b\x7f") & set(out)
    lines = [json.loads(line) for line in out.splitlines()]
    assert [one["id"] for one in lines] == ["filter-1", "filter-2"]
    assert lines[0]["newer"] == {"a": 1}
    assert lines == service.kept


def test_names_of_others_cannot_control_the_terminal(service, monkeypatch, capsys):
    service.make("filter-1", 1, sentence="evil \x1b[31m\r\npod")
    followed(service, iter([None]), monkeypatch)
    assert capsys.readouterr().out == "2026-03-01 12:00:01  filter-1          evil \\x1b[31m\\r\\npod\n"


@pytest.mark.parametrize(
    "body", [b"[]", b'{"decisions":[{}]}', b'{"decisions":[{"id":"a"}]}', b"{", b'{"decisions":[1]}']
)
def test_an_answer_that_is_none_is_an_error(service, monkeypatch, body):
    monkeypatch.setattr(service, "list_decisions", lambda _: body)
    with pytest.raises(DecisionSourceError, match="cannot decode the response"):
        Follower(service, DecisionListOptions()).poll()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["preempt-1"], "requires a pod: preempt-1 is one decision"),
        (["--recording", "x"], "requires a running service: a recording is complete"),
    ],
)
def test_what_is_complete_cannot_be_followed(arguments, message):
    result = explain("--follow", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_where_nothing_answers_at_first_it_ends():
    result = explain("--follow", "--url", "http://127.0.0.1:1")
    assert isinstance(result.exception, DecisionSourceError)


def test_a_running_service_is_asked():
    service, source = new_service(), None
    fill(service)
    with listening(service) as url:
        source = ServiceDecisions(url, 5, TLSClientConfig())
        follower = Follower(source, DecisionListOptions("incoming"))
        found = ids(follower.poll())
        ask(service, "filter", filter_body())
        found += ids(follower.poll())
    with pytest.raises(DecisionSourceError):
        follower.poll()
    source.close()
    assert found == ["filter-1", "filter-2", "prioritize-1", "filter-3"]
