"""Generate the lines of a watch while pods change, and apply them as the service does."""

import random
from collections.abc import Sequence
from functools import partial

import msgspec

from benchmarks import generate
from benchmarks.fullpods import full_pod
from benchmarks.generate import Plan
from extender.cluster.cache.cache import Change, ClusterCache
from extender.cluster.watch.decode import Decoder

BATCH = 10
"""Lines that one read of a watch may bring."""


class Changing:
    """Generator of watch lines: some of the cluster's pods as the API server has them, and their changes."""

    def __init__(self, plan: Plan) -> None:
        rows = range(min(plan.nodes, 300))
        pods = [pod for row in rows for pod in generate.pods_on(plan, row)]
        self._pods = [full_pod(pod, number) for number, pod in enumerate(pods)]
        self._chance = random.Random(plan.seed)
        self._version = 10**9

    def all(self) -> list[bytes]:
        """Return an ADDED line for each pod."""
        return [self._line(pod) for pod in self._pods]

    def events(self, count: int) -> list[bytes]:
        """Return `count` changes: half change only a timestamp in the status, the others a label."""
        return [self._event(number % 2 == 0) for number in range(count)]

    def _event(self, matters: bool) -> bytes:
        pod = self._chance.choice(self._pods)
        if matters:
            labels = pod["metadata"].setdefault("labels", {})
            labels["revision"] = str(self._chance.randrange(10**6))
        else:
            pod["status"]["conditions"][2]["lastTransitionTime"] = f"2025-06-01T08:{self._chance.randrange(60):02}:00Z"
        return self._line(pod)

    def _line(self, pod: generate.JSON) -> bytes:
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version)
        return msgspec.json.encode({"type": "MODIFIED", "object": pod})


def take(cache: ClusterCache, decoder: Decoder, lines: Sequence[bytes], batch: int = BATCH) -> None:
    """Decode and apply watch lines as the reflector and the source do, in batches as large as one read may bring."""
    held = partial(cache.api_object, "Pod")
    for start in range(0, len(lines), batch):
        for line in lines[start : start + batch]:
            found = decoder.decode_event(line, held)
            assert found is not None, "unreadable watch line"
            cache.apply(Change("Pod", found[1]))
        cache.mutable_snapshot().refresh_layout(50)
