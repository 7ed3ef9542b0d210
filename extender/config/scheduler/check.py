"""Compare an `extenders` entry of kube-scheduler's configuration with the configuration of this extender.

Two files describe one connection: kube-scheduler's says how it calls, ours how calls are answered. Either may be valid
by itself while no call arrives, or while calls are answered that have no effect.

Rule: a finding says what follows from the two files, where, and what to change; nothing is connected to.
Mirrors NewHTTPExtender and makeTransport (extender.go), buildExtenders (scheduler.go) and callExtenders
(framework/preemption) of v1.36.
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
    PluginsSection,
    ProfileSection,
)
from extender.config.values import closest, nanoseconds_of
from extender.core.profile import KubeScheduler, PreemptionPolicy
from extender.utilities.hosts import is_loopback

Severity = Literal["error", "warning", "note"]
"""error: calls fail, or kube-scheduler does not start; warning: they do not have the effect that the files describe."""

Findings = Iterator[tuple[Severity, str, str, str]]
"""(severity, key of the entry such as tlsConfig.caFile, message, advice or an empty text)."""

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")

SERVED_VERBS: Final = {
    "filterVerb": "filter",
    "preemptVerb": "preempt",
    "prioritizeVerb": "prioritize",
    "bindVerb": "bind",
}
"""Key of an entry -> path that is served for it (`server.scheduler.routes`), without the slash."""

MAX_EXTENDER_SCORE: Final = 100
"""Highest score of an extender after scaling, before its weight: 10 × (MaxNodeScore / MaxExtenderPriority)."""

EXTENDER_SCORE_STEP: Final = 10
"""Distance between two scores of an extender after scaling, before its weight."""

MIN_SIMILARITY: Final = 0.9
"""Ratio of difflib from which the name of a plugin counts as misspelt: one letter in ten."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Finding:
    """What two files say that do not go together, and what to do about it."""

    severity: Severity
    path: KeyPath
    """Key in kube-scheduler's file: ("extenders", 0, "httpTimeout")."""
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry of `extenders` that is ours, between the two files."""

    number: int
    """Its place in `extenders`, from 0."""
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
    """Return the places of the entries that may be ours: the only one, or those with our port, else with our verbs."""
    extenders = document.extenders
    by_port = [number for number, one in enumerate(extenders) if _port(one) == config.server.port]
    verbs = [_verbs_of(one).items() for one in extenders]
    by_verbs = [number for number, given in enumerate(verbs) if given and given <= SERVED_VERBS.items()]
    return [0] if len(extenders) == 1 else by_port or by_verbs


def check_entry(entry: Entry) -> list[Finding]:
    """Return all findings about our entry, errors first."""
    found = []
    for severity, key, message, advice in (one for check in CHECKS for one in check(entry)):
        below = (int(one) if one.isdecimal() else one for one in key.split(".") if one)
        found.append(Finding(severity, ("extenders", entry.number, *below), message, advice))
    return sorted(found, key=lambda one: SEVERITIES.index(one.severity))


def timeout_seconds(section: ExtenderSection) -> float:
    """Return how long kube-scheduler waits for a response; absent and 0: its default; negative: without end."""
    return nanoseconds_of(section.http_timeout or "0") / 1e9 or 5.0  # DefaultExtenderTimeout


def call_order(document: KubeSchedulerConfiguration) -> list[int]:
    """Return the places of the extenders in the order of calls: ignorable ones come last (buildExtenders)."""
    return sorted(range(len(document.extenders)), key=lambda number: document.extenders[number].ignorable)


# --- address and TLS ------------------------------------------------------------------------------------------------


def _address(entry: Entry) -> Findings:
    server, url, port = entry.config.server, entry.url, _port(entry.section)
    if url.scheme not in _DEFAULT_PORTS or not url.hostname or port is None:
        yield "error", "urlPrefix", f'"{entry.section.url_prefix}" is not a URL', "such as http://127.0.0.1:8888"
        return
    local = is_loopback(url.hostname)
    if port == entry.config.admin.port != server.port:
        yield "error", "urlPrefix", f"port {port} is admin.port, which serves no calls", f"server.port is {server.port}"
    elif port != server.port:
        message = f"port {port}, but server.port is {server.port}"
        advice = "" if local else "right only if a Service or load balancer translates it"
        yield "error" if local else "warning", "urlPrefix", message, advice
    if not _is_served(url.hostname, server.host):
        message = f"{url.hostname} is another address than server.host, {server.host}, the only one that is served"
        advice = "call server.host" if local else "listen on an address that kube-scheduler reaches, with TLS"
        yield "error", "urlPrefix", message, advice
    if re.search(r"\.svc(\.|$)", url.hostname):
        message = f"{url.hostname} resolves in pods only, not in the node's network, where kube-scheduler usually runs"
        yield "warning", "urlPrefix", message, "use the Service's clusterIP, and tlsConfig.serverName"
    for part, given in (("query", url.query), ("fragment", url.fragment)):
        if given:
            message = f"the {part} is in the way: verbs are put behind the end of urlPrefix, such as /filter"
            yield "error", "urlPrefix", message, f"remove the {part}"
    if url.username is not None:
        message = "a name or password is not checked here, and stands in kube-scheduler's log and in /configz"
        yield "warning", "urlPrefix", message, "remove it; client certificates are checked (clientCA)"
    if url.path.strip("/"):
        message = f"path {url.path}: the verbs are served at the root, such as /{SERVED_VERBS['filterVerb']}"
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
        message = "has no effect: the scheme of urlPrefix decides"
        yield "warning", "enableHTTPS", message, "use https in urlPrefix"


def _authorities(entry: Entry) -> Findings:
    if entry.url.scheme != "https":
        return
    tls = entry.tls
    has_authority = bool(tls.ca_file or tls.ca_data)
    if tls.insecure and has_authority:
        message = "cannot be combined with an authority: kube-scheduler does not start"
        yield "error", "tlsConfig.insecure", message, "remove insecure"
    elif tls.insecure:
        yield "warning", "tlsConfig.insecure", "any certificate is accepted", "set caFile instead"
    elif entry.section.enable_https and not has_authority:
        message = "is missing: with enableHTTPS and without it, kube-scheduler accepts any certificate"
        yield "warning", "tlsConfig.caFile", message, "set it to the authority of server.tls.certificate"
    elif not has_authority:
        message = "is missing: only certificates of the authorities of kube-scheduler's own machine are accepted"
        yield "note", "tlsConfig.caFile", message, ""


def _client_certificate(entry: Entry) -> Findings:
    tls, wanted = entry.tls, entry.config.server.tls.client_ca is not None
    has_certificate, has_key = bool(tls.cert_file or tls.cert_data), bool(tls.key_file or tls.key_data)
    if wanted and not (has_certificate and has_key):
        message = "certFile and keyFile are missing, but server.tls.clientCA is set: every connection is refused"
        yield "error", "tlsConfig", message, "give kube-scheduler a certificate of that authority"
    elif has_certificate != has_key:
        message = "a certificate without its key" if has_certificate else "a key without its certificate"
        yield "warning", "tlsConfig", f"{message} is not presented", "set certFile and keyFile"
    elif has_certificate and not wanted:
        message = "a client certificate that is not checked: server.tls.clientCA is not set"
        yield "note", "tlsConfig", message, ""
    if tls.key_data:
        message = "the private key is readable in this file, in /configz and in kube-scheduler's log"
        yield "warning", "tlsConfig.keyData", message, "use keyFile, which is also read again when renewed"


# --- verbs ------------------------------------------------------------------------------------------------------------


def _verbs(entry: Entry) -> Findings:
    given = _verbs_of(entry.section)
    for key, verb in given.items():
        if verb != SERVED_VERBS[key]:
            message = f'"{verb}" is not a path that is served for it'
            yield "error", key, message, f"{key}: {SERVED_VERBS[key]}"
    if not given:
        yield "error", "", "has no verb: kube-scheduler never calls", "set preemptVerb: preempt"
    elif "preemptVerb" not in given and entry.has_policies:
        message = "is missing: kube-scheduler preempts without asking, and the preemption policies have no effect"
        yield "warning", "preemptVerb", message, "preemptVerb: preempt"


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
    lost = ", and its own score plugins then see nodes without pods" if entry.section.filter_verb else ""
    message = f"is false: kube-scheduler sends whole Node objects and pods, {limit}{lost}"
    yield "warning", "nodeCacheCapable", message, "nodeCacheCapable: true (docs/wire.md)"


def _managed_resources(entry: Entry) -> Findings:
    managed = entry.section.managed_resources
    if managed and entry.has_policies:
        names = ", ".join(one.name for one in managed)
        message = f"only pods that request {names} are sent: the preemption policies do not hold for others"
        yield "note", "managedResources", message, ""
    for number, one in enumerate(managed):
        if one.ignored_by_scheduler:
            message = f"is true: NodeResourcesFit ignores {one.name} in all profiles, here as in kube-scheduler"
            advice = "ignoredByScheduler: false, unless another component counts it"
            yield "warning", f"managedResources.{number}.ignoredByScheduler", message, advice


# --- time, score, failures --------------------------------------------------------------------------------------------


def _timeout(entry: Entry) -> Findings:
    ours, theirs = entry.config.server.http_timeout, timeout_seconds(entry.section)
    if theirs < 0:
        message = f"{entry.section.http_timeout} sets no limit: kube-scheduler waits for ever, and schedules no pod"
        yield "error", "httpTimeout", message, f"set it to server.httpTimeout, {ours:g}s"
    elif theirs <= entry.config.server.deadline:
        late = f"calls are answered until {entry.config.server.deadline:g}s (80 % of server.httpTimeout)"
        message = f"kube-scheduler gives up after {theirs:g}s, but {late}"
        yield "error", "httpTimeout", message, f"set server.httpTimeout to {theirs:g}s"
    elif theirs != ours:
        message = f"{theirs:g}s, but server.httpTimeout is {ours:g}s: calls fail at 80 % of the latter"
        yield "warning", "httpTimeout", message, "set both to the same time"


def _weight(entry: Entry) -> Findings:
    section = entry.section
    if not section.prioritize_verb:
        if section.weight:
            yield "note", "weight", "has no effect without prioritizeVerb", ""
        return
    if section.weight <= 0:
        message = "must be positive with prioritizeVerb: kube-scheduler does not start"
        yield "error", "weight", message, "weight: 1"
        return
    others = sum(one.weight for one in entry.document.extenders if one.prioritize_verb and one is not section)
    for profile in entry.scheduler.profiles:
        total = others + sum(weight for _, weight in profile.score_weights)
        share = f"up to {MAX_EXTENDER_SCORE * section.weight} points; all other scores together {100 * total}"
        if EXTENDER_SCORE_STEP * section.weight > 100 * total:
            message = f"profile {profile.scheduler_name}: {share}, less than one step of this one"
            yield "warning", "weight", message, f"below {10 * total} the other scores have a say"
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
            message = f"extenders[{number}] ({other.url_prefix}) is called after it, and may choose other victims"
            advice = "put this one last in the list"
            if other.ignorable and not entry.section.ignorable:
                advice = "make both ignorable or neither (ignorable extenders are called last), and put this one last"
            yield "warning", "preemptVerb", message, advice
        elif order.index(number) < place:
            message = f"extenders[{number}] ({other.url_prefix}) is called first: only what it leaves is sent here"
            yield "note", "preemptVerb", message, ""


def _profiles(entry: Entry) -> Findings:
    """Yield what a profile says about the calls that this extender gets."""
    for profile in entry.scheduler.profiles:
        if entry.section.preempt_verb and "DefaultPreemption" not in profile.post_filter_plugins:
            message = f"profile {profile.scheduler_name} has no DefaultPreemption: it never preempts, and never calls"
            yield "note", "preemptVerb", message, ""


# --- names of plugins -------------------------------------------------------------------------------------------------


def find_misspelt_plugins(config: KubeSchedulerConfiguration) -> Iterator[Finding]:
    """Yield a warning for each name that is nearly that of an in-tree plugin.

    kube-scheduler refuses an enabled plugin that it does not have, but not one that is disabled or only has arguments:
    then nothing is disabled, and no plugin reads the arguments. A name that is less alike may be that of a plugin which
    kube-scheduler was built with.
    """
    for number, profile in enumerate(config.profiles):
        for key, name, effect in _plugin_names(profile):
            meant = None if name in IN_TREE else closest(name, IN_TREE, MIN_SIMILARITY)
            if meant is not None:
                message, advice = f"{name} is not an in-tree plugin{effect}", f"if {meant} is meant, correct the name"
                yield Finding("warning", ("profiles", number, *key), message, advice)


def _plugin_names(profile: ProfileSection) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield (path, name, what follows if the plugin is unknown)."""
    plugins = profile.plugins or PluginsSection()
    for field, info in PluginsSection.model_fields.items():
        point, one = str(info.alias), getattr(plugins, field)
        for index, plugin in enumerate(one.enabled):
            yield ("plugins", point, "enabled", index), plugin.name, ": it is not evaluated here"
        for index, plugin in enumerate(one.disabled):
            yield ("plugins", point, "disabled", index), plugin.name, ": nothing is disabled"
    for index, config in enumerate(profile.plugin_config):
        yield ("pluginConfig", index), config.name, ": its arguments have no effect here"


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
    _profiles,
)


def _split(url: str) -> SplitResult:
    """Return the parts of a URL; all of them are empty if it cannot be one, such as http://[::1."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _is_served(called: str, host: str) -> bool:
    """Return whether a listener on `host` may be reached by calling this address or name."""
    if host in ("0.0.0.0", "::"):
        return True
    if not (is_loopback(called) and is_loopback(host)):
        return is_loopback(called) == is_loopback(host)
    return called == host or "localhost" in (called, host)  # localhost is 127.0.0.1 or ::1


def _port(section: ExtenderSection) -> int | None:
    """Return the port that is called; None if it is not a port."""
    url = _split(section.url_prefix)
    try:
        return _DEFAULT_PORTS.get(url.scheme) if url.port is None else url.port
    except ValueError:
        return None


def _verbs_of(section: ExtenderSection) -> dict[str, str]:
    given = (section.filter_verb, section.preempt_verb, section.prioritize_verb, section.bind_verb)
    return {key: verb for key, verb in zip(SERVED_VERBS, given, strict=True) if verb}
