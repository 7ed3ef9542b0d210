"""Check names, label keys, label values and the like; each function returns what is wrong, or None.

Mirrors k8s.io/apimachinery util/validation and api/validate/content (v1.37), whose words the answers are.
rules.toml names these functions, too.

Divergence: one mistake of a name is reported, the first; an API server adds "too long" to "invalid characters".
"""

import re
from collections.abc import Iterator
from itertools import count
from typing import Final

from extender.k8s.cel.library.kubernetes import semver
from extender.k8s.cel.values import CelError
from extender.k8s.limits.limits import MAX_LABEL_CHARACTERS, MAX_NAME_CHARACTERS
from extender.k8s.requests import is_extended, is_pod_level
from extender.k8s.selectors import is_label_value, is_qualified_name

SAFE_CHARACTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of generated names and of a pod-template-hash (apimachinery util/rand, v1.37)."""

SUFFIX_LENGTH: Final = 5
"""Number of characters that are appended to the prefix of a generated name (apiserver storage/names, v1.37)."""

_MAX_PORT_NAME_CHARACTERS = 15

HUGE_PAGES: Final = "hugepages-"
_QUOTA = "requests."
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
OF_OBJECTS: Final = frozenset(
    {"pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims"}
    | {"services.nodeports", "services.loadbalancers"}
)
"""Resources that are counted in whole objects."""
_STANDARD = OF_OBJECTS.union(
    _OF_CONTAINERS, ("storage", "requests.storage"), *((f"requests.{one}", f"limits.{one}") for one in _OF_CONTAINERS)
)

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY_CHARACTERS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY}')"
)


def dns_label(text: str) -> str | None:
    """Check a lowercase RFC 1123 label, such as a namespace or a container's name."""
    if len(text) > MAX_LABEL_CHARACTERS:
        return f"must be no more than {MAX_LABEL_CHARACTERS} bytes"
    if re.fullmatch(_LABEL, text):
        return None
    if re.fullmatch(_SUBDOMAIN, text):
        return "must not contain dots"
    return (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
        f" with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
    )


def dns_subdomain(text: str) -> str | None:
    """Check a lowercase RFC 1123 subdomain, such as the name of a pod or a node."""
    if len(text) > MAX_NAME_CHARACTERS:
        return f"must be no more than {MAX_NAME_CHARACTERS} bytes"
    if re.fullmatch(_SUBDOMAIN, text):
        return None
    return (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start"
        " and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
        f" '{_SUBDOMAIN}')"
    )


def dns_1035_label(text: str) -> str | None:
    """Check an RFC 1035 label, such as a Service's name."""
    if len(text) > MAX_LABEL_CHARACTERS:
        return f"must be no more than {MAX_LABEL_CHARACTERS} bytes"
    if re.fullmatch(_DNS_1035_LABEL, text):
        return None
    return (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
        " character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation"
        f" is '{_DNS_1035_LABEL}')"
    )


def qualified_name(text: str) -> str | None:
    """Check a label key or a resource name, with or without a DNS prefix."""
    if is_qualified_name(text):
        return None
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return (
            f"a valid label key {_KEY_CHARACTERS} with an optional DNS subdomain prefix and '/'"
            " (e.g. 'example.com/MyName')"
        )
    if slash and not prefix:
        return "prefix part must be non-empty"
    if slash and (detail := dns_subdomain(prefix)):
        return f"prefix part {detail}"
    if not name:
        return "name part must be non-empty"
    if len(name) > MAX_LABEL_CHARACTERS:
        return f"name part must be no more than {MAX_LABEL_CHARACTERS} bytes"
    return f"name part {_KEY_CHARACTERS}"


def any_case_qualified_name(text: str) -> str | None:
    return qualified_name(text.lower())


def label_value(text: str) -> str | None:
    """Check the value of a label."""
    if is_label_value(text):
        return None
    if len(text) > MAX_LABEL_CHARACTERS:
        return f"must be no more than {MAX_LABEL_CHARACTERS} bytes"
    return (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start"
        " and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for"
        f" validation is '({_KEY})?')"
    )


def finalizer(text: str) -> str | None:
    """Check the name of a finalizer (ValidateFinalizerName)."""
    is_known = "/" in text or text in ("kubernetes", "orphan", "foregroundDeletion")
    detail = None if is_known else "name is neither a standard finalizer name nor is it fully qualified"
    return qualified_name(text) or detail


def port_name(text: str) -> str | None:
    """Check the name of a port (RFC 6335)."""
    if len(text) > _MAX_PORT_NAME_CHARACTERS:
        return f"must be no more than {_MAX_PORT_NAME_CHARACTERS} bytes"
    if not re.fullmatch("[-a-z0-9]+", text):
        return "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search("[a-z]", text):
        return "must contain at least one letter (a-z)"
    if "--" in text:
        return "must not contain consecutive hyphens"
    return "must not begin or end with a hyphen" if text[0] == "-" or text[-1] == "-" else None


def path_segment(text: str) -> str | None:
    """Check a name that only has to fit into a URL (ValidatePathSegmentName)."""
    if text in (".", ".."):
        return f"may not be '{text}'"
    return next((f"may not contain '{one}'" for one in "/%" if one in text), None)


def driver_name(text: str) -> str | None:
    """Check the name of a CSI or DRA driver (ValidateCSIDriverName)."""
    return "must be no more than 63 bytes" if len(text) > 63 else dns_subdomain(text.lower())


def pool_name(text: str) -> str | None:
    """Check the name of a pool of devices: DNS subdomains between slashes (validatePoolName)."""
    if len(text) > MAX_NAME_CHARACTERS:
        return f"must be no more than {MAX_NAME_CHARACTERS} bytes"
    return next(filter(None, map(dns_subdomain, text.split("/"))), None)


def attribute_name(text: str) -> str | None:
    """Check the name of a device's attribute or capacity, with or without a domain (validateQualifiedName)."""
    domain, slash, name = text.rpartition("/")
    if slash and (detail := driver_name(domain)):
        return detail
    return (
        None
        if re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,31}", name)
        else "a valid C identifier of at most 32 characters is required"
    )


def full_attribute_name(text: str) -> str | None:
    return attribute_name(text) if "/" in text else "must be a domain and a name separated by a slash"


def cron_job_name(text: str) -> str | None:
    # The controller appends eleven characters.
    return "must be no more than 52 characters" if len(text) > 52 else dns_subdomain(text)


def cron_schedule(text: str) -> str | None:
    fields = text.split()
    is_valid = len(fields) == 5 or text.startswith("@")
    return None if is_valid else f"expected exactly 5 fields, found {len(fields)}: [{text}]"


def feature_name(text: str) -> str | None:
    is_valid = re.fullmatch("[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*", text)
    return None if is_valid else "must be UpperCamelCase segments, separated by '/'"


def version(text: str) -> str | None:
    try:
        semver(text)
    except CelError:
        return "must be a string compatible with semver.org spec 2.0.0"
    return None


def generated_names(prefix: str, start: int = 0) -> Iterator[str]:
    """Yield names of the form that an API server or a controller generates, 14 million different ones."""
    # In order, not at random: the same request must get the same answer.
    for number in count(start):
        suffix = ""
        for _ in range(SUFFIX_LENGTH):
            number, digit = divmod(number, len(SAFE_CHARACTERS))
            suffix = SAFE_CHARACTERS[digit] + suffix
        yield prefix[: MAX_LABEL_CHARACTERS - SUFFIX_LENGTH] + suffix


# --- names of resources -----------------------------------------------------------------------------------------------


def is_native(name: str) -> bool:
    """Return whether Kubernetes defines the resource: cpu, or kubernetes.io/something."""
    return "/" not in name or "kubernetes.io/" in name


def resource_name(name: str) -> str | None:
    """Check the name of a resource of a node, a quota or a LimitRange."""
    if detail := qualified_name(name):
        return detail
    if "/" in name or name in _STANDARD or name.removeprefix(_QUOTA).startswith(HUGE_PAGES):
        return None
    return "must be a standard resource type or fully qualified"


def is_of_containers(name: str) -> bool:
    """Return whether the resource is one of those without a prefix that a container may request."""
    return name in _OF_CONTAINERS or name.startswith(HUGE_PAGES)


def container_resource_name(name: str) -> str | None:
    if detail := resource_name(name):
        return detail
    if "/" not in name:
        return None if is_of_containers(name) else "must be a standard resource for containers"
    return None if is_native(name) or is_extended(name) else "doesn't follow extended resource name standard"


def pod_resource_name(name: str) -> str | None:
    if detail := resource_name(name):
        return detail
    return None if is_pod_level(name) else 'must be one of "cpu", "hugepages-", "memory"'


def quota_resource_name(text: str) -> str | None:
    return "must be a standard resource for quota" if text == "storage" else resource_name(text)


def extended_resource_name(text: str) -> str | None:
    return None if is_extended(text) else "must be a valid extended resource name"
