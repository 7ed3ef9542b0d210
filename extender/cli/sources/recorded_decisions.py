"""Read decisions from a recording by replaying its calls; the other source is `sources.decision_source`.

Rule: every failure raises an ExtenderError that suggests what to check.
"""

import dataclasses
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from extender.cli import logs
from extender.cli.sources.decision_source import DecisionListOptions, parse_since
from extender.errors import RequestError
from extender.report.schema import MAX_LISTED_DECISIONS, VerbName
from extender.server.observability.decision_log import DecisionLog, DecisionQuery, KeptDecision
from extender.server.replay import RecordedCall, SettingsOverride, open_recording


class RecordedDecisions:
    """Decisions of a recording: its calls, replayed on the recorded cluster and settings."""

    def __init__(self, path: Path, under: SettingsOverride) -> None:
        """`under`: function from recorded settings to the settings to decide by."""
        logs.silence()
        self._recording = open_recording(path)
        self._under = under
        self._latest: KeptDecision | None = None

    def list_decisions(self, options: DecisionListOptions) -> bytes:
        """Return JSON as `ServiceDecisions.list_decisions` does."""
        if not 1 <= options.limit <= MAX_LISTED_DECISIONS:
            raise RequestError(f"--limit must be from 1 to {MAX_LISTED_DECISIONS}, not {options.limit}")
        since = parse_since(options, lambda: max((call.history.now for call in self._recording.calls()), default=0))
        query = DecisionQuery(options.pod, options.node, options.verb, since, limit=options.limit)
        calls = self._matching_indexes(lambda call: _may_match(query, call))
        # Only a decided call shows its nodes and victims; if neither is filtered, the last calls are enough.
        if query.pod is None and query.node is None:
            calls = calls[-query.limit :]
        matching = deque((kept for kept in self._replay_decisions(calls) if query.matches(kept)), query.limit)
        return msgspec.json.encode({"decisions": [kept.summary for kept in reversed(matching)]})

    def get_decision(self, decision_id: str, *, node: str | None = None, pods: bool = True) -> bytes | None:
        """Return JSON as `ServiceDecisions.get_decision` does."""
        if self._latest is None or self._latest.id != decision_id:
            # IDs restart at 1 with every process, so a recording may have an ID twice: take the latest.
            calls = self._matching_indexes(lambda call: call.id == decision_id)
            self._latest = next(self._replay_decisions(calls[-1:]), None)
        return None if self._latest is None else msgspec.json.encode(self._latest.decision(node, every_pod=pods))

    def close(self) -> None:
        """Do nothing: the replay closes each segment."""

    def _matching_indexes(self, matches: Callable[[RecordedCall], bool]) -> list[int]:
        return [index for index, call in enumerate(self._recording.calls()) if matches(call)]

    def _replay_decisions(self, indexes: list[int]) -> Iterator[KeptDecision]:
        """Decide the calls at these indexes again, in order."""
        if not indexes:
            return
        selected, count = frozenset(indexes), iter(range(sys.maxsize))
        for replayed in self._recording.replayed(lambda _: next(count) in selected, self._under):
            collector = _SingleDecision(replayed.call.id)
            server_context = dataclasses.replace(replayed.server_context, decisions=collector)
            replayed.answer_in(server_context)
            if collector.kept is not None:
                yield collector.kept


def _may_match(query: DecisionQuery, call: RecordedCall) -> bool:
    """Return whether a call may match the query, without deciding it."""
    # Victims are unknown until the call is decided, so every preemption may match a pod.
    name = (query.pod or "").rpartition("/")[2].encode()
    return (
        query.verb in (None, call.verb)
        and (query.since is None or call.history.now >= query.since)
        and (query.pod is None or call.verb == "preempt" or name in call.request)
    )


class _SingleDecision(DecisionLog):
    """Collects one decision, under its recorded ID."""

    def __init__(self, decision_id: str) -> None:
        super().__init__(1, sys.maxsize, facts_share=1)
        self._id = decision_id
        self.kept: KeptDecision | None = None

    def next_id(self, verb: VerbName | Literal["bind"]) -> str:
        return self._id

    def keep(self, kept: KeptDecision) -> None:
        self.kept = kept
