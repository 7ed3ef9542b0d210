"""Compare the extender's cache (GET /cluster) with the API server, field by field."""

from collections.abc import Iterable
from typing import Any

from extender.cluster.watch.list_watch import RESOURCES
from tests.e2e.control_plane.lab.api import Api, ApiError, Objects
from tests.e2e.control_plane.lab.process import wait_until
from tests.e2e.control_plane.lab.service import Service

JSON = dict[str, Any]


def assert_cache_is_current(service: Service, api: Api, timeout: float = 20.0) -> None:
    """Wait until the cache of a service equals the API server."""
    last: list[str] = []

    def is_equal() -> bool:
        last[:] = cache_differences(service, api)
        return not last

    try:
        wait_until(is_equal, timeout, "the cache to equal the API server")
    except AssertionError:
        raise AssertionError("\n".join(last[:20])) from None


def cache_differences(service: Service, api: Api) -> list[str]:
    """Return a line for each object that is missing, left over or different in the cache."""
    answer = service.admin_get("/cluster")
    if answer.status_code == 503:
        return [f"not ready: {answer.text}"]
    cached = answer.raise_for_status().json()["items"]
    lines = []
    for resource in RESOURCES:
        kind, found = resource.kind, _listed(api, resource.path)
        running = (one for one in found if one.get("status", {}).get("phase") not in ("Succeeded", "Failed"))
        listed = _by_name(running)
        kept = _by_name(one for one in cached if one["kind"] == kind)
        lines += [f"{kind} {name} is not in the cache" for name in listed.keys() - kept.keys()]
        lines += [f"{kind} {name} is in the cache only" for name in kept.keys() - listed.keys()]
        for name in kept.keys() & listed.keys():
            own = {key: value for key, value in kept[name].items() if key not in ("kind", "apiVersion")}
            if difference := _difference(own, listed[name], ""):
                lines.append(f"{kind} {name}: {difference}")
    return lines


def _listed(api: Api, path: str) -> Objects:
    """Return the objects of a kind; none if the API server does not serve it."""
    try:
        items: Objects = api.request("GET", path)["items"]
    except ApiError as error:
        if error.status != 404:
            raise
        return []
    return items


def _by_name(objects: Iterable[JSON]) -> dict[tuple[str, str], JSON]:
    return {(one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in objects}


def _difference(cached: Any, listed: Any, path: str) -> str | None:
    """Return the first field of the cached object that the listed one has otherwise; empty is the same as absent."""
    if isinstance(cached, dict) and isinstance(listed, dict):
        inside = ((key, value, listed.get(key)) for key, value in cached.items())
        return next(filter(None, (_difference(own, other, f"{path}.{key}") for key, own, other in inside)), None)
    if isinstance(cached, list) and isinstance(listed, list) and len(cached) == len(listed):
        pairs = enumerate(zip(cached, listed, strict=True))
        return next(filter(None, (_difference(a, b, f"{path}[{number}]") for number, (a, b) in pairs)), None)
    return None if cached == listed or (not cached and not listed) else f"{path} is {cached!r}, not {listed!r}"
