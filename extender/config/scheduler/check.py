"""Compare an `extenders` entry of kube-scheduler's configuration with the configuration of this extender.

Two files describe one connection: kube-scheduler's file the calls, ours the answers. Each file may be valid by itself
although no call arrives, or calls have no effect. Findings follow from NewHTTPExtender and makeTransport
(extender.go), buildExtenders (scheduler.go) and callExtenders (framework/preemption) of v1.36.

Rule: a finding is about both files, with its place and the change to make. A mistake that keeps kube-scheduler from
starting is not repeated here, and no connection is made.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from extender.config.document import KeyPath
from extender.config.models import Configuration
from extender.config.scheduler.plugins import IN_TREE
from extender.config.scheduler.schema import (
    ExtenderSection,
    ExtenderTLSSection,
    KubeSchedulerConfiguration,
    ProfileSection,
)
from extender.config.values import nanoseconds_of
from extender.core.profile import KubeScheduler, OtherExtender, PreemptionPolicy
from extender.utilities.hosts import is_loopback
from extender.utilities.text import closest

Severity = Literal["error", "warning", "note"]
"""error: calls fail; warning: calls do not have the effect that the files describe."""

Findings = Iterator[tuple[Severity, str, str, str]]
"""(severity, key of the entry such as tlsConfig.caFile, message, advice or "")."""

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")

SERVED_VERBS: Final = {
    "filterVerb": "filter",
    "preemptVerb": "preempt",
    "prioritizeVerb": "prioritize",
    "bindVerb": "bind",
}
"""Key of an entry -> path that we serve for it (`server.scheduler.routes`), without the slash."""

# Highest score of an extender after scaling, before its weight: 10 × (MaxNodeScore / MaxExtenderPriority).
MAX_EXTENDER_SCORE: Final = 100

# Distance between two scores of an extender after scaling, before its weight.
EXTENDER_SCORE_STEP: Final = 10

# Ratio of difflib from which a plugin's name counts as misspelt: one letter in ten differs.
MIN_SIMILARITY: Final = 0.9

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Finding:
    """A contradiction between the two files."""

    severity: Severity
    path: KeyPath
    """Key in kube-scheduler's file: ("extenders", 0, "httpTimeout")."""
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """Our entry of `extenders`, with both files."""

    number: int
    """Index in `extenders`."""
    document: KubeSchedulerConfiguration
    config: Configuration
    scheduler: KubeScheduler

    @property
    def section(self) -> ExtenderSection:
        return self.document.extenders[self.number]

    @property
    def tls(self) -> ExtenderTLSSection:
        return self.section.tls_config or ExtenderTLSSection()

    @property
    def url(self) -> SplitResult:
        return _split(self.section.url_prefix)

    @property
    def has_policies(self) -> bool:
        """Return whether the preemption policies differ from kube-scheduler's own rules."""
        return self.config.preemption.policy() != PreemptionPolicy()


def own_entries(document: KubeSchedulerConfiguration, config: Configuration) -> list[int]:
    """Return the indexes of entries that may be ours: those with our port, else with our verbs for preemption.

    An entry is not ours because it is the only one: vendors' extenders also listen on a loopback port, and call their
    verbs filter and bind.
    """
    by_port, by_host, by_verbs = list[int](), list[int](), list[int]()
    for number, one in enumerate(document.extenders):
        has_our_verbs = verbs_of(one).items() <= SERVED_VERBS.items()
        is_served = _is_served(_split(one.url_prefix).hostname or "", config.server.host)
        # A port identifies our entry more reliably than verbs; on another host it may be that of a vendor.
        if _port(one) == config.server.port and (is_served or has_our_verbs):
            (by_host if is_served else by_port).append(number)
        if has_our_verbs and one.preempt_verb and not one.managed_resources:
            by_verbs.append(number)
    return by_host or by_port or by_verbs


def missing_entry(config: Configuration, *, is_deployed: bool) -> Finding:
    """Return the finding that no entry is ours: a warning only where something says that we are to be called."""
    has_policies = config.preemption.policy() != PreemptionPolicy()
    message = f"no entry calls this extender: none has server.port {config.server.port}"
    advice = "add one, such as those in deploy/scheduler; if one of these is this extender, name it with --extender"
    return Finding("warning" if is_deployed or has_policies else "note", ("extenders",), message, advice)


def check_entry(entry: Entry) -> list[Finding]:
    """Return all findings about our entry, errors first."""
    found = []
    for severity, key, message, advice in (one for check in CHECKS for one in check(entry)):
        below = (int(one) if one.isdecimal() else one for one in key.split(".") if one)
        found.append(Finding(severity, ("extenders", entry.number, *below), message, advice))
    return sorted(found, key=lambda one: SEVERITIES.index(one.severity))


def timeout_seconds(section: ExtenderSection) -> float:
    """Return the seconds that kube-scheduler waits for a response: its default if absent or 0, forever if negative."""
    return nanoseconds_of(section.http_timeout or "0") / 1e9 or 5.0  # DefaultExtenderTimeout


def other_extenders(document: KubeSchedulerConfiguration, config: Configuration) -> tuple[OtherExtender, ...]:
    """Return the extenders that are not this one, in call order."""
    own, extenders = own_entries(document, config), document.extenders
    return tuple(
        OtherExtender(
            f"extenders[{number}] at {re.sub('//[^/@]*@', '//', extenders[number].url_prefix)}",  # no password
            tuple(SERVED_VERBS[key] for key in verbs_of(extenders[number])),
            frozenset(one.name for one in extenders[number].managed_resources),
        )
        for number in call_order(document)
        if number not in own and verbs_of(extenders[number])
    )


def call_order(document: KubeSchedulerConfiguration) -> list[int]:
    """Return the indexes of the extenders in call order: ignorable extenders come last (buildExtenders)."""
    return sorted(range(len(document.extenders)), key=lambda number: document.extenders[number].ignorable)


# --- address and TLS ------------------------------------------------------------------------------------------------


def _address(entry: Entry) -> Findings:
    server, url, port = entry.config.server, entry.url, _port(entry.section)
    if url.scheme not in _DEFAULT_PORTS or not url.hostname or port is None:
        yield "error", "urlPrefix", f'"{entry.section.url_prefix}" is not a URL', "such as http://127.0.0.1:8888"
        return
    # On loopback nothing is in between; elsewhere a Service or proxy may change port and path.
    local = is_loopback(url.hostname)
    if port == entry.config.admin.port != server.port:
        yield (
            "error",
            "urlPrefix",
            f"port {port} is admin.port, which does not serve the extender's verbs",
            f"server.port is {server.port}",
        )
    elif port != server.port:
        message = f"port {port}, but server.port is {server.port}"
        advice = "" if local else "right only if a Service or load balancer translates it"
        yield "error" if local else "warning", "urlPrefix", message, advice
    if not _is_served(url.hostname, server.host):
        message = f"{url.hostname} is not served: server.host is {server.host}"
        advice = "call server.host" if local else "listen on an address that kube-scheduler reaches, with TLS"
        yield "error", "urlPrefix", message, advice
    if re.search(r"\.svc(\.|$)", url.hostname):
        message = f"{url.hostname} resolves in pods only, but kube-scheduler usually runs in the host network"
        yield "warning", "urlPrefix", message, "use the Service's clusterIP, and tlsConfig.serverName"
    for part, given in (("query", url.query), ("fragment", url.fragment)):
        if given:
            message = f"must not have a {part}: kube-scheduler appends the verb, such as /filter"
            yield "error", "urlPrefix", message, f"remove the {part}"
    if url.username is not None:
        message = "user name and password are ignored here, but readable in kube-scheduler's log and in /configz"
        yield "warning", "urlPrefix", message, "remove them and use client certificates (server.tls.clientCA)"
    if url.path.strip("/"):
        message = f"path {url.path}: verbs are served at the root, such as /{SERVED_VERBS['filterVerb']}"
        yield "error" if local else "warning", "urlPrefix", message, "remove the path"


def _scheme(entry: Entry) -> Findings:
    is_https, serves_https = entry.url.scheme == "https", entry.config.server.tls.is_on
    if is_https and not serves_https:
        message = "https, but server.tls is not set: the listener serves plain HTTP"
        yield "error", "urlPrefix", message, "set server.tls.certificate and server.tls.key, or use http"
    if not is_https and serves_https:
        message = "http, but server.tls is set: the listener serves HTTPS only"
        yield "error", "urlPrefix", message, "use https, with tlsConfig.caFile"
    if entry.section.enable_https and not is_https:
        message = "has no effect: the scheme of urlPrefix is http"
        yield "warning", "enableHTTPS", message, "use https in urlPrefix"


def _authorities(entry: Entry) -> Findings:
    if entry.url.scheme != "https":
        return
    if entry.tls.insecure:
        has_authority = entry.tls.ca_file or entry.tls.ca_data  # kube-scheduler does not start with both
        advice = "remove insecure" if has_authority else "set caFile instead"
        yield "warning", "tlsConfig.insecure", "any certificate is accepted", advice
    elif not (entry.tls.ca_file or entry.tls.ca_data):
        # enableHTTPS without a CA makes kube-scheduler set insecure itself (makeTransport).
        if entry.section.enable_https:
            message = "is missing: with enableHTTPS, kube-scheduler then accepts any certificate"
            yield "warning", "tlsConfig.caFile", message, "set it to the CA of server.tls.certificate"
        else:
            message = "is missing: the system's CA certificates are used"
            yield "note", "tlsConfig.caFile", message, ""


def _client_certificate(entry: Entry) -> Findings:
    tls, wanted = entry.tls, entry.config.server.tls.client_ca is not None
    has_certificate, has_key = bool(tls.cert_file or tls.cert_data), bool(tls.key_file or tls.key_data)
    if wanted and not (has_certificate and has_key):
        message = "certFile and keyFile are missing, but server.tls.clientCA is set: every connection is refused"
        yield "error", "tlsConfig", message, "give kube-scheduler a certificate of that CA"
    elif has_certificate != has_key:
        given, missing = ("certFile", "keyFile") if has_certificate else ("keyFile", "certFile")
        yield "warning", "tlsConfig", f"{given} without {missing}: no certificate is presented", "set both"
    elif has_certificate and not wanted:
        yield "note", "tlsConfig", "the client certificate is not verified: server.tls.clientCA is not set", ""
    if tls.key_data:
        message = "the private key is readable in this file, in /configz and in kube-scheduler's log"
        yield "warning", "tlsConfig.keyData", message, "use keyFile, which is also reloaded"


# --- verbs ------------------------------------------------------------------------------------------------------------


def _verbs(entry: Entry) -> Findings:
    given = verbs_of(entry.section)
    for key, verb in given.items():
        if verb != SERVED_VERBS[key]:
            message = f'"{verb}" is not a path that is served for it'
            yield "error", key, message, f"{key}: {SERVED_VERBS[key]}"
    if not given:
        yield "error", "", "has no verb: kube-scheduler never calls it", "set preemptVerb: preempt"
    elif "preemptVerb" not in given and entry.has_policies:
        message = (
            "is missing: preemption policies have no effect, as kube-scheduler preempts without calling the extender"
        )
        yield "warning", "preemptVerb", message, "preemptVerb: preempt"
    for profile in entry.scheduler.profiles if "preemptVerb" in given else ():
        if "DefaultPreemption" not in profile.post_filter_plugins:
            message = (
                f"profile {profile.scheduler_name} has no DefaultPreemption: it never preempts or calls the extender"
            )
            yield "note", "preemptVerb", message, ""


def _binding(entry: Entry) -> Findings:
    bind, verb = entry.config.bind, entry.section.bind_verb
    if verb and not bind.enabled:
        effect = "kube-scheduler binds after a failed call" if entry.section.ignorable else "no pod can be bound"
        severity: Severity = "warning" if entry.section.ignorable else "error"
        yield severity, "bindVerb", f"bind.enabled is false: {effect}", "remove it, or enable bind"
    if bind.enabled and not verb:
        yield "note", "bindVerb", "is missing: bind.enabled has no effect, kube-scheduler binds itself", ""


def _node_cache(entry: Entry) -> Findings:
    if entry.section.node_cache_capable:
        return
    limit = f"up to server.maxBodyBytes ({entry.config.server.max_body_bytes >> 20}Mi)"
    # findNodesThatPassExtenders makes new NodeInfos of the Nodes in the response.
    lost = ", and its own score plugins then see nodes without pods" if entry.section.filter_verb else ""
    message = f"is false: kube-scheduler sends whole Node objects and pods, {limit}{lost}"
    yield "warning", "nodeCacheCapable", message, "nodeCacheCapable: true (docs/wire.md)"


def _managed_resources(entry: Entry) -> Findings:
    managed = entry.section.managed_resources
    if managed and entry.has_policies:
        names = ", ".join(one.name for one in managed)
        message = f"only pods that request {names} are sent: preemption policies do not apply to other pods"
        yield "note", "managedResources", message, ""
    for number, one in enumerate(managed):
        if one.ignored_by_scheduler:
            message = f"is true: NodeResourcesFit ignores {one.name} in all profiles, here and in kube-scheduler"
            advice = "ignoredByScheduler: false, unless another component counts it"
            yield "warning", f"managedResources.{number}.ignoredByScheduler", message, advice


# --- time, score, failures --------------------------------------------------------------------------------------------


def _timeout(entry: Entry) -> Findings:
    ours, theirs = entry.config.server.http_timeout, timeout_seconds(entry.section)
    if theirs < 0:
        message = f"{entry.section.http_timeout} sets no limit: a lost call blocks kube-scheduler forever"
        yield "error", "httpTimeout", message, f"set it to server.httpTimeout, {ours:g}s"
    elif theirs <= entry.config.server.deadline:
        late = f"a response may take {entry.config.server.deadline:g}s (80 % of server.httpTimeout)"
        message = f"kube-scheduler gives up after {theirs:g}s, but {late}"
        yield "error", "httpTimeout", message, f"set server.httpTimeout to {theirs:g}s"
    elif theirs != ours:
        message = f"{theirs:g}s, but server.httpTimeout is {ours:g}s: calls fail after 80 % of the latter"
        yield "warning", "httpTimeout", message, "set both to the same duration"


def _weight(entry: Entry) -> Findings:
    section = entry.section
    if not section.prioritize_verb:
        if section.weight:
            yield "note", "weight", "has no effect without prioritizeVerb", ""
        return
    if section.weight <= 0:  # kube-scheduler does not start
        return
    others = sum(one.weight for one in entry.document.extenders if one.prioritize_verb and one is not section)
    for profile in entry.scheduler.profiles:
        total = others + sum(weight for _, weight in profile.score_weights)
        share = f"up to {MAX_EXTENDER_SCORE * section.weight} points; all other scores together {100 * total}"
        if EXTENDER_SCORE_STEP * section.weight > 100 * total:
            message = f"profile {profile.scheduler_name}: {share}, less than one step of this extender's score"
            yield "warning", "weight", message, f"below {10 * total} the other scores count, too"
        else:
            yield "note", "weight", f"profile {profile.scheduler_name}: {share}", ""


def _failures(entry: Entry) -> Findings:
    section = entry.section
    if section.ignorable and section.preempt_verb and entry.has_policies:
        if entry.config.preemption.on_failure == "Error":
            message = "is true, preemption.onFailure is Error: after a failed call pods are evicted without policies"
            yield "warning", "ignorable", message, "preemption.onFailure: Veto, or ignorable: false"
        else:
            message = "is true: while the extender does not run, pods are evicted without policies"
            yield "note", "ignorable", message, ""
    if not section.ignorable and section.filter_verb and not section.managed_resources:
        message = "is false: while the extender does not run, this kube-scheduler schedules no pod, its own included"
        yield "note", "ignorable", message, "docs/install.md, Avoid scheduling deadlocks"


def _order(entry: Entry) -> Findings:
    order = call_order(entry.document)
    place = order.index(entry.number)
    for number in order:
        other = entry.document.extenders[number]
        if number == entry.number or not (other.preempt_verb and entry.section.preempt_verb):
            continue
        if order.index(number) > place and entry.has_policies:
            message = f"extenders[{number}] ({other.url_prefix}) is called later and may choose other victims"
            advice = "put this one last in the list"
            if other.ignorable and not entry.section.ignorable:
                advice = "make both ignorable or neither (ignorable extenders are called last), and put this one last"
            yield "warning", "preemptVerb", message, advice
        elif order.index(number) < place:
            message = f"extenders[{number}] ({other.url_prefix}) is called first: its result is sent here"
            yield "note", "preemptVerb", message, ""


# --- names of plugins -------------------------------------------------------------------------------------------------


def find_misspelt_plugins(config: KubeSchedulerConfiguration) -> Iterator[Finding]:
    """Yield a warning for each disabled or configured plugin whose name is nearly that of an in-tree plugin.

    kube-scheduler rejects an unknown plugin only if it is enabled. Less similar names may be those of plugins that
    kube-scheduler was built with.
    """
    for number, profile in enumerate(config.profiles):
        for key, name, effect in _unchecked_names(profile):
            meant = None if name in IN_TREE else closest(name, IN_TREE, MIN_SIMILARITY)
            if meant is not None:
                message, advice = f"{name} is not an in-tree plugin: {effect}", f"if {meant} is meant, correct the name"
                yield Finding("warning", ("profiles", number, *key), message, advice)


def _unchecked_names(profile: ProfileSection) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield (path, name, effect of an unknown name) of the plugins that kube-scheduler does not look up."""
    for point, plugins in profile.plugins.items():
        for index, plugin in enumerate(plugins.disabled):
            yield ("plugins", point, "disabled", index), plugin.name, "nothing is disabled"
    for index, config in enumerate(profile.plugin_config):
        yield ("pluginConfig", index), config.name, "its arguments have no effect here"


CHECKS: Final[Sequence[Callable[[Entry], Findings]]] = (
    _address,
    _scheme,
    _authorities,
    _client_certificate,
    _verbs,
    _binding,
    _node_cache,
    _managed_resources,
    _timeout,
    _weight,
    _failures,
    _order,
)


def _split(url: str) -> SplitResult:
    """Return the parts of a URL, all empty if it is malformed, such as http://[::1."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _is_served(called: str, host: str) -> bool:
    """Return whether a call to `called` can reach a listener on `host`."""
    if host in ("0.0.0.0", "::"):
        return True
    if not (is_loopback(called) and is_loopback(host)):
        return is_loopback(called) == is_loopback(host)
    return called == host or "localhost" in (called, host)  # localhost is 127.0.0.1 or ::1


def _port(section: ExtenderSection) -> int | None:
    """Return the port of urlPrefix or of its scheme; None if it is malformed."""
    url = _split(section.url_prefix)
    try:
        return _DEFAULT_PORTS.get(url.scheme) if url.port is None else url.port
    except ValueError:
        return None


def verbs_of(section: ExtenderSection) -> dict[str, str]:
    """Return the verbs of an entry by key: filterVerb -> filter."""
    given = (section.filter_verb, section.preempt_verb, section.prioritize_verb, section.bind_verb)
    return {key: verb for key, verb in zip(SERVED_VERBS, given, strict=True) if verb}
