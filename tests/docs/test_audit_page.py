"""docs/audit.md: every key of a line is explained, its examples are lines, and what it says of limits is true."""

import re
from pathlib import Path

import msgspec
import pytest

from extender.report.audit.schema import (
    AuditBudget,
    AuditKind,
    AuditNode,
    BindLine,
    LostRecord,
    PreemptLine,
    ProcessRecord,
)
from extender.server.observability import audit_log
from extender.utilities import log_throttle

PAGE = (Path(__file__).parents[2] / "docs/audit.md").read_text()
LINES: dict[str, type[msgspec.Struct]] = {
    "preempt": PreemptLine,
    "bind": BindLine,
    "auditStarted": ProcessRecord,
    "auditStopped": ProcessRecord,
    "auditLost": LostRecord,
}


def examples():
    found = [text.replace("\n", "") for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    return {re.findall(r'"(?:verb|event)":"(preempt|bind|audit[A-Z]\w+)"', text)[0]: text for text in found}


@pytest.mark.parametrize("verb", LINES)
def test_the_example_is_a_line(verb):
    line = msgspec.json.decode(examples()[verb], type=LINES[verb], strict=True)
    assert msgspec.json.decode(msgspec.json.encode(line)) == msgspec.json.decode(examples()[verb])


@pytest.mark.parametrize("kind", [PreemptLine, BindLine, AuditNode, AuditBudget, AuditKind, ProcessRecord, LostRecord])
def test_every_key_is_on_the_page(kind):
    for key in kind.__struct_encode_fields__:
        assert re.search(rf'[`"]{key}[`":]', PAGE) or key in ("timestamp", "verb", "event"), key


def test_the_limits_are_those_of_the_code():
    assert (
        audit_log.MAX_WAIT_SECONDS,
        audit_log.MAX_QUEUED_BYTES,
        log_throttle.LOG_INTERVAL_SECONDS,
        audit_log.STOP_TIMEOUT_SECONDS,
    ) == (
        0.1,
        16 << 20,
        10.0,
        2.0,
    )
    for said in ("at most 100 ms", "Up to 16 MiB", "at most every 10 s", "up to 2 s"):
        assert said in PAGE
