"""Describe the kube-scheduler that verdicts follow, the policies in effect, and the limitations of all verdicts.

Decisions, `why`, `simulate`, `/status` and recordings show these facts.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from extender.core.profile import UPSTREAM, KubeScheduler, Profile
from extender.k8s.objects import Node
from extender.k8s.time import SECOND
from extender.k8s.version.faults import known_faults
from extender.k8s.version.found import FoundVersion
from extender.k8s.version.versions import Version, parse_version
from extender.report.schema import SchedulerReport, SourceReport
from extender.report.wording import KUBELET_VERSIONS, VERSION_FOUND
from extender.utilities.source_file import SourceFile
from extender.utilities.text import join_names, pluralize

S = TypeVar("S", bound=Struct)

MAX_RESOURCES = 6
"""Maximum number of an extender's managed resources that a note names."""

_DURATIONS = ("min_pending_duration", "workload_cooldown", "attempts_within")


def report_scheduler(scheduler: KubeScheduler, profile: Profile | None) -> SchedulerReport:
    """Describe the version and the profile that evaluated a pod; `profile`: None if none has its schedulerName."""
    return SchedulerReport(
        version=scheduler.version,
        release=scheduler.release,
        version_source=scheduler.version_source,
        feature_gates=scheduler.changed_gates,
        profile=None if profile is None else profile.scheduler_name,
        not_evaluated_plugins=[] if profile is None else list(profile.not_evaluated_plugins),
    )


def with_version_hint(
    source: SourceReport, scheduler: KubeScheduler, nodes: Iterable[Node], found: FoundVersion | None
) -> SourceReport:
    """Add a sentence if the kubelets, or the version found in the cluster, suggest another minor than `scheduler`'s."""
    kubelets: Counter[int] = Counter()
    for node in nodes:
        with contextlib.suppress(ValueError):  # a vendor's own numbering
            if node.status.node_info is not None:
                kubelets[parse_version(node.status.node_info.kubelet_version).minor] += 1
    hint, newest = "", max(kubelets, default=scheduler.minor)
    if found is not None and found.minor != scheduler.minor:
        hint = VERSION_FOUND.format(found=found.version, source=found.source, assumed=scheduler.version)
    # A kubelet may be older than kube-scheduler, but not newer.
    elif newest > scheduler.minor or (newest != scheduler.minor and scheduler.is_version_assumed):
        counts = ", ".join(f"1.{minor} on {pluralize(count, 'node')}" for minor, count in sorted(kubelets.items()))
        hint = KUBELET_VERSIONS.format(kubelets=counts, newest=f"1.{newest}", assumed=scheduler.version)
    return replace(source, version_hint=hint)


def source_of_files(files: Sequence[SourceFile], otherwise: SourceReport) -> SourceReport:
    """Return the source of a cluster that was read from files; without files, the other source."""
    return replace(otherwise, kind="file", files=[*files]) if files else otherwise


def with_source(answer: S, source: SourceReport) -> S:
    """Return a diagnosis, a list of pending pods or a simulation with its source."""
    return replace(answer, source=source)


def changed_policies(profile: Profile) -> list[str]:
    """List the preemption settings that differ from kube-scheduler's behaviour, as `key: value`."""
    upstream, policy = UPSTREAM.preemption, profile.preemption
    found = list(_changed(policy, upstream))
    found += [f"limits.{one}" for one in _changed(policy.limits, upstream.limits)]
    if profile.keep_candidates != UPSTREAM.keep_candidates:
        found.append(f"keepCandidates: {profile.keep_candidates or 'All'}")
    return found


def _changed(policy: Any, upstream: Any) -> Iterator[str]:
    """Yield `key: value` for every field that differs; `limits` is a section of its own."""
    for field in fields(policy):
        value = getattr(policy, field.name)
        if value == getattr(upstream, field.name) or field.name == "limits":
            continue
        key = re.sub("_(.)", lambda match: match[1].upper(), field.name)
        if field.name in _DURATIONS:
            yield f"{key}: {value / SECOND:g}s"
        elif field.name == "protections":
            # One setting may create several protections, which have the same name.
            yield f"{key}: {', '.join(dict.fromkeys(protection.name for protection in value))}"
        else:
            yield f"{key}: {', '.join(map(str, value)) if isinstance(value, tuple) else value}"


def extender_notes(scheduler: KubeScheduler) -> Iterator[str]:
    """Yield a note about each other extender: its verbs, and the pods for which kube-scheduler calls it."""
    for one in scheduler.profiles[0].other_extenders if scheduler.profiles else ():
        resources = join_names(sorted(one.managed_resources), MAX_RESOURCES)
        pods = f"pods that request {resources}; a pod that requests none of them is not sent to it"
        calls = f"{one.name} is not evaluated: after its own filters, kube-scheduler calls its {', '.join(one.verbs)}"
        yield f"{calls} for {pods if resources else 'every pod'}"


def limitations(scheduler: KubeScheduler) -> list[str]:
    """List the limitations of our verdicts: known bugs, other extenders, node sampling, and plugins not evaluated."""
    notes = [*known_faults(Version(scheduler.minor, scheduler.patch)), *extender_notes(scheduler)]
    if scheduler.has_second_document:
        notes.append("kube-scheduler's file has several documents: kube-scheduler reads only the first")
    for profile in scheduler.profiles:
        name = f"profile {profile.scheduler_name}"
        # 0, the adaptive default, is not noted: the note would appear under every verdict.
        if profile.percentage_of_nodes_to_score not in (0, 100):
            share = f"{name}: percentageOfNodesToScore is {profile.percentage_of_nodes_to_score}"
            notes.append(f"{share}: kube-scheduler stops once it has found enough feasible nodes; here all are judged")
        asked = profile.min_candidate_nodes_percentage, profile.min_candidate_nodes_absolute
        if asked != (UPSTREAM.min_candidate_nodes_percentage, UPSTREAM.min_candidate_nodes_absolute):
            limits = f"minCandidateNodesPercentage is {asked[0]} and minCandidateNodesAbsolute {asked[1]}"
            notes.append(f"{name}: {limits}: kube-scheduler's dry run tries that many nodes; here all are tried")
        if profile.not_evaluated_plugins:
            notes.append(f"{name}: plugins that are not evaluated: {', '.join(profile.not_evaluated_plugins)}")
    return notes
