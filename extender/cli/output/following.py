"""Print decisions as they are made, the oldest first: `extender explain --follow`.

Rule: after the first answer, only the user ends the command: a service that restarts or fails is polled again.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

import msgspec
import typer
from msgspec import Raw
from rich.text import Text

from extender.cli import logs
from extender.cli.output import tables
from extender.cli.output.explanation import Output
from extender.cli.sources.decision_source import DecisionListOptions, DecisionSource, DecisionSourceError
from extender.errors import ExtenderError, printable_json
from extender.k8s.time import SECOND, format_time, parse_time
from extender.report.schema import MAX_LISTED_DECISIONS, DecisionSummary

POLL_SECONDS = 1.0

OVERLAP_SECONDS = 5
"""Seconds before the latest decision that each poll covers again: a call that waited for the watch appears later than
calls that came after it."""

Seen = dict[tuple[str, str], int]
"""(ID, time) -> time in nanoseconds; the ID alone is not unique, as IDs restart with each process of the service."""


class _Listed(msgspec.Struct):
    decisions: list[Raw]


def follow(source: DecisionSource, query: DecisionListOptions, output: Output) -> NoReturn:
    """Print the decisions that a listing shows, then new ones, one per line; ExtenderError if the first poll fails."""
    follower = Follower(source, query)
    found = follower.poll()
    is_lost = False
    while True:
        for raw, summary in found:
            _print(raw, summary, output)
        if follower.may_lack:
            logs.print_message(f"more than {MAX_LISTED_DECISIONS} decisions at once: some are left out")
        time.sleep(POLL_SECONDS)
        try:
            found = follower.poll()
        except ExtenderError as error:
            if not is_lost:
                logs.print_message(f"{error}; trying again")
            is_lost, found = True, []
        else:
            if is_lost:
                logs.print_message("the service answers again")
            is_lost = False


class Follower:
    """Polls for decisions that are new since the last poll."""

    def __init__(self, source: DecisionSource, query: DecisionListOptions) -> None:
        self._source, self._query = source, query
        self._seen: Seen = {}
        self._begin = 0
        """Time of the earliest decision in the first answer: `--limit` left out earlier decisions."""
        self.may_lack = False
        """Whether there may be more new decisions than one answer lists."""

    def poll(self) -> list[tuple[Raw, DecisionSummary]]:
        """Return the new decisions, the oldest first; raises ExtenderError."""
        query = self._query
        if self._seen:
            since = max(self._earliest(), self._begin)
            query = replace(query, since=format_time(since, 3), limit=MAX_LISTED_DECISIONS)
        listed = list(_decode(self._source.list_decisions(query)))
        found = [(raw, one) for raw, one in listed if (one.id, one.time) not in self._seen]
        self.may_lack = bool(self._seen) and len(found) >= MAX_LISTED_DECISIONS
        self._remember([one for _, one in listed])
        return found[::-1]

    def _earliest(self) -> int:
        return max(self._seen.values()) - OVERLAP_SECONDS * SECOND

    def _remember(self, listed: Sequence[DecisionSummary]) -> None:
        """Add the listed decisions, and forget decisions that no later poll covers."""
        times = {(one.id, one.time): parse_time(one.time) for one in listed}
        if not self._seen:
            self._begin = min(times.values(), default=0)
        self._seen |= times
        if self._seen:
            earliest = self._earliest()
            self._seen = {key: when for key, when in self._seen.items() if when >= earliest - SECOND}


def _decode(body: bytes) -> Iterator[tuple[Raw, DecisionSummary]]:
    """Yield the decisions of an answer, decoded and raw: a newer service may send more keys."""
    try:
        for raw in msgspec.json.decode(body, type=_Listed).decisions:
            summary = msgspec.json.decode(raw, type=DecisionSummary)
            parse_time(summary.time)
            yield raw, summary
    except ValueError as error:
        message = f"cannot decode the response ({error}): does the service run another version?"
        raise DecisionSourceError(message) from error


def _print(raw: Raw, summary: DecisionSummary, output: Output) -> None:
    if output.is_json:
        typer.echo(printable_json(msgspec.json.decode(raw), indent=None))
        return
    parts = (tables.format_timestamp(summary.time), summary.id.ljust(_ID_COLUMNS), summary.sentence)
    line = Text("  ").join(map(tables.text, parts))
    output.console.print(line, soft_wrap=True)
    output.console.file.flush()


_ID_COLUMNS = len("prioritize-12345")
