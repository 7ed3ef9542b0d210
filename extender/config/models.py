"""Schema of the configuration file: every key, its default and its validation.

KubeSchedulerConfiguration is in `scheduler`. The docstring of a field is its documentation; `extender config show`
prints it.

Rule: every field has a default; with the defaults, we decide as an unconfigured kube-scheduler does.
"""

# ruff: noqa: RUF012  # pydantic copies defaults
from typing import Annotated, Literal

from pydantic import AfterValidator, PlainValidator, StrictBool, model_validator
from pydantic.alias_generators import to_camel

from extender.config.decoding import Section
from extender.config.preemption import PreemptionSection
from extender.config.scheduler.schema import Percentage, ProfileSection
from extender.config.serving import (
    AdminSection,
    AuditSection,
    DebugSection,
    EventsSection,
    LogSection,
    RecordingSection,
    ServerSection,
    TracingSection,
)
from extender.config.values import Duration, NonEmptyText, PositiveDuration, minor_version, scheduler_version
from extender.k8s.version.gates import Emulation
from extender.k8s.version.versions import parse_version

# --- the file -------------------------------------------------------------------------------------------------------


def _cluster_path(given: object) -> str | tuple[str, ...] | None:
    """Check one path or a list of them."""
    paths = given if isinstance(given, list | tuple) and given else [given]
    if given is not None and not all(isinstance(path, str) and path for path in paths):
        raise ValueError("must be a path that is not empty, or a list of paths")
    return given if isinstance(given, str | None) else tuple(map(str, paths))


class ClusterSection(Section):
    source: Literal["files", "kubernetes"] = "files"
    """Source of the cluster cache. files: manifests as `kubectl get -o json` or `-o yaml` prints them. kubernetes: list
    and watch against an API server."""
    path: Annotated[str | tuple[str, ...] | None, PlainValidator(_cluster_path)] = None
    """files: the file or directory to read, with its sub-directories, or a list of them; unset: the example cluster
    that ships with the extender."""
    reload_interval: Duration = 2.0
    """files: how often to check the files for changes; 0s: read them once."""
    kubeconfig: NonEmptyText | None = None
    """kubernetes: the kubeconfig to use; unset: the service account when running in a pod, else $KUBECONFIG or
    ~/.kube/config."""
    context: NonEmptyText | None = None
    """kubernetes: the kubeconfig context to use; unset: its current context."""
    stale_after: Duration = 30.0
    """kubernetes: how long the watch of a kind may be interrupted before the cache counts as stale and calls fail."""
    verify_interval: Duration = 1800.0
    """kubernetes: how often names and resourceVersions of all cached objects are compared with the API server's; a
    difference is logged and relisted. 0s: never, not even after a broken watch."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file and directory to read."""
        return (self.path,) if isinstance(self.path, str) else self.path or ()

    @model_validator(mode="after")
    def _settings_match_source(self) -> "ClusterSection":
        foreign = {"files": ("kubeconfig", "context"), "kubernetes": ("path",)}[self.source]
        for name in foreign:
            if getattr(self, name) is not None:
                raise ValueError(f"{to_camel(name)} cannot be set with source: {self.source}")
        return self


class SchedulerSection(Section):
    config: NonEmptyText | None = None
    """kube-scheduler's own configuration file (KubeSchedulerConfiguration, kubescheduler.config.k8s.io/v1); unset: the
    profiles below. Followed as this file is."""
    profiles: list[ProfileSection] = []
    """Profiles with the schema of KubeSchedulerConfiguration, where no file is wanted; []: kube-scheduler's default."""
    percentage_of_nodes_to_score: Percentage | None = None
    """Share of nodes that kube-scheduler scores, for simulations; 0: it depends on the size of the cluster."""
    version: Annotated[str, AfterValidator(scheduler_version)] = "auto"
    """Version of kube-scheduler, 1.36.2 or, for the newest patch, 1.36; 1.29 to 1.37 verified, 1.38 not; auto: that of
    the kube-scheduler in the cluster, else the API server's, else 1.37."""
    feature_gates: dict[str, StrictBool] = {}
    """kube-scheduler's --feature-gates: gate to true or false, such as {StorageCapacityScoring: false}."""
    emulated_version: Annotated[str, AfterValidator(minor_version)] | None = None
    """kube-scheduler's --emulated-version, such as "1.36": the version whose feature gates it has; unset: its own."""
    min_compatibility_version: Annotated[str, AfterValidator(minor_version)] | None = None
    """kube-scheduler's --min-compatibility-version; unset: one minor before the version that it emulates."""

    @property
    def emulation(self) -> Emulation:
        """Return the minors of --emulated-version and --min-compatibility-version."""
        given = (self.emulated_version, self.min_compatibility_version)
        return Emulation(*(None if one is None else parse_version(one).minor for one in given))

    @model_validator(mode="after")
    def _file_or_inline(self) -> "SchedulerSection":
        for name in ("profiles", "percentage_of_nodes_to_score"):
            if self.config is not None and getattr(self, name) not in ([], None):
                raise ValueError(f"{to_camel(name)} cannot be set with config: the file says it")
        return self


class BindSection(Section):
    enabled: StrictBool = False
    """Create bindings for POST /bind; requires cluster.source: kubernetes. Disabled, kube-scheduler binds itself."""
    timeout: PositiveDuration = 4.0
    """Time limit for binding one pod, retries included; at most 80 % of server.httpTimeout."""


class KillSwitchSection(Section):
    enabled: StrictBool = False
    """Pass calls through: /filter accepts every node that is sent, /prioritize scores none, /preempt answers as set
    below, and no cluster cache is needed. /bind keeps working."""
    preempt: Literal["Veto", "PassThrough"] = "Veto"
    """Veto: evict no pods; the preemptor is retried after a relevant event or 5 minutes (kube-scheduler's
    --pod-max-in-unschedulable-pods-duration). PassThrough: kube-scheduler evicts the victims it selected, without any
    of the policies above."""


class Configuration(Section):
    api_version: Literal["extender/v1alpha1"] = "extender/v1alpha1"
    """Version of the configuration format."""
    kind: Literal["ExtenderConfiguration"] = "ExtenderConfiguration"
    """Always ExtenderConfiguration."""
    cluster: ClusterSection = ClusterSection()
    """Source of the cluster cache."""
    scheduler: SchedulerSection = SchedulerSection()
    """The kube-scheduler that calls: its profiles and its version."""
    preemption: PreemptionSection = PreemptionSection()
    """Preemption: victim selection, protections, limits."""
    mode: Literal["Enforce", "Observe"] = "Enforce"
    """Enforce: answer with the decision. Observe: decide, log and count everything, but answer as if the extender were
    not registered; a failed decision never fails the call."""
    kill_switch: KillSwitchSection = KillSwitchSection()
    """Leave all decisions to kube-scheduler at once, without a restart. Takes precedence over `mode`."""
    bind: BindSection = BindSection()
    """Binding of pods to nodes."""
    server: ServerSection = ServerSection()
    """Listener for kube-scheduler, and limits per request."""
    admin: AdminSection = AdminSection()
    """Listener for probes, Prometheus and the debug endpoints (`debug`), which the scheduler's port does not serve."""
    debug: DebugSection = DebugSection()
    """Debug endpoints on the admin listener: decisions, what-if simulation and the page at /ui."""
    recording: RecordingSection = RecordingSection()
    """Recording of calls for replay."""
    log: LogSection = LogSection()
    """Log on standard error."""
    audit: AuditSection = AuditSection()
    """Audit log: one JSON line per /preempt and /bind, written before the response."""
    events: EventsSection = EventsSection()
    """Events about preemptions, which `kubectl describe pod` shows."""
    tracing: TracingSection = TracingSection()
    """OpenTelemetry spans."""

    @model_validator(mode="after")
    def _sections_fit(self) -> "Configuration":
        if self.bind.enabled and self.cluster.source != "kubernetes":
            raise ValueError("bind.enabled needs cluster.source: kubernetes")
        if self.events.enabled and self.cluster.source != "kubernetes":
            raise ValueError("events.enabled needs cluster.source: kubernetes")
        if self.bind.enabled and self.bind.timeout > self.server.deadline:
            raise ValueError("bind.timeout must not exceed 80 % of server.httpTimeout, the deadline of every call")
        return self
