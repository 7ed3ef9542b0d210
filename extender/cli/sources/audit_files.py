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
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import msgspec

from extender.cli.sources.decision_source import DecisionListOptions, DecisionSourceError, parse_since
from extender.k8s.time import parse_time
from extender.report.audit import schema
from extender.report.audit.decisions import describe_decision
from extender.report.audit.schema import BindLine, PreemptLine
from extender.utilities.regular_file import open_regular_file

MAX_LISTED = 100
"""Maximum number of gaps of a process, and of broken lines, that are listed; all are counted."""

MAX_RANGES = 10_000
"""Maximum number of ranges of record numbers that are told apart per process; the first ones are joined."""

MAX_LINE_BYTES = 64 << 20
"""Size above which a line is read, or joined again, in parts: broken lines."""

_BEGIN = b'{"event":"audit'
"""How a record begins, also behind what a container runtime or `kubectl logs --prefix` puts before it."""

_RECORD = re.compile(rb'"event":\s*"audit(?:Started|Stopped|Lost)?"(?:,\s*"timestamp":\s*"([^"]*))?')

_TYPES: dict[str, type[PreemptLine | BindLine]] = {"preempt": PreemptLine, "bind": BindLine}
"""Verb of a decision -> type of its record."""

_ESCAPED = b'{\\"event\\":\\"audit'
"""How a record begins within a string of a JSON object, as log collectors write it."""

_CRI_PART = re.compile(rb"\d{4}-\d\d-\d\dT\S+ (stdout|stderr) ([PF])(?::\S*)? ")
"""What CRI runtimes put before a line or a part of it: time, stream and tags, of which the first is Partial or Full."""

_COMPRESSIONS = {b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2"}
"""First bytes of compressed files that are not read -> program that decompresses them."""

_ROTATED = re.compile(r"(.*?)[.-](\d+(?:-\d+)?)(?:\.gz)?", re.DOTALL)
"""Path of a rotated file: the log, and the time of the rotation or the number of rotations since then."""

_OpenParts = dict[str, tuple[str, int, bytearray]]
"""Stream -> file and number of the first part of a line whose end has not been read, and what has."""

_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


class _DockerPart(msgspec.Struct):
    """A line, or a part of it, as Docker's log driver json-file writes it."""

    log: str
    """Text of the part; the last one ends with a line break."""
    stream: Literal["stdout", "stderr"]
    time: str


class _UnsupportedCompression(Exception):
    """A file is compressed, and not with gzip."""


def read_audit_log(paths: Sequence[str], query: DecisionListOptions) -> schema.AuditReport:
    """Read all files, and keep the latest decisions that match; those that evict the pod of the query come first."""
    if list(paths).count("-") > 1:
        raise DecisionSourceError("--from -: standard input can be read only once")
    files = [file for path in paths for file in _files_of(path)]
    reader = _AuditReader(query, len(files))
    for _, rotated in groupby(files, key=lambda file: _place_of(file)[0]):
        parts: _OpenParts = {}
        for file in rotated:
            number = 0
            try:
                for begin, number, line in _join_parts(file, _read_lines(file), parts):
                    reader.add(begin, number, line)
            except _DAMAGED as error:
                reader.add_broken(file, number + 1, f"the gzip file is damaged from here on: {error}")
            except _UnsupportedCompression as error:
                reader.add_broken(file, 1, str(error))
        for begin, number, joined in parts.values():
            reader.add(begin, number, bytes(joined))
    return reader.report()


def _files_of(path: str) -> list[str]:
    if path == "-" or not os.path.isdir(path):
        return [path]
    files = sorted((entry.path for entry in os.scandir(path) if entry.is_file()), key=_place_of)
    if not files:
        raise DecisionSourceError(f"{path}: has no files")
    return files


def _place_of(file: str) -> tuple[str, int]:
    """Return the log and the place of a file in it: 0.log.20260301-120000.gz and audit.log.1 come before 0.log."""
    found = _ROTATED.fullmatch(file)
    if found is None:
        return file.removesuffix(".gz"), sys.maxsize
    number = int(found[2].replace("-", ""))
    return found[1], number if len(found[2]) >= len("20260301") else -number  # audit.log.2 is older than audit.log.1


def _read_lines(file: str) -> Iterator[bytes]:
    try:
        opened = contextlib.nullcontext(sys.stdin.buffer) if file == "-" else open_regular_file(file)
    except OSError as error:
        hint = "" if os.path.isfile(file) or not os.path.exists(file) else ": --from - reads standard input"
        raise DecisionSourceError(f"{file}: {error.strerror}{hint}") from error
    with opened as stream:
        plain: Any = io.BufferedReader(stream)
        begin = plain.peek(6)
        for magic, name in _COMPRESSIONS.items():
            if begin.startswith(magic):
                raise _UnsupportedCompression(
                    f"compressed with {name}: use {name} -dc FILE | extender explain --from -"
                )
        lines = gzip.GzipFile(fileobj=plain) if begin.startswith(b"\x1f\x8b") else plain
        while line := lines.readline(MAX_LINE_BYTES):
            yield line


def _join_parts(file: str, lines: Iterator[bytes], open_parts: _OpenParts) -> Iterator[tuple[str, int, bytes]]:
    """Yield each line as it was written, with file and number of its first part.

    Container runtimes split it every 16 kB, and rotate their files within it: `open_parts` go on in the next file.
    """
    for number, line in enumerate(lines, 1):
        part = _part_of(line)
        if part is None:
            yield file, number, line
            continue
        stream, text, is_last = part
        begin, first, joined = open_parts.pop(stream, (file, number, bytearray()))
        joined += text
        if is_last or len(joined) >= MAX_LINE_BYTES:
            yield begin, first, bytes(joined)
        else:
            open_parts[stream] = begin, first, joined


def _part_of(line: bytes) -> tuple[str, bytes, bool] | None:
    """Return (stream, text, whether the line ends here) of a line in a container runtime's file; None for any other."""
    if found := _CRI_PART.match(line):
        is_last = found[2] == b"F"
        return found[1].decode(), line[found.end() :] if is_last else line[found.end() :].rstrip(b"\r\n"), is_last
    if line.startswith(b'{"log":'):
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            part = msgspec.json.decode(line, type=_DockerPart)
            return part.stream, part.log.encode(), part.log.endswith("\n")
    return None


@dataclass(slots=True)
class _Range:
    """Records with numbers in a row: read ones, or those that one auditLost names."""

    first: int
    last: int
    begin: str
    """Time of the first record; of lost ones, that of their auditLost."""
    end: str
    reason: str | None = None
    """Why they were lost; None if they were read."""
    has_gaps: bool = False
    """Whether gaps in it are counted already, so that a number in it may be new."""


class _Process:
    """The records of one process, in whatever order they are read."""

    def __init__(self, process: str, since: int) -> None:
        self._since = since
        self._ranges: list[_Range] = []
        self._found = schema.AuditProcess(process=process, begin="", last="", end="open" if process else "unknown")
        self._latest = -1
        self.older = 0
        """Number of records before the time that was asked for."""

    def add(self, record: schema.AuditRecord, number: int | None, now: int) -> bool:
        """Count a record; return False if one with its number was read before."""
        if number is not None and not self._is_new(number, record.timestamp):
            self._found.repeated += 1
            return False
        if number is None:
            self._found.begin = min(self._found.begin or record.timestamp, record.timestamp)
            self._found.last = max(self._found.last, record.timestamp)
        self._latest = max(self._latest, now)
        self.older += now < self._since
        self._found.records += 1
        if record.event == "auditStopped":
            self._found.end = "stopped"
        return True

    def add_lost(self, lost: schema.LostRecord, now: int) -> None:
        """Add the numbers of records that the process could not write, but for those that are known."""
        self._latest, first = max(self._latest, now), lost.first
        index = bisect_right(self._ranges, first, key=lambda one: one.first)
        index -= bool(index and self._ranges[index - 1].last >= first)
        while first <= lost.last:
            known = self._ranges[index] if index < len(self._ranges) else None
            last = lost.last if known is None else min(lost.last, known.first - 1)
            if first <= last:
                self._ranges.insert(index, _Range(first, last, lost.timestamp, lost.timestamp, lost.reason))
                index += 1
            if known is None:
                break
            first, index = known.last + 1, index + 1
        self._limit_ranges()

    def _is_new(self, number: int, timestamp: str) -> bool:
        """Remember the number of a record that was read; return False if it was known."""
        ranges = self._ranges
        index = bisect_right(ranges, number, key=lambda one: one.first)
        before = ranges[index - 1] if index else None
        if before is not None and number <= before.last:
            if before.reason is None:
                return before.has_gaps
            # It was written after all: split what was lost.
            rest = _Range(number + 1, before.last, before.begin, before.end, before.reason)
            before.last = number - 1
            parts = [before, _Range(number, number, timestamp, timestamp), rest]
            ranges[index - 1 : index] = [one for one in parts if one.first <= one.last]
            return True
        after = ranges[index] if index < len(ranges) else None
        joined = before if before is not None and before.reason is None and before.last + 1 == number else None
        behind = after if after is not None and after.reason is None and number + 1 == after.first else None
        if joined is not None and behind is not None:
            joined.last, joined.end, joined.has_gaps = behind.last, behind.end, joined.has_gaps or behind.has_gaps
            del ranges[index]
        elif joined is not None:
            joined.last, joined.end = number, timestamp
        elif behind is not None:
            behind.first, behind.begin = number, timestamp
        else:
            ranges.insert(index, _Range(number, number, timestamp, timestamp))
            self._limit_ranges()
        return True

    def _limit_ranges(self) -> None:
        """Join the first ranges, of which there are too many, once the gaps between them are counted."""
        while len(self._ranges) > MAX_RANGES:
            before, after = self._ranges[:2]
            self._count_gaps(None, before)
            self._count_gaps(before, after)
            self._ranges[:2] = [_Range(before.first, after.last, before.begin, after.end, has_gaps=True)]

    def _count_gaps(self, before: _Range | None, one: _Range) -> None:
        """Count what is missing between two ranges, and what was lost of the second."""
        after = one.begin if before is None else before.end
        if parse_time(one.begin) < self._since:
            return
        removed = 0 if before is None else one.first - before.last - 1
        for missing, reason in ((removed, ""), (0 if one.reason is None else one.last - one.first + 1, one.reason)):
            self._found.missing += missing
            if missing and len(self._found.gaps) < MAX_LISTED:
                gap = schema.AuditGap(missing=missing, after=after, before=one.begin, reason=reason or "")
                self._found.gaps.append(gap)

    def report(self) -> schema.AuditProcess | None:
        """Return what was read; None if it is older than what was asked for."""
        if self._latest < self._since:
            return None
        found, ranges = self._found, self._ranges
        for before, one in zip([None, *ranges], ranges, strict=False):
            self._count_gaps(before, one)
        if ranges:
            found.begin, found.last = ranges[0].begin, ranges[-1].end
            found.earlier, found.next = ranges[0].first, ranges[-1].last + 1
        return found


class _AuditReader:
    """What was read so far."""

    def __init__(self, query: DecisionListOptions, files: int) -> None:
        self._query, self._since = query, parse_since(query, time.time_ns) or 0
        self._name = json.dumps((query.pod or "").rpartition("/")[2])[1:-1].encode()
        """The pod's name or UID as JSON writes it, so that few lines of a long log are decoded in full."""
        self._report = schema.AuditReport(decisions=[], files=files, processes=[])
        self._processes: dict[str, _Process] = {}
        self._kept: list[tuple[bool, int, int, schema.AuditDecision]] = []
        """Heap of (whether it evicts the pod, time, number of the decision, decision)."""

    def add(self, file: str, number: int, line: bytes) -> None:
        """Read a line; `number`: its place in the file."""
        start = 0 if line.startswith(b"{") else line.find(_BEGIN)
        try:
            if start < 0 or not self._read(line[start:]):
                self._report.other_lines += not line.isspace()
        except (ValueError, RecursionError) as error:
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
            if _ESCAPED in line:
                raise ValueError("a record within a JSON string: take it out, as with jq -r .message FILE")
            begin = line[: len(_BEGIN)].rstrip()
            is_begin = len(begin) > 1 and _BEGIN.startswith(begin)
            if is_begin or (b'"process":' in line and b'"sequence":' in line):  # as of a record that was cut off
                msgspec.json.decode(line, type=msgspec.Raw)
            return False
        record = msgspec.json.decode(line, type=schema.AuditRecord)
        lost = msgspec.json.decode(line, type=schema.LostRecord) if record.event == "auditLost" else None
        now, number = parse_time(record.timestamp), record.sequence if record.process else None
        name = record.process if lost is not None or number is not None else ""
        process = self._processes.get(name)
        if process is None:
            process = self._processes[name] = _Process(name, self._since)
        if lost is not None:
            process.add_lost(lost, now)
        elif process.add(record, number, now) and record.event == "audit" and now >= self._since and self._name in line:
            verb = msgspec.json.decode(line, type=schema.AuditLine).verb
            self._consider(msgspec.json.decode(line, type=_TYPES[verb]), now)
        return True

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
        report.older_records = sum(one.older for one in self._processes.values())
        report.processes = [one for one in (process.report() for process in self._processes.values()) if one]
        report.processes.sort(key=lambda one: (one.begin, one.process))
        return report
