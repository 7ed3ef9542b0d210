"""A fake kubelet for all nodes: bound pods run, deleted pods end after a while."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx

from tests.e2e.control_plane.lab.api import Api, ApiError

START_TIME = "kubelet.example.com/start-time"
"""Annotation of a pod with the start time that the fake kubelet reports (default: now)."""

_WORKERS = 4


class FakeKubelet:
    """Makes bound pods Running and Ready and removes deleted pods `deletion_seconds` after their deletion."""

    def __init__(self, api: Api, deletion_seconds: float = 0.5) -> None:
        self.deletion_seconds = deletion_seconds
        self._api = api
        self._done: set[tuple[str, str]] = set()
        self._due: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._is_stopping = False
        self._threads = [threading.Thread(target=self._follow, daemon=True)]
        self._threads += [threading.Thread(target=self._work, daemon=True) for _ in range(_WORKERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop acting on pods; the watch ends with its client."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        for thread in self._threads[1:]:
            if thread.is_alive():
                thread.join(10)

    def _follow(self) -> None:
        while not self._should_end():
            try:
                listed = self._api.request("GET", "/api/v1/pods")
                for pod in listed["items"]:
                    self._see(pod)
                for event in self._api.watch("Pod", listed["metadata"]["resourceVersion"]):
                    if event["type"] == "ERROR":
                        break
                    if event["type"] != "DELETED":
                        self._see(event["object"])
                    if self._should_end():
                        return
            except (ApiError, httpx.HTTPError, RuntimeError):  # restarting, or the client was closed
                time.sleep(0.1)

    def _should_end(self) -> bool:
        return self._is_stopping

    def _see(self, pod: dict[str, Any]) -> None:
        about = pod["metadata"]
        if not pod["spec"].get("nodeName"):
            return
        if about.get("deletionTimestamp"):
            self._schedule("end", self.deletion_seconds, self._end, pod)
        elif pod["status"].get("phase", "Pending") == "Pending":
            self._schedule("run", 0.0, self._run, pod)

    def _schedule(self, what: str, delay: float, act: Callable[[Any], None], pod: dict[str, Any]) -> None:
        key = (what, pod["metadata"]["uid"])
        with self._changed:
            if key in self._done:
                return
            self._done.add(key)
            heapq.heappush(self._due, (time.monotonic() + delay, next(self._order), act, pod))
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > time.monotonic():
                    if self._is_stopping:
                        return
                    self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
                _, _, act, pod = heapq.heappop(self._due)
            try:
                act(pod)
            except ApiError as error:
                if error.status not in (404, 409):  # deleted meanwhile, or another pod of this name
                    self._try_again(act, pod)
            except (httpx.HTTPError, RuntimeError):
                self._try_again(act, pod)

    def _try_again(self, act: Callable[[Any], None], pod: dict[str, Any]) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + 0.3, next(self._order), act, pod))

    def _run(self, pod: dict[str, Any]) -> None:
        about = pod["metadata"]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        started = about.get("annotations", {}).get(START_TIME, now)
        kept = [one for one in pod["status"].get("conditions", ()) if one["type"] not in ("Ready", "ContainersReady")]
        ready = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("Initialized", "Ready", "ContainersReady")
        ]
        containers = [
            {"name": one["name"], "image": one["image"], "imageID": one["image"], "ready": True, "restartCount": 0,
             "state": {"running": {"startedAt": started}}}
            for one in pod["spec"]["containers"]
        ]  # fmt: skip
        status = {"phase": "Running", "startTime": started, "conditions": kept + ready, "containerStatuses": containers}
        patch = {"metadata": {"uid": about["uid"]}, "status": status}
        self._api.patch("Pod", about["name"], patch, about["namespace"], "status")

    def _end(self, pod: dict[str, Any]) -> None:
        about = pod["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": about["uid"]}}
        self._api.request("DELETE", self._api.path("Pod", about["namespace"], about["name"]), options)
