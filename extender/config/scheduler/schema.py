"""Fields and types of KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), as kube-scheduler v1.36 decodes it.

Types and ranges of what we read: what kube-scheduler alone reads is `Any`, because it checks that itself. Defaults are
filled in by `load` and `expansion`. Arguments of plugins are decoded by `arguments`, once it is known which plugin they
belong to.

Rule: an unknown field is an error, and null is an absent field, as in kube-scheduler's strict decoding.
"""

# ruff: noqa: RUF012  # pydantic copies defaults
import re
from typing import Annotated, Any, Final, get_args

from pydantic import AfterValidator, Field, StrictBool, StrictInt, model_validator

from extender.config.decoding import Section
from extender.config.document import plain_scalar
from extender.config.values import nanoseconds_of

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

GROUP_POINTS_SINCE: Final = {
    "placement_generate": 36,
    "placement_score": 36,
    "pod_group_post_filter": 37,
    "placement_feasible": 38,
}
"""Field of PluginsSection for an extension point of pod groups -> first minor whose configuration has it."""

_YAML_CONSTANTS: Final = {
    spelling: value
    for value, words in ((True, ("y", "yes", "true", "on")), (False, ("n", "no", "false", "off")), (None, ("null",)))
    for word in words
    for spelling in (word, word.capitalize(), word.upper())
}
# With more digits in the exponent, the number might not end, or not be a number.
_FRACTION: Final = re.compile(r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d{1,2})?", re.ASCII)


def _duration(text: str) -> str:
    nanoseconds_of(text)
    return text


def kubernetes_scalar(text: str) -> object:
    """Return a plain scalar as Kubernetes' YAML reader does (sigs.k8s.io/yaml).

    YAML 1.1's booleans and decimal fractions are typed, too; a fraction without a rest is an integer.
    """
    if text in _YAML_CONSTANTS:
        return _YAML_CONSTANTS[text]
    value = plain_scalar(text)
    if not isinstance(value, str) or not _FRACTION.fullmatch(value):
        return value
    number = float(value)
    return int(number) if number.is_integer() else number


GoDuration = Annotated[str, AfterValidator(_duration)]
"""Text of a Go duration; `nanoseconds_of` reads it."""
Int32 = Annotated[StrictInt, Field(ge=-(2**31), le=2**31 - 1)]
Percentage = Annotated[StrictInt, Field(ge=0, le=100)]
Int64 = Annotated[StrictInt, Field(ge=-(2**63), le=2**63 - 1)]


class KubernetesSection(Section):
    """Base of all types of kube-scheduler's configuration: null is what Go's JSON decoder makes of it."""

    @model_validator(mode="before")
    @classmethod
    def _null_elements_are_empty(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data  # not a mapping: its type is refused next
        empty_of = {info.alias: "" if str in get_args(info.annotation) else {} for info in cls.model_fields.values()}
        return {
            key: [empty_of.get(key) if one is None else one for one in value] if isinstance(value, list) else value
            for key, value in data.items()
        }


class PluginSection(KubernetesSection):
    name: str = ""
    """Name of the plugin."""
    weight: Int32 | None = None
    """Factor for its score; unset or 0: 1."""


class PluginSetSection(KubernetesSection):
    enabled: list[PluginSection] = []
    """Plugins that are enabled in addition to the default ones."""
    disabled: list[PluginSection] = []
    """Default plugins that are disabled; `*`: all of them."""


class PluginsSection(KubernetesSection):
    """Plugin sets by extension point."""

    pre_enqueue: PluginSetSection = PluginSetSection()
    queue_sort: PluginSetSection = PluginSetSection()
    pre_filter: PluginSetSection = PluginSetSection()
    filter: PluginSetSection = PluginSetSection()
    post_filter: PluginSetSection = PluginSetSection()
    pre_score: PluginSetSection = PluginSetSection()
    score: PluginSetSection = PluginSetSection()
    reserve: PluginSetSection = PluginSetSection()
    permit: PluginSetSection = PluginSetSection()
    pre_bind: PluginSetSection = PluginSetSection()
    bind: PluginSetSection = PluginSetSection()
    post_bind: PluginSetSection = PluginSetSection()
    multi_point: PluginSetSection = PluginSetSection()
    """Plugins that are enabled at every extension point that they implement."""
    placement_generate: PluginSetSection = PluginSetSection()
    placement_score: PluginSetSection = PluginSetSection()
    pod_group_post_filter: PluginSetSection = PluginSetSection()
    placement_feasible: PluginSetSection = PluginSetSection()


class PluginConfigSection(KubernetesSection):
    name: str = ""
    """Name of the plugin."""
    args: Any = None
    """Arguments of the plugin, such as NodeResourcesFitArgs."""


class ProfileSection(KubernetesSection):
    """KubeSchedulerProfile."""

    scheduler_name: str | None = None
    """spec.schedulerName of the pods that the profile schedules; unset in the only profile: default-scheduler."""
    percentage_of_nodes_to_score: Percentage | None = None
    """Overrides percentageOfNodesToScore for this profile."""
    plugins: PluginsSection | None = None
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
    """How kube-scheduler calls one extender (Extender)."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: StrictBool = Field(default=False, alias="enableHTTPS")
    tls_config: ExtenderTLSSection | None = None
    http_timeout: GoDuration | None = None
    """Duration as Go writes it, such as 5s; unset or 0s: 5s (NewHTTPExtender)."""
    node_cache_capable: StrictBool = False
    managed_resources: list[ManagedResourceSection] = []
    ignorable: StrictBool = False


class KubeSchedulerConfiguration(KubernetesSection):
    api_version: str = ""
    kind: str = ""
    percentage_of_nodes_to_score: Percentage | None = None
    profiles: list[ProfileSection] = []
    extenders: list[ExtenderSection] = []

    parallelism: Any = None
    leader_election: Any = None
    client_connection: Any = None
    enable_profiling: Any = None
    enable_contention_profiling: Any = None
    pod_initial_backoff_seconds: Any = None
    pod_max_backoff_seconds: Any = None
    delay_cache_until_active: Any = None
