"""Lists: whole, or in pages that all show the same moment; of all namespaces or one, and of what selectors match.

Rule: a continued list shows the objects and the resourceVersion of its first page, whatever happened since.
"""

import base64
import binascii
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from extender.k8s.kinds import kind_without_group
from tests.fakes import statuses
from tests.fakes.kinds import Resource, Target
from tests.fakes.statuses import Refused
from tests.fakes.storage import Storage, Stored, metadata_of


class _Moment(NamedTuple):
    """What a list that is continued goes on to show."""

    kind: str
    revision: int
    items: list[Stored]
    has_selector: bool
    """Whether a selector chose the items: then it is unknown how many more there are."""


class _Token(msgspec.Struct):
    """What a continue token says."""

    moment: int
    start: int
    page: int


def page_of(params: Mapping[str, str]) -> int:
    """Which page of a list is asked for, from 1; 1 if the token is junk."""
    token = _decoded(params.get("continue", ""))
    return token.page if token else 1


class Pages:
    """The lists of a storage; whoever calls holds the server's lock."""

    KEPT = 64
    """How many lists can be continued at a time; the oldest is forgotten, and expired for its client."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._moments: OrderedDict[int, _Moment] = OrderedDict()
        self._last = 0

    def forget(self, before: int | None = None) -> None:
        """Lets continue tokens expire: those of revisions below `before`, or all."""
        for number, moment in list(self._moments.items()):
            if before is None or moment.revision < before:
                del self._moments[number]

    def answer(self, target: Target, params: Mapping[str, str], partial: bool) -> bytes:
        """The list that is asked for; Refused with the Status if there is none."""
        resource = target.resource
        if params.get("continue"):
            return self._continued(resource, params, partial)
        revision, items = self._first(resource.kind, params)
        has_selector = bool(params.get("fieldSelector") or params.get("labelSelector"))
        moment = _Moment(resource.kind, revision, _selected(items, target.namespace, params), has_selector)
        # As the real server's watch cache: a list at resourceVersion=0 is not paged.
        limit = 0 if params.get("resourceVersion") == "0" else _number(params, "limit")
        if not limit or limit >= len(moment.items):
            return _encoded(resource, moment, moment.items, partial)
        self._last += 1
        self._moments[self._last] = moment
        while len(self._moments) > self.KEPT:
            self._moments.popitem(last=False)
        return _page(resource, moment, _Token(self._last, 0, 1), limit, partial)

    def _first(self, kind: str, params: Mapping[str, str]) -> tuple[int, list[Stored]]:
        current, wanted, match = self._storage.revision, _number(params, "resourceVersion"), _match(params)
        if wanted > current:
            raise Refused(statuses.too_large(wanted, current))
        if match == "Exact" and wanted < current:
            if wanted < self._storage.compacted:
                raise Refused(statuses.failure(410, "The provided resource version is too old."))
            return wanted, self._storage.at(kind, wanted)
        return current, self._storage.all(kind)

    def _continued(self, resource: Resource, params: Mapping[str, str], partial: bool) -> bytes:
        if params.get("resourceVersion", "0") not in ("", "0"):
            raise Refused(statuses.failure(400, "specifying resource version is not allowed when using continue"))
        if params.get("resourceVersionMatch"):
            raise Refused(
                statuses.invalid_options("resourceVersionMatch", "resourceVersionMatch is forbidden for continue")
            )
        token = _decoded(params["continue"])
        if token is None:
            raise Refused(statuses.failure(400, "continue key is not valid: it is not one of this server's"))
        moment = self._moments.get(token.moment)
        if moment is None:
            raise Refused(statuses.failure(410, statuses.CONTINUE_EXPIRED))
        if moment.kind != resource.kind:
            raise Refused(statuses.failure(400, f"continue key is not valid: it belongs to a list of {moment.kind}"))
        return _page(resource, moment, token, _number(params, "limit") or len(moment.items), partial)


def _selected(items: list[Stored], namespace: str, params: Mapping[str, str]) -> list[Stored]:
    """The objects of a namespace, if one is named, with the fields and labels that selectors of equality ask for."""
    fields, labels = _requirements(params.get("fieldSelector", "")), _requirements(params.get("labelSelector", ""))
    if namespace:
        items = [item for item in items if item.key.startswith(f"{namespace}/")]
    if not fields and not labels:
        return items
    return [item for item in items if _matches(msgspec.json.decode(item.body), fields, labels)]


def _requirements(selector: str) -> list[tuple[list[str], bool, str]]:
    """(path, whether the value must be equal, value) of a selector such as `a.b=c,d!=e`; 400 for any other."""
    found = []
    for one in filter(None, selector.split(",")):
        name, sign, value = one.partition("!=") if "!=" in one else one.partition("=")
        if not sign:
            raise Refused(statuses.failure(400, f"the fake API server knows no selector {one!r}"))
        found.append((name.split("."), sign == "=", value.removeprefix("=")))
    return found


def _matches(obj: dict[str, Any], fields: list[tuple[list[str], bool, str]], labels: list[Any]) -> bool:
    carried = obj["metadata"].get("labels") or {}
    has_labels = all((carried.get(".".join(path)) == value) == is_equal for path, is_equal, value in labels)
    return has_labels and all((_field(obj, path) == value) == is_equal for path, is_equal, value in fields)


def _field(obj: Any, path: list[str]) -> str:
    for name in path:
        obj = obj.get(name) or {}
    return obj or ""


def _page(resource: Resource, moment: _Moment, token: _Token, limit: int, partial: bool) -> bytes:
    end = token.start + limit
    following = _Token(token.moment, end, token.page + 1) if end < len(moment.items) else None
    return _encoded(resource, moment, moment.items[token.start : end], partial, following)


def _encoded(
    resource: Resource, moment: _Moment, items: list[Stored], partial: bool, following: _Token | None = None
) -> bytes:
    metadata: dict[str, str | int] = {"resourceVersion": str(moment.revision)}
    if following is not None:
        metadata["continue"] = base64.urlsafe_b64encode(msgspec.json.encode(following)).decode()
        if not moment.has_selector:
            metadata["remainingItemCount"] = len(moment.items) - following.start
    kind = "PartialObjectMetadataList" if partial else f"{kind_without_group(resource.kind)}List"
    api_version = "meta.k8s.io/v1" if partial else resource.api_version
    head = msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
    bodies = (metadata_of(item.body) for item in items) if partial else (item.body for item in items)
    return b"".join((head[:-1], b',"items":[', b",".join(bodies), b"]}\n"))


def _decoded(token: str) -> _Token | None:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token.encode()), type=_Token)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return None


def _match(params: Mapping[str, str]) -> str:
    match = params.get("resourceVersionMatch", "")
    if match and not params.get("resourceVersion"):
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise Refused(statuses.invalid_options("resourceVersionMatch", why))
    if match not in ("", "Exact", "NotOlderThan"):
        raise Refused(statuses.invalid_options("resourceVersionMatch", f"unknown: {match}"))
    if match == "Exact" and params["resourceVersion"] == "0":
        why = 'resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'
        raise Refused(statuses.invalid_options("resourceVersionMatch", why))
    return match


def _number(params: Mapping[str, str], name: str) -> int:
    text = params.get(name) or "0"
    if not text.isdecimal():
        raise Refused(statuses.failure(400, f"{name}: Invalid value: {text!r}"))
    return int(text)
