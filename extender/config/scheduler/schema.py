"""Types of KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), as kube-scheduler v1.36 decodes it.

Only fields that we read have types and ranges; kube-scheduler validates the others itself, so they are `Any`. Defaults
are filled in by `load` and `expansion`; `arguments` has the types of plugin arguments.

Rule: an unknown field is an error, and null is an absent field, as in kube-scheduler's strict decoding.
"""

# ruff: noqa: RUF012  # pydantic copies defaults
from typing import Annotated, Any, Final, get_args

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, model_validator

from extender.config.decoding import Section
from extender.config.scheduler.plugins import EXTENSION_POINTS
from extender.config.values import nanoseconds_of
from extender.utilities.text import suggestion

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"


def _duration(text: str) -> str:
    nanoseconds_of(text)
    return text


GoDuration = Annotated[str, AfterValidator(_duration)]
"""A Go duration as text; `nanoseconds_of` parses it."""
Int32 = Annotated[StrictInt, Field(ge=-(2**31), le=2**31 - 1)]
Percentage = Annotated[StrictInt, Field(ge=0, le=100)]
Int64 = Annotated[StrictInt, Field(ge=-(2**63), le=2**63 - 1)]


class KubernetesSection(Section):
    """Base of kube-scheduler's configuration types: null is decoded as in Go."""

    @model_validator(mode="before")
    @classmethod
    def _null_elements_are_empty(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data  # not a mapping: its type is rejected next
        # Go's JSON decoder leaves the zero value in the place of a null element.
        empty_of = {info.alias: "" if str in get_args(info.annotation) else {} for info in cls.model_fields.values()}
        return {
            key: [empty_of.get(key) if one is None else one for one in value] if isinstance(value, list) else value
            for key, value in data.items()
        }


class PluginSection(KubernetesSection):
    name: str = ""
    """Name of the plugin."""
    weight: Int32 | None = None
    """Weight of its score; unset or 0: 1."""


class PluginSetSection(KubernetesSection):
    enabled: list[PluginSection] = []
    """Plugins that are enabled in addition to the default ones."""
    disabled: list[PluginSection] = []
    """Default plugins that are disabled; `*`: all of them."""


def _known_point(point: str) -> str:
    known = ("multiPoint", *EXTENSION_POINTS)
    if point not in known:
        raise ValueError(f"unknown key{suggestion(point, known)}")
    return point


# A mapping, because the extension points are listed in `plugins`, and differ between versions.
Plugins = Annotated[
    dict[Annotated[str, AfterValidator(_known_point)], PluginSetSection],
    BeforeValidator(
        lambda sets: {k: {} if v is None else v for k, v in sets.items()} if isinstance(sets, dict) else sets
    ),
]
"""Plugin sets by extension point, and those of multiPoint, which are enabled wherever they are implemented."""


class PluginConfigSection(KubernetesSection):
    name: str = ""
    """Name of the plugin."""
    args: Any = None
    """Arguments of the plugin, such as NodeResourcesFitArgs."""


class ProfileSection(KubernetesSection):
    """KubeSchedulerProfile."""

    scheduler_name: str | None = None
    """spec.schedulerName of the profile's pods; unset in the only profile: default-scheduler."""
    percentage_of_nodes_to_score: Percentage | None = None
    """Overrides percentageOfNodesToScore for this profile."""
    plugins: Plugins = {}
    """Plugins that are enabled and disabled, by extension point."""
    plugin_config: list[PluginConfigSection] = []
    """Arguments of plugins."""


class ManagedResourceSection(KubernetesSection):
    name: str = ""
    """Name of an extended resource."""
    ignored_by_scheduler: StrictBool = False
    """NodeResourcesFit does not check the resource, in all profiles."""


class ExtenderTLSSection(KubernetesSection):
    insecure: StrictBool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class ExtenderSection(KubernetesSection):
    """Extender: how kube-scheduler calls one extender."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: StrictBool = Field(default=False, alias="enableHTTPS")
    tls_config: ExtenderTLSSection | None = None
    http_timeout: GoDuration | None = None
    """Go duration such as 5s; unset or 0s: 5s (NewHTTPExtender)."""
    node_cache_capable: StrictBool = False
    managed_resources: list[ManagedResourceSection] = []
    ignorable: StrictBool = False


class KubeSchedulerConfiguration(KubernetesSection):
    api_version: str = ""
    kind: str = ""
    percentage_of_nodes_to_score: Percentage | None = None
    profiles: list[ProfileSection] = []
    extenders: list[ExtenderSection] = []

    # Listed so that they are known; kube-scheduler validates them.
    parallelism: Any = None
    leader_election: Any = None
    client_connection: Any = None
    enable_profiling: Any = None
    enable_contention_profiling: Any = None
    pod_initial_backoff_seconds: Any = None
    pod_max_backoff_seconds: Any = None
    delay_cache_until_active: Any = None
