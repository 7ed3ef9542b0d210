"""Cache verdicts and scores by scheduling signature, and update only the nodes whose pods changed.

A signature is everything that plugins read of a pod; pods of one template share it. Their verdicts differ only on nodes
whose pods changed in between. Counterpart of opportunistic batching (SignPod and PodSignature of the framework, v1.36),
which kube-scheduler turns off if it has an extender.

Rule: a cached result depends only on the node, the amounts of its pods and the signature; all else needs a filter run.
"""

from dataclasses import fields, replace
from operator import attrgetter

import msgspec
import numpy as np

from extender.core.framework.filter import (
    FilterRun,
    evaluate_constraints,
    filters_not_evaluated,
    last_filter_run,
    without_snapshot,
)
from extender.core.framework.filter_checks import StaticCheck
from extender.core.framework.plugins import SCORES, SCORES_OF_PODS_ON_NODE, SCORES_WITHOUT_PODS
from extender.core.framework.plugins.image_locality import NAME as IMAGE_LOCALITY
from extender.core.framework.plugins.inter_pod_affinity import NAME as INTER_POD_AFFINITY
from extender.core.framework.plugins.node_resources import BaseRequests, ResourceConstraint, Scorer
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.score import cycle_error
from extender.core.framework.status import Code
from extender.core.snapshot.affinity_terms import TargetPod, TermOwnerIndex
from extender.core.snapshot.arrays import BASE_RESOURCES, IntArray, NodeRows
from extender.core.snapshot.derived import MAX_KEY_BYTES, derived
from extender.core.snapshot.pod_table import NO_POD
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod, PodSpec, PodStatus, Volume
from extender.k8s.requests import incoming_requests
from extender.utilities.lru import LRU

_MAX_SIGNATURES = 64
_MAX_CACHED_BYTES = 16 << 20
_BYTES_PER_NODE = 100
"""Memory per signature and node: the columns of its filter run, and usually four to six columns of scores."""

_BASE_RESOURCES = frozenset(BASE_RESOURCES)
_ENCODER = msgspec.msgpack.Encoder()
_SPEC = attrgetter(*(name for name in PodSpec.__struct_fields__ if name != "volumes"))
_SOURCES = attrgetter(*(name for name in Volume.__struct_fields__ if name not in ("name", "image")))
_NO_SOURCES = _SOURCES(Volume())
_ALLOCATED = attrgetter(
    "container_statuses",
    "init_container_statuses",
    "resources",
    "allocated_resources",
    "resource_claim_statuses",
    "extended_resource_claim_status",
)
_NOTHING_ALLOCATED = _ALLOCATED(PodStatus())


def sign_pod(pod: Pod) -> bytes | None:
    """Return the pod's signature; None if it is too long or verdicts depend on claims, disks or pod affinity."""
    metadata, spec, affinity = pod.metadata, pod.spec, pod.spec.affinity
    if affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None):
        return None
    if spec.resource_claims or _ALLOCATED(pod.status) != _NOTHING_ALLOCATED:
        return None
    # Without volume names: the name of a service account token's volume differs from pod to pod.
    images = []
    for volume in spec.volumes or ():
        if _SOURCES(volume) != _NO_SOURCES:
            return None
        if volume.image is not None:
            images.append(volume.image)
    parts = metadata.namespace, metadata.labels, metadata.owner_references, images, _SPEC(spec)
    signature = _ENCODER.encode(parts)
    return signature if len(signature) <= MAX_KEY_BYTES else None


def template_signature(pod: Pod) -> bytes | None:
    """Return a key that pods share if they get the same verdicts, scores and victims on an unchanged snapshot.

    None for a pod that has something of its own: a nomination, resource claims or ephemeral volumes.
    """
    metadata, spec, status, volumes = pod.metadata, pod.spec, pod.status, pod.spec.volumes or ()
    if status.nominated_node_name or spec.resource_claims or _ALLOCATED(status) != _NOTHING_ALLOCATED:
        return None
    if any(volume.ephemeral is not None for volume in volumes):
        return None
    sources = [(_SOURCES(volume), volume.image) for volume in volumes if volume != Volume(name=volume.name)]
    return _ENCODER.encode((metadata.namespace, metadata.labels, metadata.owner_references, sources, _SPEC(spec)))


class NodeVerdicts:
    """Verdicts for the pods of one signature on all nodes."""

    def __init__(self, run: FilterRun, requests: BaseRequests | None) -> None:
        context = run.context
        self.fits = run.codes == Code.SUCCESS
        """[node]: whether the pods fit."""
        rejected = [check.rejected for check in run.checks if isinstance(check, StaticCheck)]
        self._accepted = ~np.logical_or.reduce(rejected, axis=0) if rejected else np.ones(len(run.codes), np.bool_)
        """[node]: whether the pods fit if the node has room."""
        self._requests = requests
        self._not_evaluated = {name: nodes for name, nodes in filters_not_evaluated(context).items() if nodes.any()}
        cached = without_snapshot(run)
        # Without the pod: its fields outside the signature may be large.
        self._run = replace(cached, context=replace(cached.context, pod=NO_POD))
        self._version = self._run_version = context.snapshot.node_versions.latest
        self._target = TargetPod(context.pod.metadata.namespace, context.pod.metadata.labels or {}, ())
        self._has_terms, self._terms_version = _has_terms(context.snapshot, self._target)
        self._scores: _NodeScores | None = None

    @classmethod
    def of(cls, run: FilterRun) -> "NodeVerdicts | None":
        """Return the run's verdicts; None if they depend on more than the amounts of each node's own pods."""
        requests: BaseRequests | None = None
        if not incoming_requests(run.context.pod, run.context.features).keys() <= _BASE_RESOURCES:
            return None  # devices may provide other resources, even those that NodeResourcesFit ignores
        for check in run.checks:
            if isinstance(check, ResourceConstraint) and check.base_requests is not None:
                requests = check.base_requests
            elif not isinstance(check, StaticCheck):
                return None
        return cls(run, requests)

    def follow(self, context: SchedulingContext) -> bool:
        """Update the nodes whose pods changed; return False if a filter run is needed."""
        snapshot = context.snapshot
        if self._run.context.nominees != context.nominees:
            return False
        if self._terms_version != snapshot.index(TermOwnerIndex).version:
            had_terms = self._has_terms
            self._has_terms, self._terms_version = _has_terms(snapshot, self._target)
            if had_terms or self._has_terms:
                return False
        versions = snapshot.node_versions
        if self._version != versions.latest:
            rows = versions.changed_since(self._version, len(self.fits))
            if self._requests is not None:
                self.fits[rows] = self._accepted[rows] & self._requests.fits_on(snapshot, rows)
            self._version = versions.latest
        return True

    def filter_run(self, context: SchedulingContext) -> FilterRun:
        """Return the same FilterRun as `run_filter_plugins`; call `follow` first."""
        if self._run_version != self._version:
            checks = [
                check.with_current_pods(context.snapshot) if isinstance(check, ResourceConstraint) else check
                for check in self._run.checks
            ]
            now = evaluate_constraints(checks, len(self.fits))
            results = {field.name: getattr(now, field.name) for field in fields(now)}
            self._run, self._run_version = replace(self._run, **results), self._version
        return replace(self._run, context=context)

    def not_evaluated_on(self, rows: NodeRows) -> tuple[str, ...]:
        """Return the plugins that only kube-scheduler evaluates on at least one of `rows`."""
        return tuple([name for name, nodes in self._not_evaluated.items() if nodes[rows].any()])

    def scores(self, context: SchedulingContext) -> dict[str, IntArray | None]:
        """Return plugin -> its scores (see SCORES) on all nodes, after `follow`; the next call updates the arrays."""
        if self._scores is None:
            self._scores = _NodeScores(context)
        else:
            self._scores.follow(context)
        return self._scores.of_plugin


class _NodeScores:
    """Scores of all nodes for the pods of one signature, by the plugins whose scores can be updated node by node."""

    def __init__(self, context: SchedulingContext) -> None:
        self.of_plugin: dict[str, IntArray | None] = {}
        self._version, self._images = context.snapshot.node_versions.latest, _images(context.snapshot)
        self._rows = np.arange(len(context.snapshot.nodes))
        self._scorers: dict[str, Scorer | None] = {}
        if cycle_error(context) is not None or not len(self._rows):
            return
        self._scorers = {name: scorer(context) for name, scorer in SCORES_OF_PODS_ON_NODE.items()}
        for name, _ in context.profile.score_weights:
            scores = SCORES[name](context, self._rows) if name in SCORES else None
            # None is final: the pod has nothing that the plugin scores.
            if scores is None or name in _CACHED_SCORES:
                self.of_plugin[name] = scores

    def follow(self, context: SchedulingContext) -> None:
        """Rescore the nodes whose pods changed, and all nodes by ImageLocality if any node's images changed."""
        snapshot, versions, images = context.snapshot, context.snapshot.node_versions, _images(context.snapshot)
        if self._version != versions.latest:
            rows = versions.changed_since(self._version, len(self._rows))
            for name, scorer in self._scorers.items():
                column = self.of_plugin.get(name)
                if scorer is not None and column is not None:
                    column[rows] = scorer(snapshot, rows)
        if self._images is not images and IMAGE_LOCALITY in self.of_plugin:
            self.of_plugin[IMAGE_LOCALITY] = SCORES[IMAGE_LOCALITY](context, self._rows)
        self._version, self._images = versions.latest, images


_CACHED_SCORES = {*SCORES_WITHOUT_PODS, *SCORES_OF_PODS_ON_NODE, INTER_POD_AFFINITY}
"""Plugins whose scores are cached; InterPodAffinity, because `follow` returns False once other pods' terms matter."""


def _has_terms(snapshot: Snapshot, target: TargetPod) -> tuple[bool, int]:
    """Return whether a running pod has a pod affinity term that can match the pod, and the index's version."""
    index = snapshot.index(TermOwnerIndex)
    return any(True for _ in index.owners_for(target)), index.version


def cached_verdicts(context: SchedulingContext) -> NodeVerdicts | None:
    """Return the current verdicts for the incoming pod's signature; None if the pod needs its own filter run."""
    snapshot = context.snapshot
    signature = sign_pod(context.pod)
    # Without namespaces, InterPodAffinity is evaluated only while no running pod has a namespaceSelector.
    if signature is None or "namespaces" in snapshot.unreadable_tables:
        return None
    cache, key = _cache(snapshot), (id(context.profile), snapshot.unreadable_tables, signature)
    verdicts = cache.pop(key, None)
    if verdicts is None or not verdicts.follow(context):
        verdicts = NodeVerdicts.of(last_filter_run(context))
        if verdicts is None:
            return None
    cache.put(key, verdicts)
    return verdicts


@derived(
    "nodes",
    "node_label_keys",
    "taints",
    "allocatable",
    "namespaces",
    "services",
    "replication_controllers",
    "replica_sets",
    "stateful_sets",
    "device_classes",
)
def _cache(snapshot: Snapshot) -> LRU[tuple[int, frozenset[str], bytes], NodeVerdicts]:
    """Return the cache: (id of the profile, unreadable tables, signature) -> verdicts."""
    return LRU(min(_MAX_SIGNATURES, 1 + _MAX_CACHED_BYTES // (_BYTES_PER_NODE * len(snapshot.nodes) + 1)))


@derived("images")
def _images(_snapshot: Snapshot) -> object:
    """Return a token that changes whenever any node's images change."""
    return object()
