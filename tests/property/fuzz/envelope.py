"""What Go's encoding/json would make of a body, read a second way: slowly, and with the standard library.

Rule: nothing of `extender.wire` is used here.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

Summary = tuple[Any, ...]
JSON = dict[str, Any]


def parsed(body: bytes) -> Any:
    """The JSON value; ValueError for anything else, a lone surrogate or a number that Go does not know included."""
    value = json.loads(body.decode("utf-8"), parse_constant=_refuse)
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(constant)


# --- keys -----------------------------------------------------------------------------------------------------------


class Keys:
    """How members are found: by the exact name or, of those that differ in case only, the last."""

    def __init__(self, *, any_case: bool) -> None:
        self._any_case = any_case

    def get(self, given: JSON, name: str) -> Any:
        if name in given:
            return given[name]
        others = [key for key in given if self._any_case and key.casefold() == name.casefold()]
        return given[others[-1]] if others else None


def summary(verb: str, value: JSON) -> Summary:
    """Who is asked about and what is offered; by exact keys if all that is needed is there, else in any case."""
    read = _READERS[verb]
    try:
        return read(value, Keys(any_case=False))
    except Missing:
        return read(value, Keys(any_case=True))


class Missing(Exception):
    """Stands for a key that is absent."""


def _needed(found: Any) -> Any:
    if found is None:
        raise Missing
    return found


def _pod(pod: JSON) -> Summary:
    metadata = pod["metadata"]
    return metadata.get("name") or "", metadata.get("uid") or "", (pod.get("spec") or {}).get("priority") or 0


def _filter(value: JSON, keys: Keys) -> Summary:
    pod, whole, names = _needed(keys.get(value, "Pod")), keys.get(value, "Nodes"), keys.get(value, "NodeNames")
    if whole is None:
        return _pod(pod), False, list(_needed(names))
    return _pod(pod), True, [node["metadata"]["name"] for node in whole["items"] or ()]


def _preempt(value: JSON, keys: Keys) -> Summary:
    pod, whole = _needed(keys.get(value, "Pod")), keys.get(value, "NodeNameToVictims")
    if whole is None:
        by_node, uid_of = _needed(keys.get(value, "NodeNameToMetaVictims")), _meta_uid(keys)
    else:
        by_node, uid_of = whole, _whole_uid
    return _pod(pod), {node: _victims(victims, keys, uid_of) for node, victims in by_node.items()}


def _victims(victims: JSON, keys: Keys, uid_of: Callable[[JSON], str]) -> Summary:
    spelled = {"Pods", "NumPDBViolations"} if keys.get({"x": 1}, "X") is None else set()
    if not spelled <= set(victims):
        raise Missing
    pods: Iterable[JSON] = keys.get(victims, "Pods") or ()
    return [uid_of(pod) for pod in pods], keys.get(victims, "NumPDBViolations") or 0


def _meta_uid(keys: Keys) -> Callable[[JSON], str]:
    return lambda pod: _needed(keys.get(pod, "UID"))


def _whole_uid(pod: JSON) -> str:
    return pod["metadata"]["uid"]


def _bind(value: JSON, keys: Keys) -> Summary:
    return tuple(_needed(keys.get(value, name)) for name in ("PodNamespace", "PodName", "PodUID", "Node"))


_READERS: dict[str, Callable[[JSON, Keys], Summary]] = {
    "filter": _filter,
    "prioritize": _filter,
    "preempt": _preempt,
    "bind": _bind,
}

# --- the same with other keys ---------------------------------------------------------------------------------------

_ENVELOPE = (
    *("Pod", "Nodes", "NodeNames", "NodeNameToVictims", "NodeNameToMetaVictims"),
    *("PodName", "PodNamespace", "PodUID", "Node"),
)


def respelled(verb: str, value: JSON, respell: Callable[[str], str]) -> bytes:
    """The body with the keys of the extender types in another case, and nothing beside them; ValueError if JSON has no
    word for a number."""
    plain = _as_go_writes(verb, value)
    return json.dumps(_with_keys(plain, respell, depth=4), allow_nan=False).encode()


def _as_go_writes(verb: str, value: JSON) -> JSON:
    """The members that count, by their exact names."""
    keys = Keys(any_case=False)
    try:
        _READERS[verb](value, keys)
    except Missing:
        keys = Keys(any_case=True)
    top = {name: keys.get(value, name) for name in _ENVELOPE if keys.get(value, name) is not None}
    for name in ("NodeNameToVictims", "NodeNameToMetaVictims"):
        if verb == "preempt" and name in top:
            top[name] = {node: _plain_victims(victims, keys, name) for node, victims in top[name].items()}
    return top


def _plain_victims(victims: JSON, keys: Keys, name: str) -> JSON:
    pods = keys.get(victims, "Pods")
    if name == "NodeNameToMetaVictims" and pods is not None:
        pods = [{"UID": keys.get(pod, "UID")} for pod in pods]
    return {"Pods": pods, "NumPDBViolations": keys.get(victims, "NumPDBViolations") or 0}


def _with_keys(value: Any, respell: Callable[[str], str], depth: int) -> Any:
    """Names of nodes stand where keys do, but are none: they are left alone, and so is all of a Kubernetes object."""
    if depth == 0 or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return [_with_keys(one, respell, depth - 1) for one in value]
    changed = {}
    for key, below in value.items():
        is_object = key in ("Pod", "Nodes", "metadata", "spec", "status")
        changed[respell(key) if depth != 3 else key] = below if is_object else _with_keys(below, respell, depth - 1)
    return changed
