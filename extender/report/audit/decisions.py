"""Say what an audit log says: of a decision, of records that are missing, and of lines that were not read.

Rule: a sentence states only what records say; without a stop record, no process is said to be complete.
"""

from collections.abc import Iterator

from extender.report.audit import schema
from extender.report.audit.schema import AuditDecision, BindLine, PreemptLine
from extender.report.wording import AUDIT_ENDS, DECISION_OUTCOMES
from extender.utilities.text import join_names, pluralize

MAX_LISTED = 3
"""Maximum number of victims, reasons, gaps or broken lines that a sentence lists."""


def describe_decision(line: PreemptLine | BindLine, subject: str | None) -> AuditDecision | None:
    """Return the decision, or None if it is not about the subject, the name or UID of a pod or the ID of a decision."""
    role: schema.AuditRole | None = None
    pod: schema.AuditPod | None = None
    node = line.kept[0] if isinstance(line, PreemptLine) and line.kept else None
    if subject not in (None, line.id, f"{line.process}/{line.id}"):
        found = next((one for one in _pods(line) if subject in (pod_key(one[1]), one[1].name, one[1].uid)), None)
        if found is None:
            return None
        role, pod, node = found[0], found[1], found[2] or node
    if isinstance(line, BindLine):
        bound = pod_key(line.pod) if line.pod else "a pod whose request was not read"
        done, why = ("binds", "") if line.outcome == "bound" else ("does not bind", f": {line.error or line.outcome}")
        sentence = f"{line.id} {done} {bound} to {line.node}{why}"
        return AuditDecision(sentence=sentence, role=role, node=line.node, record=line)
    name = None if node is None else node.node
    return AuditDecision(sentence=_preempt_sentence(line, node, pod), role=role, node=name, record=line)


def pod_key(pod: schema.AuditPod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _pods(line: PreemptLine | BindLine) -> Iterator[tuple[schema.AuditRole, schema.AuditPod, schema.AuditNode | None]]:
    """Yield the pods of a decision with their roles; of a victim, the node from which it is evicted."""
    if isinstance(line, PreemptLine):
        yield from (("victim", victim, node) for node in line.kept for victim in node.victims)
        if line.preemptor is not None:
            yield "preemptor", line.preemptor, None
    elif line.pod is not None:
        yield "bound", line.pod, None


def _preempt_sentence(line: PreemptLine, node: schema.AuditNode | None, first: schema.AuditPod | None) -> str:
    """Return the sentence about the victims of a node; `first`: the victim that it names first."""
    pod = pod_key(line.preemptor) if line.preemptor else "a pod whose request was not read"
    verb = "would evict" if line.mode == "observed" else "evicts"
    if node is None:
        dropped = [f"{why} ({pluralize(len(nodes), 'node')})" for why, nodes in line.dropped.items()]
        outcome = "passthrough" if line.mode == "passthrough" else "noVictims"
        why = line.vetoed or line.error or join_names(dropped, MAX_LISTED) or DECISION_OUTCOMES[outcome].meaning
        return f"{line.id} {verb} no pod for {pod}: {why}"
    victims = join_names([pod_key(one) for one in sorted(node.victims, key=lambda one: one is not first)], MAX_LISTED)
    among = f"; kube-scheduler chooses among {len(line.kept)} nodes" if len(line.kept) > 1 else ""
    return f"{line.id} {verb} {victims} from {node.node} for {pod}{among}"


def describe_log(report: schema.AuditReport, since: str | None) -> Iterator[str]:
    """Yield what was read and what is missing, one sentence each; `since`: as --since has it."""
    if not report.processes and report.older_records:
        yield f"no audit record since {since}, {pluralize(report.older_records, 'older one')}"
    elif not report.processes:
        yield "no audit record was read"
    for process in report.processes:
        yield from _describe_process(process)
    if report.other_lines:
        yield f"{pluralize(report.other_lines, 'line')} of other programs passed over"
    if report.broken_lines:
        broken = [f"{one.file} line {one.line} ({one.reason})" for one in report.broken]
        yield f"{pluralize(report.broken_lines, 'broken line')}: {join_names(broken, MAX_LISTED, report.broken_lines)}"


def _describe_process(process: schema.AuditProcess) -> Iterator[str]:
    name = process.process or "without a process"
    records, end = pluralize(process.records, "record"), AUDIT_ENDS[process.end]
    yield f"{name}: {records}, {process.begin} to {process.last}; {end}"
    if process.earlier:
        yield f"{name}: {pluralize(process.earlier, 'earlier record')} not in what was read"
    if process.missing:
        gaps = [
            f"{one.missing} between {one.after} and {one.before} ({one.reason or 'removed or broken later'})"
            for one in process.gaps
        ]
        missing = pluralize(process.missing, "record")
        yield f"{name}: {missing} missing: {join_names(gaps, MAX_LISTED)}"
    if process.repeated:
        yield f"{name}: {pluralize(process.repeated, 'record')} passed over, as they came again"
