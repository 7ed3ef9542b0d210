"""Find what kube-scheduler does not start with, beyond what `load` refuses, for `extender config check`.

    decode again   fields that only kube-scheduler reads, by their types and ranges
    CHECKS         rules over several fields

Mirrors ValidateKubeSchedulerConfiguration, NewHTTPExtender with client-go's TLSConfigFor, and NewFramework (v1.37).

Rule: what kube-scheduler starts with has no finding here. Files that an entry names are not read, because they are
those of kube-scheduler's machine. Not checked: out-of-tree plugins in `enabled`, with which kube-scheduler may have
been built, weights whose sum overflows, arguments of queueSort plugins, `filterTimeout`, and durations that are null.
"""

import base64
import binascii
import os
import re
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Final, Self

from pydantic import (
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from extender.config.decoding import DecodingError, decode
from extender.config.document import KeyPath
from extender.config.scheduler.arguments import args_type
from extender.config.scheduler.check import MIN_SIMILARITY, Finding
from extender.config.scheduler.expansion import expand, merge_plugins
from extender.config.scheduler.load import SchedulerDocument
from extender.config.scheduler.plugins import IN_TREE
from extender.config.scheduler.schema import (
    API_VERSION,
    ExtenderTLSSection,
    GoDuration,
    KubernetesSection,
    KubeSchedulerConfiguration,
    ProfileSection,
)
from extender.config.values import nanoseconds_of
from extender.core.profile import KubeScheduler
from extender.k8s.requests import is_extended
from extender.k8s.selectors import is_qualified_name
from extender.k8s.version.features import Features
from extender.utilities.text import closest

Refusals = Iterator[tuple[KeyPath, str, str]]
"""(path, why kube-scheduler does not start, advice or "")."""

_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY: Final = re.compile(r"-----BEGIN (\w+ )?PRIVATE KEY-----")

Positive = Annotated[StrictInt, Field(ge=1, le=2**31 - 1)]


class LeaderElectionSection(KubernetesSection):
    leader_elect: StrictBool = True
    lease_duration: GoDuration = "15s"
    renew_deadline: GoDuration = "10s"
    retry_period: GoDuration = "2s"
    resource_lock: str = "leases"
    resource_name: str = ""
    resource_namespace: str = ""

    @model_validator(mode="after")
    def _can_lead(self) -> Self:
        given = ((self.lease_duration, 15), (self.renew_deadline, 10), (self.retry_period, 2))
        lease, renew, retry = (nanoseconds_of(text) or seconds * 10**9 for text, seconds in given)  # 0: the default
        if self.leader_elect and (min(lease, renew, retry) < 0 or lease <= renew):
            raise ValueError("leaseDuration must be greater than renewDeadline, and all three greater than zero")
        if self.leader_elect and self.resource_lock not in ("", "leases"):
            raise ValueError("resourceLock must be leases")
        return self


class ClientConnectionSection(KubernetesSection):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: StrictFloat | StrictInt = 0
    burst: Annotated[StrictInt, Field(ge=0, le=2**31 - 1)] = 0


class StartupConfiguration(KubeSchedulerConfiguration):
    """The configuration with the types of the fields that only kube-scheduler reads."""

    parallelism: Positive = 16
    leader_election: LeaderElectionSection = LeaderElectionSection()
    client_connection: ClientConnectionSection = ClientConnectionSection()
    enable_profiling: StrictBool = True
    enable_contention_profiling: StrictBool = True
    pod_initial_backoff_seconds: Annotated[StrictInt, Field(ge=1)] = 1
    pod_max_backoff_seconds: StrictInt = 10
    delay_cache_until_active: StrictBool = False

    @field_validator("pod_max_backoff_seconds")
    @classmethod
    def _is_not_below_the_first(cls, given: int, info: ValidationInfo) -> int:
        if given < info.data.get("pod_initial_backoff_seconds", 0):
            raise ValueError("must not be less than podInitialBackoffSeconds")
        return given

    model_config = ConfigDict(validate_default=True)


def find_refusals(read: SchedulerDocument, scheduler: KubeScheduler) -> Iterator[Finding]:
    """Yield an error for each mistake with which kube-scheduler does not start."""
    found: list[tuple[KeyPath, str, str]] = []
    try:
        decode(StartupConfiguration, read.document.data)
    except DecodingError as error:
        found = [(one.path, one.reason, "") for one in error.mistakes]
    found += (one for check in CHECKS for one in check(read.config, scheduler))
    for path, message, advice in found:
        yield Finding("error", path, f"{message}: kube-scheduler does not start with it", advice)


# --- extenders --------------------------------------------------------------------------------------------------------


def _extenders(config: KubeSchedulerConfiguration, scheduler: KubeScheduler) -> Refusals:
    names, binders = set[str](), [number for number, one in enumerate(config.extenders) if one.bind_verb]
    for number, extender in enumerate(config.extenders):
        at = ("extenders", number)
        if extender.prioritize_verb and extender.weight <= 0:
            yield (*at, "weight"), "must be positive with prioritizeVerb", ""
        if number in binders[1:]:
            yield (*at, "bindVerb"), f"only one extender can bind, extenders[{binders[0]}] does", "remove one of them"
        for index, resource in enumerate(extender.managed_resources):
            if not (is_qualified_name(resource.name) and is_extended(resource.name)):
                message = f'"{resource.name}" is not the name of an extended resource'
                yield (*at, "managedResources", index, "name"), message, "such as example.com/gpu"
            elif resource.name in names:
                yield (*at, "managedResources", index, "name"), f"duplicate {resource.name}, also in other entries", ""
            names.add(resource.name)
        for key, message, advice in _tls(extender.tls_config or ExtenderTLSSection()):
            yield (*at, "tlsConfig", key), message, advice
    ignores = any(one.ignored_by_scheduler for extender in config.extenders for one in extender.managed_resources)
    for number, profile in enumerate(config.profiles if ignores else ()):
        if "NodeResourcesFit" not in _named(profile, scheduler) | {one.name for one in profile.plugin_config}:
            yield ("profiles", number), "NodeResourcesFit is off, but ignoredByScheduler sets its arguments", ""


def _tls(tls: ExtenderTLSSection) -> Iterator[tuple[str, str, str]]:
    """Yield (key, message, advice): data is decoded first, whatever the scheme of urlPrefix (TLSConfigFor)."""
    data, has_ca = dict[str, str](), bool(tls.ca_file or tls.ca_data)
    for key, given in (("caData", tls.ca_data), ("certData", tls.cert_data), ("keyData", tls.key_data)):
        try:
            # Go passes over line breaks within base64, as in a folded scalar.
            data[key] = base64.b64decode(re.sub(r"[\r\n]", "", given), validate=True).decode("latin-1")
        except (binascii.Error, ValueError):
            advice = "encode it: base64 -w0 FILE" if given.lstrip().startswith("-----BEGIN") else ""
            yield key, "is not base64", advice
    if tls.insecure and has_ca:
        key = "caData" if tls.ca_data else "caFile"
        yield "insecure", f"must not be true with {key}", f"remove insecure, or {key}"
    elif (found := data.get("caData")) and not any(map(_is_certificate, _CERTIFICATE.findall(found))):
        yield "caData", f"is not a certificate in PEM{_twice(found)}", "base64 -w0 of the PEM file, once"
    pair = {"certData": _CERTIFICATE, "keyData": _PRIVATE_KEY}
    if not ((tls.cert_file or tls.cert_data) and (tls.key_file or tls.key_data)):
        return  # a certificate without its key is not read
    wrong = [key for key, form in pair.items() if data.get(key) and not form.search(data[key])]
    for key in wrong:
        kind = "certificate" if key == "certData" else "private key"
        yield key, f"is not a {kind} in PEM{_twice(data[key])}", "base64 -w0 of the PEM file, once"
    if not wrong and all(map(data.get, pair)) and not _match(data["certData"], data["keyData"]):
        yield "keyData", "is not the private key of certData", ""


def _twice(decoded: str) -> str:
    try:
        return ", but base64 of base64" if b"-----BEGIN" in base64.b64decode(decoded) else ""
    except (binascii.Error, ValueError):
        return ""


def _is_certificate(pem: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):
        return False
    return True


def _match(certificate: str, key: str) -> bool:
    """Return whether the key is the certificate's; what OpenSSL refuses for other reasons is left to kube-scheduler."""
    if not hasattr(os, "memfd_create"):
        return True
    # OpenSSL reads files only, and a private key must not be written to a disk.
    with os.fdopen(os.memfd_create("pair"), "wb") as pair:
        pair.write(f"{certificate}\n{key}".encode("latin-1"))
        pair.flush()
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(f"/proc/self/fd/{pair.fileno()}", password="")
        except (OSError, ValueError) as error:
            return getattr(error, "reason", None) not in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH")
    return True


# --- profiles ---------------------------------------------------------------------------------------------------------


def _profiles(config: KubeSchedulerConfiguration, scheduler: KubeScheduler) -> Refusals:
    order: list[Any] = []
    for number, profile in enumerate(config.profiles):
        at = ("profiles", number)
        if profile.scheduler_name == "" or (profile.scheduler_name is None and len(config.profiles) > 1):
            yield (*at, "schedulerName"), "is missing", ""
        # 1. Points that every profile needs.
        expanded = expand(merge_plugins(profile.plugins, scheduler.features), scheduler.minor)
        for point in ("queueSort", "bind"):
            if not (expanded.points[point] or expanded.foreign[point]):
                yield (*at, "plugins"), f"no {point} plugin is enabled", f"enable the default one at {point}"
        # 2. All profiles share a queue.
        sort = profile.plugins.get("queueSort")
        parts = (sort.enabled, sort.disabled) if sort else ([], [])
        if len(parts[0]) > 1:
            yield (*at, "plugins", "queueSort", "enabled"), "must be one plugin", ""
        order.append([[(one.name, one.weight or 0) for one in part] for part in parts])
        if order[number] != order[0]:
            yield (*at, "plugins", "queueSort"), "must be the same in all profiles", ""
        # 3. Arguments.
        for name, count in Counter(one.name for one in profile.plugin_config).items():
            if count > 1:
                yield (*at, "pluginConfig"), f"duplicate {name}", ""
            if name in IN_TREE and IN_TREE[name].until < scheduler.minor:
                yield (*at, "pluginConfig"), f'plugin "{name}" does not exist', ""


def _named(profile: ProfileSection, scheduler: KubeScheduler) -> set[str]:
    """Return the plugins that the profile enables anywhere, the default ones included."""
    return {name for one in merge_plugins(profile.plugins, scheduler.features).values() for name, _ in one.enabled}


def _enabled(config: KubeSchedulerConfiguration, scheduler: KubeScheduler) -> Refusals:
    """Yield plugins that a point enables twice, and names that are nearly those of in-tree plugins."""
    points = [(number, *item) for number, profile in enumerate(config.profiles) for item in profile.plugins.items()]
    for number, point, plugins in points:
        names = [one.name for one in plugins.enabled]
        sets = merge_plugins(config.profiles[number].plugins, scheduler.features)
        # A plugin that runs nowhere may be listed twice in multiPoint.
        runs = {name for point in expand(sets, scheduler.minor).points.values() for name in point}
        for index, name in enumerate(names):
            path = ("profiles", number, "plugins", point, "enabled", index)
            meant = None if name in IN_TREE else closest(name, IN_TREE, MIN_SIMILARITY)
            if name in names[:index] and (point != "multiPoint" or name in runs):
                yield path, f"{name} is enabled twice", ""
            elif meant is not None:
                yield path, f'plugin "{name}" does not exist', f"if {meant} is meant, correct the name"


# --- arguments of plugins ---------------------------------------------------------------------------------------------


def _arguments(config: KubeSchedulerConfiguration, scheduler: KubeScheduler) -> Refusals:
    """Yield wrong arguments of enabled plugins; those that cannot be decoded are refused by `load`."""
    configs = [(number, *item) for number, one in enumerate(config.profiles) for item in enumerate(one.plugin_config)]
    for number, index, one in configs:
        kind, path = args_type(one.name, scheduler.minor), ("profiles", number, "pluginConfig", index, "args")
        if kind is None or one.args is None or one.name not in _named(config.profiles[number], scheduler):
            continue
        args = decode(kind, one.args, path)
        for key, expected in (("apiVersion", API_VERSION), ("kind", f"{one.name}Args")):
            if one.args.get(key) not in (None, "", expected):
                yield (*path, key), f"must be {expected}", ""
        for plugin, key, is_wrong, message in ARGUMENT_RULES:
            if plugin == one.name and is_wrong(args, scheduler.features):
                yield (*path, key), message, ""


def _repeats(items: Iterable[object]) -> bool:
    return any(count > 1 for count in Counter(items).values())


ARGUMENT_RULES: Final[Sequence[tuple[str, str, Callable[[Any, Features], bool], str]]] = (
    (
        "DefaultPreemption",
        "minCandidateNodesPercentage",
        lambda args, _: not (args.min_candidate_nodes_percentage or args.min_candidate_nodes_absolute),
        "must not be 0 where minCandidateNodesAbsolute is",
    ),
    (
        "PodTopologySpread",
        "defaultingType",
        lambda args, _: args.defaulting_type == "System" and bool(args.default_constraints),
        "must be List with defaultConstraints",
    ),
    (
        "PodTopologySpread",
        "defaultConstraints",
        lambda args, _: _repeats((one.topology_key, one.when_unsatisfiable) for one in args.default_constraints),
        "has a topologyKey twice",
    ),
    (
        "NodeResourcesBalancedAllocation",
        "resources",
        lambda args, _: _repeats(one.name for one in args.resources) or any(one.weight != 1 for one in args.resources),
        "must be distinct, each with weight 1",
    ),
    (
        "NodeResourcesFit",
        "ignoredResources",
        lambda args, _: not all(map(is_qualified_name, args.ignored_resources)),
        "must be names of resources such as example.com/gpu",
    ),
    (
        "NodeResourcesFit",
        "ignoredResourceGroups",
        lambda args, _: any("/" in one or not is_qualified_name(one) for one in args.ignored_resource_groups),
        "must be groups of resources such as example.com",
    ),
    (
        "VolumeBinding",
        "bindTimeoutSeconds",
        lambda args, _: isinstance(args.bind_timeout_seconds, int) and args.bind_timeout_seconds < 0,
        "must not be negative",
    ),
    (
        "VolumeBinding",
        "shape",
        lambda args, features: "shape" in args.model_fields_set and not features.storage_capacity_scoring,
        "needs the feature gate StorageCapacityScoring",
    ),
    (
        "DynamicResources",
        "bindingTimeout",
        lambda args, _: args.binding_timeout is not None and nanoseconds_of(args.binding_timeout) < 10**9,
        "must be at least 1s",
    ),
)
"""(plugin, key, whether its value is wrong, why): ValidateDefaultPreemptionArgs and so on."""

CHECKS: Final[Sequence[Callable[[KubeSchedulerConfiguration, KubeScheduler], Refusals]]] = (
    _extenders,
    _profiles,
    _enabled,
    _arguments,
)
