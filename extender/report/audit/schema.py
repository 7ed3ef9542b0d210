"""The schema of the audit log: its records as the service writes them, and what `extender explain --from` says of them.

docs/audit.md documents every key of a record.

Rule: types only; a record holds only names, UIDs, priorities and counts.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import field

from extender.report.schema import DecisionMode


class AuditStruct(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """Base of the audit types: keys in camelCase; a key with its default value is omitted."""


SequenceNumber = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

# --- records ----------------------------------------------------------------------------------------------------------


class AuditPod(AuditStruct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str


class AuditPreemptor(AuditPod, frozen=True, kw_only=True):
    priority: int
    scheduler_name: str


class AuditVictim(AuditPod, frozen=True, kw_only=True):
    priority: int
    budgets: list[str]
    """`namespace/name` of the disruption budgets that its eviction counts against."""


class AuditBudget(AuditStruct, frozen=True, kw_only=True):
    name: str
    before: int | None
    """Disruptions allowed before the evictions, as the decision counted them; None if unlimited, as for unready pods
    with unhealthyPodEvictionPolicy AlwaysAllow."""
    after: int | None
    """Disruptions allowed after evicting the victims of this node; below 0 if the budget is violated."""


class AuditNode(AuditStruct, frozen=True, kw_only=True):
    node: str
    victims: list[AuditVictim]
    """Most important first."""
    num_pdb_violations: int = field(name="numPDBViolations")
    budgets: list[AuditBudget]
    """The budgets that the victims count against."""


class AuditKind(AuditStruct, frozen=True, kw_only=True):
    version: str
    age: float | None
    """Seconds since the last list, event or bookmark of this kind; None if it was never listed."""


class AuditCache(AuditStruct, frozen=True, kw_only=True):
    version: int
    """Number of changes of the cluster cache since the start; 0 if it was never filled."""
    kinds: dict[str, AuditKind] = {}
    """Kind -> state of its reflector; empty unless the source is a live cluster."""


class AuditRecord(AuditStruct, frozen=True, kw_only=True):
    """A line of the audit log."""

    event: str
    timestamp: str
    process: str = ""
    """ID of the process that wrote it: host name, `_` and a number that each start draws. Empty in older logs."""
    sequence: SequenceNumber | None = None
    """Number of the record, counted from the start of the process; None in older logs, and in a LostRecord."""


class ProcessRecord(AuditRecord, frozen=True, kw_only=True):
    """The first record of a process, which has the sequence number 0, or the last one of a graceful shutdown."""

    event: Literal["auditStarted", "auditStopped"]
    version: str
    """Version of the extender."""


class LostRecord(AuditRecord, frozen=True, kw_only=True):
    """Says that records could not be written; it stands where they would be, and has no sequence number of its own."""

    event: Literal["auditLost"]
    first: SequenceNumber
    """Sequence number of the first lost record."""
    last: SequenceNumber
    reason: str
    """Why the last of them was lost."""


class AuditLine(AuditRecord, frozen=True, kw_only=True):
    event: Literal["audit"]
    id: str
    """ID of the decision, as in X-Extender-Decision and /decisions."""
    verb: Literal["preempt", "bind"]
    mode: DecisionMode
    status: int
    """HTTP status of the answer."""


class PreemptLine(AuditLine, frozen=True, kw_only=True):
    answer: Literal["decided", "noVictims", "asSent", "error"]
    """The answer: the nodes of the decision (`decided`), no victims (`noVictims`), kube-scheduler's own
    candidates (`asSent`), or an error (`error`)."""
    milliseconds: float
    """Duration from the parsed request to the decision."""
    preemptor: AuditPreemptor | None = None
    """The preemptor; None if the call failed before its request was parsed."""
    sent: int = 0
    """Number of candidates that kube-scheduler sent."""
    kept: list[AuditNode] = []
    """Candidates of the decision, best first."""
    dropped: dict[str, list[str]] = {}
    """Reason -> sent candidates that were rejected for it."""
    vetoed: str | None = None
    """Reason why the decision evicts no pods."""
    error: str | None = None
    """Reason why the decision failed."""
    not_evaluated: list[str] = []
    """Filter plugins left to kube-scheduler."""
    scheduler_version: str | None = None
    """Minor version of kube-scheduler that the decision followed; None if the call failed before its request was
    parsed."""
    scheduler_release: str | None = None
    """Minor version and patch; the minor alone if the patch is unknown."""
    policies: list[str] = []
    """Keys of `preemption` that differ from kube-scheduler's own, with their values."""
    cache: AuditCache


class BindLine(AuditLine, frozen=True, kw_only=True):
    milliseconds: float
    """Duration from the parsed request to the last response of the API server."""
    pod: AuditPod | None = None
    """The pod to bind; None if the call failed before its request was parsed."""
    node: str | None = None
    outcome: Literal["bound", "refused", "unknown"] | None = None
    """Outcome of the binding; None if the call failed before a Binding was sent."""
    error: str = ""
    """The error in the answer; empty if the pod is bound."""
    tries: int = 0
    """Number of Bindings sent."""


# --- what was read ----------------------------------------------------------------------------------------------------

AuditRole = Literal["victim", "preemptor", "bound"]
"""Role of a pod in an audited decision."""


class AuditDecision(AuditStruct, frozen=True, kw_only=True):
    """An audited decision: its record, and what it says in one sentence."""

    sentence: str
    role: AuditRole | None = None
    """Role of the pod that was asked for; None if none was."""
    node: str | None = None
    """Node from which that pod is evicted, or else the best one; None if no pod is evicted or bound."""
    record: PreemptLine | BindLine


AuditEnd = Literal["stopped", "open", "unknown"]
"""How the records of a process end. `stopped`: with a stop record, so that none is missing at the end; `open`: without
it, so that the process still ran or was killed; `unknown`: without sequence numbers."""


class AuditGap(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """Records that are missing between two that are there."""

    missing: int
    after: str
    """Time of the last record before the gap."""
    before: str
    """Time of the first record after it."""
    reason: str = ""
    """Why the process could not write them; empty: no record says it, so they were removed or broken later."""


class AuditProcess(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """The records of one start of one replica."""

    process: str = ""
    """ID of the process; empty for all records without sequence numbers."""
    begin: str
    """Time of the first record that was read."""
    last: str
    """Time of the last one."""
    end: AuditEnd
    records: int = 0
    next: int = 0
    """Sequence number after that of the last record."""
    earlier: int = 0
    """Number of records before the first one that was read."""
    missing: int = 0
    """Number of records that are missing between those that were read."""
    gaps: list[AuditGap] = []
    """Where they are missing; at most the first 100."""
    repeated: int = 0
    """Number of records that came again, and were passed over."""


class BrokenLine(AuditStruct, frozen=True, kw_only=True):
    """A line that cannot be read."""

    file: str
    line: int
    reason: str


class AuditReport(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """What an audit log says: the JSON of `extender explain --from`."""

    decisions: list[AuditDecision]
    """The latest first; evictions of the pod that was asked for before its other decisions."""
    others: int = 0
    """Number of further decisions that match."""
    files: int
    processes: list[AuditProcess]
    """Processes whose records were read, in the order of their first ones."""
    older_records: int = 0
    """Number of records before `--since`."""
    other_lines: int = 0
    """Number of lines of other programs."""
    broken_lines: int = 0
    broken: list[BrokenLine] = []
    """The first 100 lines that cannot be read."""
