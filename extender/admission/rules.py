"""Defaults, strategy and validation by API type, as rules.toml says: a rule applies wherever its type is.

So `core.v1.Toleration` is checked in a pod, in a workload's template and in a RuntimeClass by the same rule. Mirrors
what registry/rest/create.go of k8s.io/apiserver (v1.37) does with the strategy of a kind. A pod's own defaults and
strategy are in pods/.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from extender.admission import checks
from extender.admission.kinds import devices, others, workloads
from extender.admission.metadata import validate_name
from extender.admission.pods import containers, placement, validation
from extender.admission.pods.defaults import default_pod_spec
from extender.admission.pods.resources import round_up
from extender.admission.request import Manifest, Request
from extender.admission.schema import fields_of

Check = Callable[[Request, str, Any], None]
"""(request, path, value) -> findings."""

_TEMPLATE: Final = "core.v1.PodTemplateSpec"
VERSIONS = ("v1", "v1beta1", "v1beta2", "v1alpha2", "v1alpha3")
_WITH_RESOURCE_LISTS = ("core.", "node.")
_STRUCTS = frozenset({"spec", "template", "jobTemplate", "devices", "pool", "taint", "source", "schedulingPolicy"})
"""Fields that are structs in Go, not pointers, and so are there when left out."""

_FUNCTIONS: Final[Mapping[str, Callable[..., None]]] = {
    name: function
    for module in (checks, containers, placement, validation, devices, others, workloads)
    for name, function in vars(module).items()
}

# --- tables -----------------------------------------------------------------------------------------------------------


def _read_tables() -> dict[str, Any]:
    """Return the tables of rules.toml, with types of all versions of a group in each version."""
    tables = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
    for name in ("defaults", "completed", "gated", "structs", "fields"):
        for key in tuple(tables[name]):
            group, _, one = key.partition(".")
            if "." not in one:
                tables[name] |= dict.fromkeys((f"{group}.{version}.{one}" for version in VERSIONS), tables[name][key])
    return tables


TABLES: Final = _read_tables()
KINDS: Final[Mapping[str, str]] = TABLES["kinds"]
"""Kind -> its API type, in the version of an object that names none."""

_LEFT_OUT: Final = tuple(map(tuple, TABLES["required"]["left_out"]))
_UNCHECKED = {f"{type_name}Status" for kind, type_name in KINDS.items() if kind != "Node"}


def _check(spelled: str) -> Check:
    """Return a function for a text of the tables: checks with their arguments, separated by commas."""
    first, *further = spelled.split(", ", 1)
    name, *arguments = first.split()
    if name in checks.NAMES:
        name, arguments = "named", [name]
    function = _FUNCTIONS[name]
    rest = _check(further[0]) if further else None
    if not arguments and rest is None:
        return function

    def check(request: Request, path: str, value: Any) -> None:
        function(request, path, value, *arguments)
        if rest is not None:
            rest(request, path, value)

    return check


@cache
def _walker(type_name: str) -> Check | None:
    """Return a function that checks all that is in a value of the type; None if nothing has a rule there."""
    fields = fields_of(type_name) if type_name not in _UNCHECKED else {}
    own = {key: _check(spelled) for key, spelled in TABLES["fields"].get(type_name, {}).items() if key in fields}
    inner = {
        key: _of_each(field.shape, walker)
        for key, field in fields.items()
        if (walker := _walker(field.type)) is not None
    }
    texts = (key for key, field in fields.items() if field.is_required and (field.shape, field.type) == ("", "string"))
    required = [key for of, key in _LEFT_OUT if of == type_name]
    if type_name not in TABLES["required"]["unread"]:
        required += [key for key in texts if key not in required]
    check = _check(TABLES["structs"][type_name]) if type_name in TABLES["structs"] else None

    def walk(request: Request, path: str, value: Manifest) -> None:
        place = f"{path}." if path else ""
        for key in required:
            if not value.get(key):
                if (type_name, key) in _LEFT_OUT:
                    request.findings.left_out.append(place + key)
                else:
                    request.findings.required(place + key)
        for key, found in value.items():
            if key in own and found is not None:
                own[key](request, place + key, found)
        if check is not None:
            check(request, path, value)
        for key, found in value.items():
            if key in inner and found is not None:
                inner[key](request, place + key, found)

    return walk if required or own or inner or check is not None else None


def _of_each(shape: str, walker: Check) -> Check:
    """Return a function that checks a value, or each element of a list or a map."""

    def walk(request: Request, path: str, value: Any) -> None:
        for index, one in enumerate(value) if shape == "[]" else value.items():
            walker(request, f"{path}[{index}]", one)

    return walk if shape else walker


def _type_of(request: Request) -> str:
    group, version, kind = KINDS[request.kind].split(".")
    return f"{group}.{request.object.get('apiVersion', version).rpartition('/')[2]}.{kind}"


def _structs(type_name: str, value: Manifest) -> Iterator[tuple[str, Manifest]]:
    """Yield (type, struct) for all structs in a value but the templates of pods, and then the value itself."""
    for key, field in fields_of(type_name).items():
        if fields_of(field.type):
            if key in _STRUCTS and not field.shape:
                value.setdefault(key, {})
            found = value.get(key)
            if found is not None and field.type != _TEMPLATE:
                for one in (found,) if not field.shape else found if field.shape == "[]" else found.values():
                    yield from _structs(field.type, one)
    yield type_name, value


# --- steps ------------------------------------------------------------------------------------------------------------


def set_defaults(request: Request) -> None:
    for type_name, one in _structs(_type_of(request), request.object):
        for key, value in TABLES["defaults"].get(type_name, {}).items():
            # An empty text is absent, but for a pointer in Go, which its checks refuse.
            is_pointer = "not_empty" in TABLES["fields"].get(type_name, {}).get(key, "")
            if one.get(key) is None or (one[key] == "" and not is_pointer):
                one[key] = value
        for key, field in fields_of(type_name).items():
            if field.type == _TEMPLATE:
                default_pod_spec(one.setdefault(key, {}).setdefault("spec", {}))
            elif field.type == "quantity" and field.shape and type_name.startswith(_WITH_RESOURCE_LISTS):
                round_up(one.get(key))
        if (name := TABLES["completed"].get(type_name)) is not None:
            _FUNCTIONS[name](one)


def prepare_for_create(request: Request) -> None:
    """Drop what a client may not set."""
    # Objects that exist may have been stored with other feature gates, and a Node is created with its status.
    if not request.is_state:
        for type_name, one in _structs(_type_of(request), request.object):
            for key, feature in TABLES["gated"].get(type_name, {}).items():
                if not getattr(request.cluster.features, feature):
                    one.pop(key, None)
        if request.kind != "Node":
            request.object.pop("status", None)
    if request.kind == "PersistentVolume":
        others.settle_volume(request.object)


def validate(request: Request) -> None:
    validate_name(request, checks.NAMES[TABLES["names"].get(request.kind, "dns_subdomain")])
    one = workloads.with_claim_volumes(request.object) if request.kind == "StatefulSet" else request.object
    validate_type(request, _type_of(request), "", one)


def validate_type(request: Request, type_name: str, path: str, value: Manifest) -> None:
    """Append what is wrong with a value of the type, at any depth, to the findings."""
    if (walker := _walker(type_name)) is not None:
        walker(request, path, value)
