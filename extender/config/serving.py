"""How the service listens, what a request may cost, and what it writes: the sections an operator of it reads.

Rule: plain HTTP stays on this machine unless somebody says otherwise, for each listener by itself.
"""

# ruff: noqa: RUF012  # pydantic copies defaults
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator

from extender.config.section import Section
from extender.config.values import ByteCount, Duration, NonEmpty, is_loopback

SHARE_OF_TIMEOUT = 0.8
"""Of the time for which kube-scheduler waits: what is not decided by then is answered by the failure rule."""

Port = Annotated[StrictInt, Field(ge=0, le=65535)]


class TLSSection(Section):
    certificate: NonEmpty | None = None
    """PEM file of the certificate and its chain; with it and the key, HTTPS is spoken and nothing else. The three files
    are read again within 10s of a change; a pair that does not fit, or is no pair, keeps the one before."""
    key: NonEmpty | None = None
    """PEM file of the certificate's key, without a passphrase."""
    client_ca: Annotated[NonEmpty | None, Field(alias="clientCA")] = None
    """PEM file of certificate authorities; with it, who calls must show a certificate of one of them."""
    allowed_names: list[NonEmpty] = []
    """Whose certificates are accepted: a common name, DNS name, address or URI of it must be one of these. None:
    every certificate of the authorities."""

    @property
    def is_on(self) -> bool:
        """Is HTTPS spoken?"""
        return self.certificate is not None

    @model_validator(mode="after")
    def _complete(self) -> "TLSSection":
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key are needed both, or neither")
        if self.client_ca is not None and not self.is_on:
            raise ValueError("clientCA needs certificate and key: only over TLS a client can show a certificate")
        if self.allowed_names and self.client_ca is None:
            raise ValueError("allowedNames needs clientCA: without it no client shows a certificate")
        return self


def _plain_http_stays_here(section: str, host: str, tls: TLSSection, *, allowed: bool) -> None:
    """ValueError for a host that others reach without TLS, where that is not allowed."""
    if not allowed and not tls.is_on and not is_loopback(host):
        raise ValueError(
            f"{host} is reachable by others and there is no TLS: set {section}.tls.certificate and {section}.tls.key, "
            f"listen on 127.0.0.1, or set {section}.allowPlainHTTP: true"
        )


class ServerSection(Section):
    host: NonEmpty = "127.0.0.1"
    """Address to listen on."""
    port: Port = 8888
    """Port to listen on; 0: any free one."""
    tls: TLSSection = TLSSection()
    """HTTPS, and who may call."""
    allow_plain_http: Annotated[StrictBool, Field(alias="allowPlainHTTP")] = False
    """Listen without TLS on an address that other machines reach. Whoever reaches it can ask
    anything, and bind pods where bind.enabled is true."""
    scheduler_timeout: Annotated[Duration, Field(gt=0)] = 5.0
    """The httpTimeout of this extender in KubeSchedulerConfiguration. What is not decided within 80 % of it is answered
    as said in docs/wire.md for a failure, while kube-scheduler still listens."""
    max_in_flight: Annotated[StrictInt, Field(ge=1)] = 100
    """How many calls may be under way at once; more are answered as a failure at once. Idle connections do not
    count."""
    keep_alive: Duration = 120.0
    """How long an idle connection stays open; must be longer than the 90s for which kube-scheduler keeps one."""
    max_body_names: ByteCount = 2 * 2**20
    """Largest /filter or /prioritize request where nodes are sent by name (nodeCacheCapable: true)."""
    max_body_full: ByteCount = 128 * 2**20
    """Largest request where nodes are sent in full (nodeCacheCapable: false), and largest /preempt request."""
    drain_time: Duration = 10.0
    """For how long calls are still answered after SIGTERM, not ready and each connection closed after its answer, until
    nobody sends any more. Ctrl-C does not wait."""

    @property
    def deadline(self) -> float:
        """Seconds from a call's first byte to its answer."""
        return SHARE_OF_TIMEOUT * self.scheduler_timeout

    @model_validator(mode="after")
    def _is_safe(self) -> "ServerSection":
        _plain_http_stays_here("server", self.host, self.tls, allowed=self.allow_plain_http)
        return self


class AdminSection(Section):
    host: NonEmpty = "127.0.0.1"
    """Address to listen on for /livez, /readyz, /metrics and, for people, `debug`."""
    port: Port = 8889
    """Port to listen on; 0: any free one."""
    tls: TLSSection = TLSSection()
    """HTTPS, and who may ask; a kubelet's probes speak it without a certificate of their own."""
    allow_plain_http: Annotated[StrictBool, Field(alias="allowPlainHTTP")] = False
    """Listen without TLS on an address that other machines reach: health and metrics tell them names of kinds and
    counts, nothing of a pod."""

    @model_validator(mode="after")
    def _is_safe(self) -> "AdminSection":
        _plain_http_stays_here("admin", self.host, self.tls, allowed=self.allow_plain_http)
        return self


class DebugSection(Section):
    enabled: StrictBool = True
    """Whether the admin listener has /ui, /decisions, /status, /simulate and /recording."""
    allow_remote: StrictBool = False
    """Answer these to other machines too, not only to this one (kubectl port-forward is this one). Whoever reaches them
    can read names and requests of pods, and make the service work on what-if questions."""
    decisions: Annotated[StrictInt, Field(ge=0, le=100_000)] = 500
    """How many decisions of each verb are kept with all that led to them; 0: none."""
    decisions_size: ByteCount = 64 * 2**20
    """How much memory they may take, about; the oldest are dropped."""


class RecordingSection(Section):
    directory: NonEmpty | None = None
    """Where calls are recorded from the start on, each with the picture that it was decided on; can be switched off and
    on while it runs. Without a directory nothing is recorded."""
    segment_size: ByteCount = 64 * 2**20
    """At this size a new segment is begun, with a full picture of the cluster."""
    total_size: ByteCount = 1024 * 2**20
    """How much all segments may take; the oldest are deleted."""


class LogSection(Section):
    format: Literal["Text", "JSON"] = "Text"
    """A line of text, or one of JSON, for each event."""
    level: Literal["Debug", "Info", "Warning", "Error"] = "Info"
    """Events below it are left out."""


class AuditSection(Section):
    enabled: StrictBool = True
    """Whether it is written."""
    path: NonEmpty | None = None
    """File that lines are added to; without one, standard output."""


class TracingSection(Section):
    endpoint: NonEmpty | None = None
    """Where spans are sent, as OTLP over HTTP, such as http://localhost:4318/v1/traces; needs the extra `otel`, which
    the image has not got. Without one there are no spans."""
