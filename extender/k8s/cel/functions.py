"""Functions that an expression may call: their overloads and implementations.

They are cel-go's standard library and the libraries that k8s.io/apiserver/pkg/cel/environment (v1.36) adds to the
environment of stored expressions: strings 2, lists 3, sets, optional types, two-variable comprehensions, and
Kubernetes' own. Modules in `library` declare their functions as `name: (arguments) -> result; …`, with the target of a
member function before a dot, and overloads in the order in which cel-go tries them.

Rule: planning a call of a function that is declared but not implemented raises UnsupportedFeature with its name.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from extender.k8s.cel.library import formatting, kubernetes, lists, patterns, standard, strings, times
from extender.k8s.cel.types import DYN, NAMED_TYPES, Type, optional_of


@dataclass(frozen=True, slots=True)
class Overload:
    member: bool
    arguments: tuple[Type, ...]
    """Types of the arguments; the target of a member function comes first."""
    result: Type
    variables: frozenset[Type]
    apply: Callable[..., Any] | None
    """Implementation, called with (run, *arguments); None if the planner evaluates it, or if it is not evaluated."""
    guarded: bool
    """Whether arguments of other types are rejected before `apply` is called."""


_PLANNED: Final = """
_?_:_: (bool, A, A) -> A
_&&_ _||_: (bool, bool) -> bool
@not_strictly_false: (bool) -> bool
_==_ _!=_: (A, A) -> bool
_[_]: (list<A>, int) -> A; (map<A, B>, A) -> B
_[_]: (optional<list<V>>, int) -> optional<V>; (optional<map<K, V>>, K) -> optional<V>
_?._: (dyn, string) -> optional<V>
_[?_]: (list<V>, int) -> optional<V>; (optional<list<V>>, int) -> optional<V>
_[?_]: (map<K, V>, K) -> optional<V>; (optional<map<K, V>>, K) -> optional<V>
or: optional<V>.(optional<V>) -> optional<V>
orValue: optional<V>.(V) -> V
"""
"""Functions that the planner evaluates itself: they do not need all arguments, or their cost is counted differently."""

_UNSUPPORTED: Final = """
url: (string) -> URL
isURL isIP isCIDR ip.isCanonical: (string) -> bool
getScheme getHost getHostname getPort getEscapedPath: URL.() -> string
getQuery: URL.() -> map<string, list<string>>
ip: (string) -> IP; CIDR.() -> IP
string: (IP) -> string; (CIDR) -> string
family: IP.() -> int
isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast: IP.() -> bool
cidr: (string) -> CIDR
containsIP: CIDR.(string) -> bool; CIDR.(IP) -> bool
containsCIDR: CIDR.(string) -> bool; CIDR.(CIDR) -> bool
prefixLength: CIDR.() -> int
masked: CIDR.() -> CIDR
validate: NamedFormat.(string) -> optional<list<string>>
format.named: (string) -> optional<NamedFormat>
format.dns1123Label format.dns1123Subdomain format.dns1035Label: () -> NamedFormat
format.dns1123LabelPrefix format.dns1123SubdomainPrefix format.dns1035LabelPrefix: () -> NamedFormat
format.qualifiedName format.labelValue format.uri format.uuid: () -> NamedFormat
format.byte format.date format.datetime: () -> NamedFormat
path: Authorizer.(string) -> PathCheck
group: Authorizer.(string) -> GroupCheck
serviceAccount: Authorizer.(string, string) -> Authorizer
resource: GroupCheck.(string) -> ResourceCheck
subresource namespace name fieldSelector labelSelector: ResourceCheck.(string) -> ResourceCheck
check: PathCheck.(string) -> Decision; ResourceCheck.(string) -> Decision
errored allowed: Decision.() -> bool
error reason: Decision.() -> string
"""

_TYPES: Final[dict[str, Type]] = {
    **NAMED_TYPES,
    "dyn": DYN,
    "duration": NAMED_TYPES["google.protobuf.Duration"],
    "timestamp": NAMED_TYPES["google.protobuf.Timestamp"],
    "IP": ("opaque", "net.IP"),
    "CIDR": ("opaque", "net.CIDR"),
    **{name: ("struct", f"kubernetes.{name}") for name in ("Quantity", "Semver", "URL", "NamedFormat")},
    **{
        name: ("struct", f"kubernetes.authorization.{name}")
        for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
    },
}
"""Type names in declarations; a single capital letter is a type parameter."""


@cache
def functions(*, of_1_37: bool) -> dict[str, tuple[Overload, ...]]:
    """Return the overloads of each function, in the order in which cel-go tries them."""
    found: dict[str, list[Overload]] = {}

    def declare(declarations: Mapping[str, Callable[..., Any] | None], *, guarded: bool = True) -> None:
        for declaration, apply in declarations.items():
            names, _, overloads = declaration.partition(": ")
            for name in names.split():
                found.setdefault(name, []).extend(_overload(each, apply, guarded) for each in overloads.split("; "))

    # The order matters: the overloads of a function are tried in the order of their declaration.
    declare(dict.fromkeys(_PLANNED.strip().splitlines()))
    for unguarded in (standard.OPERATORS, lists.OPERATORS, patterns.OPERATORS):
        declare(unguarded, guarded=False)
    for guarded in (standard, lists, strings, times, kubernetes, patterns, formatting):
        declare(guarded.FUNCTIONS)
    declare(dict.fromkeys(_UNSUPPORTED.strip().splitlines()))
    if not of_1_37:
        declare(standard.FUNCTIONS_UNTIL_1_36)
    return {name: tuple(overloads) for name, overloads in found.items()}


_OVERLOAD: Final = re.compile(r"(?:([^()]+)\.)?\((.*)\) -> (.*)")


def _overload(declaration: str, apply: Callable[..., Any] | None, guarded: bool) -> Overload:
    match = _OVERLOAD.fullmatch(declaration)
    assert match is not None, declaration
    target, arguments, result = match.groups()
    types = tuple(map(_type, [*([target] if target else []), *_split(arguments)]))
    variables = frozenset().union(*map(_variables, (*types, _type(result))))
    return Overload(bool(target), types, _type(result), variables, apply, guarded)


def _split(arguments: str) -> list[str]:
    """Split a list of arguments at its commas, except commas within <>."""
    return [each for each in re.split(r", (?![^<]*>)", arguments) if each]


def _type(text: str) -> Type:
    name, _, rest = text.partition("<")
    if not rest:
        return ("param", name) if len(name) == 1 else _TYPES[name]
    within = [_type(each) for each in _split(rest[:-1])]
    return optional_of(*within) if name == "optional" else (name, *within)


def _variables(of: Type) -> frozenset[Type]:
    if of[0] == "param":
        return frozenset([of])
    return frozenset().union(*(_variables(each) for each in of if isinstance(each, tuple)))
