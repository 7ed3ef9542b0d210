"""Schema of the sections for listeners, limits and logs.

Rule: plain HTTP is allowed on loopback only, unless the listener's allowPlainHTTP is set.
"""

# ruff: noqa: RUF012  # pydantic copies defaults
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator

from extender.config.decoding import Section
from extender.config.values import ByteCount, Duration, NonEmptyText, PositiveDuration
from extender.utilities.hosts import is_loopback

PortNumber = Annotated[StrictInt, Field(ge=0, le=65535)]


class TLSSection(Section):
    certificate: NonEmptyText | None = None
    """PEM file of the certificate and its chain; with certificate and key the listener serves HTTPS only. All files of
    this section are reloaded within 10s of a change; an invalid pair is rejected and the previous one stays in use."""
    key: NonEmptyText | None = None
    """PEM file of the private key; encrypted private keys are not supported."""
    client_ca: Annotated[NonEmptyText | None, Field(alias="clientCA")] = None
    """PEM file of certificate authorities; when set, clients must present a certificate signed by one of them."""
    allowed_names: list[NonEmptyText] = []
    """Names that client certificates are accepted for (common name, DNS name, IP address or URI); []: any certificate
    signed by the authorities."""

    @property
    def is_on(self) -> bool:
        """Whether the listener serves HTTPS."""
        return self.certificate is not None

    @model_validator(mode="after")
    def _complete(self) -> "TLSSection":
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key must be set together")
        if self.client_ca is not None and not self.is_on:
            raise ValueError("clientCA needs certificate and key: a client can present a certificate over TLS only")
        if self.allowed_names and self.client_ca is None:
            raise ValueError("allowedNames needs clientCA: without it clients present no certificate")
        return self


def _check_plain_http(section: str, host: str, tls: TLSSection, *, allowed: bool) -> None:
    """Raise ValueError for a non-loopback host without TLS unless `allowed`."""
    if not allowed and not tls.is_on and not is_loopback(host):
        raise ValueError(
            f"{host} is not a loopback address and TLS is off: set {section}.tls.certificate and {section}.tls.key, "
            f"listen on 127.0.0.1, or set {section}.allowPlainHTTP: true"
        )


class ServerSection(Section):
    host: NonEmptyText = "127.0.0.1"
    """Address to listen on."""
    port: PortNumber = 8888
    """Port to listen on; 0: any free port."""
    tls: TLSSection = TLSSection()
    """TLS and client certificates."""
    allow_plain_http: Annotated[StrictBool, Field(alias="allowPlainHTTP")] = False
    """Listen without TLS on an address that other machines can reach. Any client that reaches it can call every verb,
    and bind pods if bind.enabled is true."""
    http_timeout: PositiveDuration = 5.0
    """The httpTimeout of this extender in KubeSchedulerConfiguration. A call without a decision after 80 % of it is
    answered by the failure policy (docs/wire.md) while kube-scheduler still waits."""
    max_in_flight: Annotated[StrictInt, Field(ge=1)] = 100
    """Maximum number of requests in flight, from the last byte of their bodies; further requests fail immediately."""
    keep_alive: Duration = 120.0
    """Idle timeout of connections; must be longer than the 90s that kube-scheduler keeps idle connections."""
    max_node_names_body_bytes: ByteCount = 2 * 2**20
    """Maximum body of /filter and /prioritize with node names (nodeCacheCapable: true)."""
    max_body_bytes: ByteCount = 128 * 2**20
    """Maximum body with full Node objects (nodeCacheCapable: false), and of /preempt."""
    drain_time: Duration = 10.0
    """Time for which calls are still answered after SIGTERM or SIGHUP: not ready, each connection closed after its
    response. Ctrl-C skips it."""

    @property
    def deadline(self) -> float:
        """Maximum seconds from the first byte of a request to its response, if necessary by the failure policy."""
        # The other 20 % is for the network and for kube-scheduler's decoder, which count towards its httpTimeout, too.
        return 0.8 * self.http_timeout

    @model_validator(mode="after")
    def _is_safe(self) -> "ServerSection":
        _check_plain_http("server", self.host, self.tls, allowed=self.allow_plain_http)
        return self


class AdminSection(Section):
    host: NonEmptyText = "127.0.0.1"
    """Address to listen on for /livez, /readyz, /metrics and the debug endpoints."""
    port: PortNumber = 8889
    """Port to listen on; 0: any free port."""
    tls: TLSSection = TLSSection()
    """TLS and client certificates; kubelet probes use HTTPS without a client certificate."""
    allow_plain_http: Annotated[StrictBool, Field(alias="allowPlainHTTP")] = False
    """Listen without TLS on an address that other machines can reach: health and metrics expose kinds and counts, no
    pod data."""

    @model_validator(mode="after")
    def _is_safe(self) -> "AdminSection":
        _check_plain_http("admin", self.host, self.tls, allowed=self.allow_plain_http)
        return self


class DebugSection(Section):
    enabled: StrictBool = True
    """Serve /ui, /decisions, /cluster, /status, /pending, /nodes, /why, /simulate and /recording on the admin
    listener."""
    allow_remote: StrictBool = False
    """Serve them to other machines too, not to loopback alone (kubectl port-forward is loopback). Clients can read pod
    names and requests and run simulations."""
    decisions: Annotated[StrictInt, Field(ge=0, le=100_000)] = 500
    """Number of decisions kept per verb with everything needed to explain them; 0: none."""
    decisions_size: ByteCount = 64 * 2**20
    """Approximate memory limit of kept decisions; the oldest are dropped."""


class RecordingSection(Section):
    directory: NonEmptyText | None = None
    """Directory to record calls to, each with the cluster state that it was decided on; recording can be paused and
    resumed at runtime. Unset: no recording."""
    segment_size: ByteCount = 64 * 2**20
    """Size at which a new segment starts, with a full copy of the cluster cache."""
    total_size: ByteCount = 1024 * 2**20
    """Size limit of all segments; the oldest are deleted."""


class LogSection(Section):
    format: Literal["Text", "JSON"] = "Text"
    """Format of log lines."""
    level: Literal["Debug", "Info", "Warning", "Error"] = "Info"
    """Minimum level that is logged."""


class AuditSection(Section):
    enabled: StrictBool = True
    """Write the audit log."""
    path: NonEmptyText | None = None
    """File to append to; unset: standard output."""


class EventsSection(Section):
    enabled: StrictBool = False
    """Write Events about preemptions, on the preemptor and on each victim; requires cluster.source: kubernetes and the
    permission to create and patch events of events.k8s.io."""
    names_across_namespaces: StrictBool = False
    """Name pods and budgets of other namespaces too; by default those who read the Events of a namespace learn of them
    no more than how many there are, and of a preemptor in another namespace its priority."""


class TracingSection(Section):
    endpoint: NonEmptyText | None = None
    """OTLP/HTTP endpoint, such as http://localhost:4318/v1/traces; requires the extra `otel`, which the image does not
    include. Unset: tracing is disabled."""
