"""Functions that a selector may call, with the types of their overloads.

Those of cel-go's standard library and of the libraries that k8s.io/apiserver/pkg/cel/environment (v1.36) puts into the
environment of stored expressions: strings 2, lists 3, sets, optional types, two-variable comprehensions, and
Kubernetes' own. A declaration reads `id: (arguments) -> result`, members with the target before a dot.

Rule: only types; what a function does is in the modules that implement them, and what is nowhere is not followed.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from extender.k8s.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Type,
    list_of,
    map_of,
    opaque,
    optional_of,
    param,
    struct,
)

COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
SUMMABLE: Final = ("int", "uint", "double", "duration")

DEVICE: Final = struct("kubernetes.DRADevice")
QUANTITY: Final = struct("kubernetes.Quantity")
SEMVER: Final = struct("kubernetes.Semver")


def device_fields(*, of_1_37: bool) -> dict[str, Type]:
    """Return the type of each field of the variable `device`."""
    return {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, DYN if of_1_37 else ANY)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
        "allowMultipleAllocations": BOOL,
    }


TYPE_NAMES: Final[dict[str, Type]] = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "google.protobuf.Duration": DURATION,
    "int": INT,
    "list": list_of(param("A")),
    "map": map_of(param("A"), param("B")),
    "null_type": NULL,
    "string": STRING,
    "google.protobuf.Timestamp": TIMESTAMP,
    "type": TYPE,
    "uint": UINT,
    "optional_type": opaque("optional_type"),
}
"""Names that are types."""

GENERIC_TYPES: Final[dict[str, Type]] = {
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "optional_type": optional_of(DYN),
}
"""Names that v1.37 declares otherwise."""

_NAMED: dict[str, Type] = {
    **{name: kind for name, kind in TYPE_NAMES.items() if "." not in name and name not in ("list", "map")},
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "dyn": DYN,
    "Quantity": QUANTITY,
    "Semver": SEMVER,
    "URL": struct("kubernetes.URL"),
    "NamedFormat": struct("kubernetes.NamedFormat"),
    "IP": opaque("net.IP"),
    "CIDR": opaque("net.CIDR"),
    **{
        name: struct(f"kubernetes.authorization.{name}")
        for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
    },
}


@dataclass(frozen=True)
class Overload:
    id: str
    member: bool
    arguments: tuple[Type, ...]
    result: Type
    variables: frozenset[Type]


def _operators() -> list[str]:
    compared = ("int", "uint", "double")
    lines = []
    for name, word in (("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")):
        ids = [(f"{word}_bool", "bool", "bool")]
        for one in compared:
            for other in (one, *(each for each in compared if each != one)):
                short = {"int": "int64", "uint": "uint64", "double": "double"}
                suffix = short[one] if one == other else f"{short[one]}_{short[other]}"
                ids.append((f"{word}_{suffix}", one, other))
        ids += [(f"{word}_{each}", each, each) for each in ("string", "bytes", "timestamp", "duration")]
        lines += [f"{name} {overload}: ({one}, {other}) -> bool" for overload, one, other in ids]
    return lines


def _lists() -> list[str]:
    lines = []
    for each in COMPARABLE:
        lines += [
            f"isSorted list_{each}_is_sorted_bool: list<{each}>.() -> bool",
            f"max list_{each}_max_{each}: list<{each}>.() -> {each}",
            f"min list_{each}_min_{each}: list<{each}>.() -> {each}",
            f"sort list_{each}_sort: list<{each}>.() -> list<{each}>",
            f"@sortByAssociatedKeys list_{each}_sortByAssociatedKeys: list<T>.(list<{each}>) -> list<T>",
        ]
    return lines + [f"sum list_{each}_sum_{each}: list<{each}>.() -> {each}" for each in SUMMABLE]


_DECLARED = """
_?_:_ conditional: (bool, A, A) -> A
_&&_ logical_and: (bool, bool) -> bool
_||_ logical_or: (bool, bool) -> bool
!_ logical_not: (bool) -> bool
@not_strictly_false not_strictly_false: (bool) -> bool
_==_ equals: (A, A) -> bool
_!=_ not_equals: (A, A) -> bool
_+_ add_bytes: (bytes, bytes) -> bytes
_+_ add_double: (double, double) -> double
_+_ add_duration_duration: (duration, duration) -> duration
_+_ add_duration_timestamp: (duration, timestamp) -> timestamp
_+_ add_timestamp_duration: (timestamp, duration) -> timestamp
_+_ add_int64: (int, int) -> int
_+_ add_list: (list<A>, list<A>) -> list<A>
_+_ add_string: (string, string) -> string
_+_ add_uint64: (uint, uint) -> uint
_/_ divide_double: (double, double) -> double
_/_ divide_int64: (int, int) -> int
_/_ divide_uint64: (uint, uint) -> uint
_%_ modulo_int64: (int, int) -> int
_%_ modulo_uint64: (uint, uint) -> uint
_*_ multiply_double: (double, double) -> double
_*_ multiply_int64: (int, int) -> int
_*_ multiply_uint64: (uint, uint) -> uint
-_ negate_double: (double) -> double
-_ negate_int64: (int) -> int
_-_ subtract_double: (double, double) -> double
_-_ subtract_duration_duration: (duration, duration) -> duration
_-_ subtract_int64: (int, int) -> int
_-_ subtract_timestamp_duration: (timestamp, duration) -> timestamp
_-_ subtract_timestamp_timestamp: (timestamp, timestamp) -> duration
_-_ subtract_uint64: (uint, uint) -> uint
_[_] index_list: (list<A>, int) -> A
_[_] index_map: (map<A, B>, A) -> B
_[_] optional_list_index_int: (optional<list<V>>, int) -> optional<V>
_[_] optional_map_index_value: (optional<map<K, V>>, K) -> optional<V>
@in in_list: (A, list<A>) -> bool
@in in_map: (A, map<A, B>) -> bool
size size_bytes: (bytes) -> int
size bytes_size: bytes.() -> int
size size_list: (list<A>) -> int
size list_size: list<A>.() -> int
size size_map: (map<A, B>) -> int
size map_size: map<A, B>.() -> int
size size_string: (string) -> int
size string_size: string.() -> int
type type: (A) -> type<A>
bool bool_to_bool: (bool) -> bool
bool string_to_bool: (string) -> bool
bytes bytes_to_bytes: (bytes) -> bytes
bytes string_to_bytes: (string) -> bytes
double double_to_double: (double) -> double
double int64_to_double: (int) -> double
double string_to_double: (string) -> double
double uint64_to_double: (uint) -> double
duration duration_to_duration: (duration) -> duration
duration string_to_duration: (string) -> duration
dyn to_dyn: (A) -> dyn
int int64_to_int64: (int) -> int
int double_to_int64: (double) -> int
int duration_to_int64: (duration) -> int
int string_to_int64: (string) -> int
int timestamp_to_int64: (timestamp) -> int
int uint64_to_int64: (uint) -> int
string string_to_string: (string) -> string
string bool_to_string: (bool) -> string
string bytes_to_string: (bytes) -> string
string double_to_string: (double) -> string
string duration_to_string: (duration) -> string
string int64_to_string: (int) -> string
string timestamp_to_string: (timestamp) -> string
string uint64_to_string: (uint) -> string
string ip_to_string: (IP) -> string
string cidr_to_string: (CIDR) -> string
timestamp timestamp_to_timestamp: (timestamp) -> timestamp
timestamp int64_to_timestamp: (int) -> timestamp
timestamp string_to_timestamp: (string) -> timestamp
uint uint64_to_uint64: (uint) -> uint
uint double_to_uint64: (double) -> uint
uint int64_to_uint64: (int) -> uint
uint string_to_uint64: (string) -> uint
contains contains_string: string.(string) -> bool
endsWith ends_with_string: string.(string) -> bool
startsWith starts_with_string: string.(string) -> bool
matches matches: (string, string) -> bool
matches matches_string: string.(string) -> bool
getFullYear timestamp_to_year: timestamp.() -> int
getFullYear timestamp_to_year_with_tz: timestamp.(string) -> int
getMonth timestamp_to_month: timestamp.() -> int
getMonth timestamp_to_month_with_tz: timestamp.(string) -> int
getDayOfYear timestamp_to_day_of_year: timestamp.() -> int
getDayOfYear timestamp_to_day_of_year_with_tz: timestamp.(string) -> int
getDayOfMonth timestamp_to_day_of_month: timestamp.() -> int
getDayOfMonth timestamp_to_day_of_month_with_tz: timestamp.(string) -> int
getDate timestamp_to_day_of_month_1_based: timestamp.() -> int
getDate timestamp_to_day_of_month_1_based_with_tz: timestamp.(string) -> int
getDayOfWeek timestamp_to_day_of_week: timestamp.() -> int
getDayOfWeek timestamp_to_day_of_week_with_tz: timestamp.(string) -> int
getHours timestamp_to_hours: timestamp.() -> int
getHours timestamp_to_hours_with_tz: timestamp.(string) -> int
getHours duration_to_hours: duration.() -> int
getMinutes timestamp_to_minutes: timestamp.() -> int
getMinutes timestamp_to_minutes_with_tz: timestamp.(string) -> int
getMinutes duration_to_minutes: duration.() -> int
getSeconds timestamp_to_seconds: timestamp.() -> int
getSeconds timestamp_to_seconds_tz: timestamp.(string) -> int
getSeconds duration_to_seconds: duration.() -> int
getMilliseconds timestamp_to_milliseconds: timestamp.() -> int
getMilliseconds timestamp_to_milliseconds_with_tz: timestamp.(string) -> int
getMilliseconds duration_to_milliseconds: duration.() -> int
charAt string_char_at_int: string.(int) -> string
indexOf list_a_index_of_int: list<A>.(A) -> int
indexOf string_index_of_string: string.(string) -> int
indexOf string_index_of_string_int: string.(string, int) -> int
lastIndexOf list_a_last_index_of_int: list<A>.(A) -> int
lastIndexOf string_last_index_of_string: string.(string) -> int
lastIndexOf string_last_index_of_string_int: string.(string, int) -> int
lowerAscii string_lower_ascii: string.() -> string
replace string_replace_string_string: string.(string, string) -> string
replace string_replace_string_string_int: string.(string, string, int) -> string
split string_split_string: string.(string) -> list<string>
split string_split_string_int: string.(string, int) -> list<string>
substring string_substring_int: string.(int) -> string
substring string_substring_int_int: string.(int, int) -> string
trim string_trim: string.() -> string
upperAscii string_upper_ascii: string.() -> string
format string_format: string.(list<dyn>) -> string
strings.quote strings_quote: (string) -> string
join list_join: list<string>.() -> string
join list_join_string: list<string>.(string) -> string
sets.contains list_sets_contains_list: (list<T>, list<T>) -> bool
sets.equivalent list_sets_equivalent_list: (list<T>, list<T>) -> bool
sets.intersects list_sets_intersects_list: (list<T>, list<T>) -> bool
slice list_slice: list<T>.(int, int) -> list<T>
flatten list_flatten: list<list<T>>.() -> list<T>
flatten list_flatten_int: list<dyn>.(int) -> list<dyn>
lists.range lists_range: (int) -> list<int>
reverse list_reverse: list<T>.() -> list<T>
distinct list_distinct: list<T>.() -> list<T>
cel.@mapInsert @mapInsert_map_key_value: (map<K, V>, K, V) -> map<K, V>
cel.@mapInsert @mapInsert_map_map: (map<K, V>, map<K, V>) -> map<K, V>
optional.of optional_of: (V) -> optional<V>
optional.ofNonZeroValue optional_ofNonZeroValue: (V) -> optional<V>
optional.none optional_none: () -> optional<V>
value optional_value: optional<V>.() -> V
hasValue optional_hasValue: optional<V>.() -> bool
or optional_or_optional: optional<V>.(optional<V>) -> optional<V>
orValue optional_orValue_value: optional<V>.(V) -> V
_?._ select_optional_field: (dyn, string) -> optional<V>
_[?_] list_optindex_optional_int: (list<V>, int) -> optional<V>
_[?_] optional_list_optindex_optional_int: (optional<list<V>>, int) -> optional<V>
_[?_] map_optindex_optional_value: (map<K, V>, K) -> optional<V>
_[?_] optional_map_optindex_optional_value: (optional<map<K, V>>, K) -> optional<V>
last list_last: list<V>.() -> optional<V>
first list_first: list<V>.() -> optional<V>
optional.unwrap optional_unwrap: (list<optional<V>>) -> list<V>
unwrapOpt optional_unwrapOpt: list<optional<V>>.() -> list<V>
quantity string_to_quantity: (string) -> Quantity
isQuantity is_quantity_string: (string) -> bool
sign quantity_sign: (Quantity) -> int
isGreaterThan quantity_is_greater_than: Quantity.(Quantity) -> bool
isGreaterThan semver_is_greater_than: Semver.(Semver) -> bool
isLessThan quantity_is_less_than: Quantity.(Quantity) -> bool
isLessThan semver_is_less_than: Semver.(Semver) -> bool
compareTo quantity_compare_to: Quantity.(Quantity) -> int
compareTo semver_compare_to: Semver.(Semver) -> int
asApproximateFloat quantity_get_float: Quantity.() -> double
asInteger quantity_get_int: Quantity.() -> int
isInteger quantity_is_integer: Quantity.() -> bool
add quantity_add: Quantity.(Quantity) -> Quantity
add quantity_add_int: Quantity.(int) -> Quantity
sub quantity_sub: Quantity.(Quantity) -> Quantity
sub quantity_sub_int: Quantity.(int) -> Quantity
semver string_to_semver: (string) -> Semver
semver string_bool_to_semver: (string, bool) -> Semver
isSemver is_semver_string: (string) -> bool
isSemver is_semver_string_bool: (string, bool) -> bool
major semver_major: Semver.() -> int
minor semver_minor: Semver.() -> int
patch semver_patch: Semver.() -> int
includes dra_includes_dyn_dyn: dyn.(dyn) -> bool
find string_find_string: string.(string) -> string
findAll string_find_all_string: string.(string) -> list<string>
findAll string_find_all_string_int: string.(string, int) -> list<string>
url string_to_url: (string) -> URL
isURL is_url_string: (string) -> bool
getScheme url_get_scheme: URL.() -> string
getHost url_get_host: URL.() -> string
getHostname url_get_hostname: URL.() -> string
getPort url_get_port: URL.() -> string
getEscapedPath url_get_escaped_path: URL.() -> string
getQuery url_get_query: URL.() -> map<string, list<string>>
ip string_to_ip: (string) -> IP
ip cidr_ip: CIDR.() -> IP
family ip_family: IP.() -> int
ip.isCanonical ip_is_canonical: (string) -> bool
isUnspecified ip_is_unspecified: IP.() -> bool
isLoopback ip_is_loopback: IP.() -> bool
isLinkLocalMulticast ip_is_link_local_multicast: IP.() -> bool
isLinkLocalUnicast ip_is_link_local_unicast: IP.() -> bool
isGlobalUnicast ip_is_global_unicast: IP.() -> bool
isIP is_ip: (string) -> bool
cidr string_to_cidr: (string) -> CIDR
containsIP cidr_contains_ip_string: CIDR.(string) -> bool
containsIP cidr_contains_ip_ip: CIDR.(IP) -> bool
containsCIDR cidr_contains_cidr_string: CIDR.(string) -> bool
containsCIDR cidr_contains_cidr: CIDR.(CIDR) -> bool
prefixLength cidr_prefix_length: CIDR.() -> int
masked cidr_masked: CIDR.() -> CIDR
isCIDR is_cidr: (string) -> bool
validate format-validate: NamedFormat.(string) -> optional<list<string>>
format.named format-named: (string) -> optional<NamedFormat>
path authorizer_path: Authorizer.(string) -> PathCheck
group authorizer_group: Authorizer.(string) -> GroupCheck
serviceAccount authorizer_serviceaccount: Authorizer.(string, string) -> Authorizer
resource groupcheck_resource: GroupCheck.(string) -> ResourceCheck
subresource resourcecheck_subresource: ResourceCheck.(string) -> ResourceCheck
namespace resourcecheck_namespace: ResourceCheck.(string) -> ResourceCheck
name resourcecheck_name: ResourceCheck.(string) -> ResourceCheck
check pathcheck_check: PathCheck.(string) -> Decision
check resourcecheck_check: ResourceCheck.(string) -> Decision
errored decision_errored: Decision.() -> bool
error decision_error: Decision.() -> string
allowed decision_allowed: Decision.() -> bool
reason decision_reason: Decision.() -> string
fieldSelector authorizer_fieldselector: ResourceCheck.(string) -> ResourceCheck
labelSelector authorizer_labelselector: ResourceCheck.(string) -> ResourceCheck
"""

_FORMATS = (
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
)
"""Named formats of Kubernetes' format library."""

_UNTIL_1_36 = """
duration int64_to_duration: (int) -> duration
"""

_LINE = re.compile(r"(\S+) (\S+): (?:([^()]+)\.)?\((.*)\) -> (.*)")


@cache
def functions(*, of_1_37: bool) -> dict[str, tuple[Overload, ...]]:
    """Return the overloads of each function, in the order in which cel-go tries them."""
    until_1_36 = "" if of_1_37 else _UNTIL_1_36
    lines = [*_DECLARED.strip().splitlines(), *until_1_36.strip().splitlines(), *_operators(), *_lists()]
    lines += [f"format.{name} format.{name}: () -> NamedFormat" for name in _FORMATS]
    found: dict[str, list[Overload]] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        assert match is not None, line
        name, overload, target, arguments, result = match.groups()
        types = ([_type(target)] if target else []) + [_type(each) for each in _split(arguments)]
        variables = frozenset().union(*(_variables(each) for each in (*types, _type(result))))
        found.setdefault(name, []).append(Overload(overload, bool(target), tuple(types), _type(result), variables))
    return {name: tuple(overloads) for name, overloads in found.items()}


def _split(arguments: str) -> list[str]:
    """Return the arguments of a list; a comma within <> separates none."""
    return [each for each in re.split(r", (?![^<]*>)", arguments) if each]


def _type(text: str) -> Type:
    name, _, rest = text.partition("<")
    within = [_type(each) for each in _split(rest[:-1])] if rest else []
    if name == "list":
        return list_of(*within)
    if name == "map":
        return map_of(*within)
    if name == "optional":
        return optional_of(*within)
    if name == "type" and within:
        return ("type", *within)
    return param(name) if len(name) == 1 else _NAMED[name]


def _variables(of: Type) -> frozenset[Type]:
    if of[0] == "param":
        return frozenset([of])
    return frozenset().union(*(_variables(each) for each in of if isinstance(each, tuple)))
