"""Read an audit log: files, directories with rotated ones, standard input.

Rule: memory does not grow with the log: the query limits the decisions, MAX_LISTED the rest.
"""

import contextlib
import gzip
import heapq
import io
import json
import os
import re
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from extender.cli.sources.decision_source import DecisionListOptions, DecisionSourceError, parse_since
from extender.k8s.time import parse_time
from extender.report.audit import schema
from extender.report.audit.decisions import describe_decision
from extender.report.audit.schema import BindLine, PreemptLine
from extender.utilities.regular_file import open_regular_file

MAX_LISTED = 100
"""Maximum number of gaps of a process, and of broken lines, that are listed; all are counted."""

MAX_LINE_BYTES = 64 << 20
"""Size above which a line is read in parts: broken lines."""

_BEGIN = b'{"event":"audit'
"""How a record begins, also behind what a container runtime or `kubectl logs --prefix` puts before it."""

_RECORD = re.compile(rb'"event":\s*"audit(?:Started|Stopped|Lost)?"(?:,\s*"timestamp":\s*"([^"]*))?')

_TYPES: dict[str, type[PreemptLine | BindLine]] = {"preempt": PreemptLine, "bind": BindLine}
"""Verb of a decision -> type of its record."""

_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


def read_audit_log(paths: Sequence[str], query: DecisionListOptions) -> schema.AuditReport:
    """Read all files, and keep the latest decisions that match; those that evict the pod of the query come first."""
    files = [file for path in paths for file in _files_of(path)]
    reader = _AuditReader(query, len(files))
    for file in sorted(files, key=_begin) if len(files) > 1 else files:
        number = 0
        try:
            for number, line in enumerate(_read_lines(file), 1):
                reader.add(file, number, line)
        except _DAMAGED as error:
            reader.add_broken(file, number + 1, f"the gzip file is damaged from here on: {error}")
    return reader.report()


def _files_of(path: str) -> list[str]:
    if path == "-" or not os.path.isdir(path):
        return [path]
    files = [entry.path for entry in os.scandir(path) if entry.is_file()]
    if not files:
        raise DecisionSourceError(f"{path}: has no files")
    return files


def _begin(file: str) -> tuple[bytes, str]:
    """Return the time of the first record, as rotated files are named in any order; standard input is read last."""
    found = None
    with contextlib.suppress(*_DAMAGED):
        found = next(filter(None, map(_RECORD.search, _read_lines(file))), None) if file != "-" else None
    return (found and found[1]) or b"~", file


def _read_lines(file: str) -> Iterator[bytes]:
    with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else open_regular_file(file) as stream:
        plain: Any = io.BufferedReader(stream)
        lines = gzip.GzipFile(fileobj=plain) if plain.peek(2).startswith(b"\x1f\x8b") else plain
        while line := lines.readline(MAX_LINE_BYTES):
            yield line


class _AuditReader:
    """What was read so far."""

    def __init__(self, query: DecisionListOptions, files: int) -> None:
        self._query, self._since = query, parse_since(query, time.time_ns) or 0
        self._name = json.dumps((query.pod or "").rpartition("/")[2])[1:-1].encode()
        """The pod's name or UID as JSON writes it, so that few lines of a long log are decoded in full."""
        self._report = schema.AuditReport(decisions=[], files=files, processes=[])
        self._processes: dict[str, schema.AuditProcess] = {}
        self._kept: list[tuple[bool, int, int, schema.AuditDecision]] = []
        """Heap of (whether it evicts the pod, time, number of the decision, decision)."""

    def add(self, file: str, number: int, line: bytes) -> None:
        """Read a line; `number`: its place in the file."""
        start = 0 if line.startswith(b"{") else line.find(_BEGIN)
        try:
            if start < 0 or not self._read(line[start:]):
                self._report.other_lines += not line.isspace()
        except ValueError as error:
            self.add_broken(file, number, str(error))
            # A process that was killed within a line, and another one that went on behind it.
            if (behind := line.rfind(_BEGIN)) > start:
                self.add(file, number, line[behind:])

    def add_broken(self, file: str, number: int, reason: str) -> None:
        self._report.broken_lines += 1
        if len(self._report.broken) < MAX_LISTED:
            self._report.broken.append(schema.BrokenLine(file=file, line=number, reason=reason))

    def _read(self, line: bytes) -> bool:
        """Read a record; return False for a line of another program. Raises ValueError for a broken line."""
        if _RECORD.search(line) is None:
            if line.startswith(b"{"):
                msgspec.json.decode(line, type=msgspec.Raw)
            return False
        record = msgspec.json.decode(line, type=schema.AuditRecord)
        lost = msgspec.json.decode(line, type=schema.LostRecord) if record.event == "auditLost" else None
        now = parse_time(record.timestamp)
        if self._count(record, lost, now) and record.event == "audit" and now >= self._since and self._name in line:
            verb = msgspec.json.decode(line, type=schema.AuditLine).verb
            self._consider(msgspec.json.decode(line, type=_TYPES[verb]), now)
        return True

    def _count(self, record: schema.AuditRecord, lost: schema.LostRecord | None, now: int) -> bool:
        """Count a record, and those that are missing before it; return False if it is not a new one with a number."""
        first = lost.first if lost is not None else record.sequence or 0
        begun = schema.AuditProcess(
            process=record.process, begin=record.timestamp, last=record.timestamp, end="open", next=first, earlier=first
        )
        process = self._processes.setdefault(record.process, begun)
        number = first if lost is None else lost.last + 1
        missing = number - process.next if record.process else 0
        if missing < 0:
            process.repeated += lost is None
            return False
        if missing and now >= self._since:
            process.missing += missing
            if len(process.gaps) < MAX_LISTED:
                reason = "" if lost is None else lost.reason
                gap = schema.AuditGap(missing=missing, after=process.last, before=record.timestamp, reason=reason)
                process.gaps.append(gap)
        process.last, process.next = record.timestamp, number
        if lost is None:
            process.records, process.next = process.records + 1, number + 1
            process.end = "stopped" if record.event == "auditStopped" else "open" if record.process else "unknown"
        return lost is None

    def _consider(self, line: PreemptLine | BindLine, now: int) -> None:
        """Keep a decision that matches, unless those that are kept come first."""
        decision = describe_decision(line, self._query.pod) if self._query.verb in (None, line.verb) else None
        if decision is not None:
            self._report.others += 1
            is_eviction = decision.role == "victim" and line.mode == "answered"
            heapq.heappush(self._kept, (is_eviction, now, self._report.others, decision))
            if len(self._kept) > self._query.limit:
                heapq.heappop(self._kept)

    def report(self) -> schema.AuditReport:
        """Return what was read."""
        report = self._report
        report.decisions = [decision for *_, decision in sorted(self._kept, reverse=True)]
        report.others -= len(report.decisions)
        report.processes = [one for one in self._processes.values() if parse_time(one.last) >= self._since]
        report.processes.sort(key=lambda one: one.begin)
        return report
