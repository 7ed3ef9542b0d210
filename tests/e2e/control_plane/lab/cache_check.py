"""Compare the extender's cache with the API server, field by field.

Rule: the cache is read from a recording, which begins with a full copy of it.
"""

import gzip
import json
import uuid
from pathlib import Path
from typing import Any

from extender.cluster.watch.list_watch import RESOURCES
from tests.e2e.control_plane.lab.api import Api
from tests.e2e.control_plane.lab.process import wait_until
from tests.e2e.control_plane.lab.service import Service

JSON = dict[str, Any]
Objects = dict[tuple[str, str], JSON]


def recording(directory: Path) -> JSON:
    """Return the configuration that `cache_differences` needs."""
    return {"recording": {"directory": str(directory)}}


def assert_cache_is_current(service: Service, api: Api, directory: Path, timeout: float = 15.0) -> None:
    """Wait until the cache of a service with `recording(directory)` equals the API server."""
    last: list[str] = []

    def is_equal() -> bool:
        last[:] = cache_differences(service, api, directory)
        return not last

    try:
        wait_until(is_equal, timeout, "the cache to equal the API server")
    except AssertionError:
        raise AssertionError("\n".join(last[:20])) from None


def cache_differences(service: Service, api: Api, directory: Path) -> list[str]:
    """Return a line for each object that is missing, left over or different in the cache."""
    cached = _cached(service, api, directory)
    lines = []
    for resource in RESOURCES:
        answer = api.request("GET", resource.path)
        running = (one for one in answer["items"] if one.get("status", {}).get("phase") not in ("Succeeded", "Failed"))
        listed = _by_name(running)
        kind = answer["kind"].removesuffix("List")
        kept = _by_name(one for one in cached if one["kind"] == kind)
        lines += [f"{kind} {name} is not in the cache" for name in listed.keys() - kept.keys()]
        lines += [f"{kind} {name} is in the cache only" for name in kept.keys() - listed.keys()]
        for name in kept.keys() & listed.keys():
            own = {key: value for key, value in kept[name].items() if key not in ("kind", "apiVersion")}
            if difference := _difference(own, listed[name], ""):
                lines.append(f"{kind} {name}: {difference}")
    return lines


def _by_name(objects) -> Objects:
    return {(one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in objects}


def _cached(service: Service, api: Api, directory: Path) -> list[JSON]:
    """Start a new segment of the recording with a call, and read the copy of the cache that it begins with."""
    before = set(directory.glob("*/cluster.json.gz"))
    for is_on in (False, True):
        service.admin_post("/recording", {"enabled": is_on}).raise_for_status()
    names = [one["metadata"]["name"] for one in api.list("Node")]
    about = {"name": "cache-check", "namespace": "default", "uid": str(uuid.uuid4())}
    pod = {"metadata": about, "spec": {"containers": [{"name": "main", "image": "registry.example.com/app:1"}]}}
    service.call("filter", {"Pod": pod, "NodeNames": names}).raise_for_status()
    (segment,) = wait_until(lambda: set(directory.glob("*/cluster.json.gz")) - before, 10, "a new segment")
    return wait_until(lambda: _read(segment), 10, "the copy of the cache")


def _read(segment: Path) -> list[JSON]:
    try:
        return json.loads(gzip.decompress(segment.read_bytes()))["items"]
    except (EOFError, ValueError):  # still being written
        return []


def _difference(cached: Any, listed: Any, path: str) -> str | None:
    """Return the first field of the cached object that the listed one has otherwise; empty is the same as absent."""
    if isinstance(cached, dict) and isinstance(listed, dict):
        inside = ((key, value, listed.get(key)) for key, value in cached.items())
        return next(filter(None, (_difference(own, other, f"{path}.{key}") for key, own, other in inside)), None)
    if isinstance(cached, list) and isinstance(listed, list) and len(cached) == len(listed):
        pairs = enumerate(zip(cached, listed, strict=True))
        return next(filter(None, (_difference(a, b, f"{path}[{number}]") for number, (a, b) in pairs)), None)
    return None if cached == listed or (not cached and not listed) else f"{path} is {cached!r}, not {listed!r}"
