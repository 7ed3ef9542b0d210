"""What every part reads off the raw objects, and the verdict that every part gives."""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

JSON = dict[str, Any]

SUCCESS = "Success"
UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"
ERROR = "Error"

NOT_STARTED = 2**63
"""Upstream takes the present moment for a missing start time: later than any that is known."""

_FRACTION = re.compile(r"\.(\d+)")


@dataclass(frozen=True, slots=True)
class Verdict:
    code: str = SUCCESS
    plugin: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return self.code == SUCCESS

    def to_dict(self) -> JSON:
        return {"code": self.code, "plugin": self.plugin, "reasons": sorted(self.reasons)}


def priority(pod: JSON) -> int:
    return int(pod["spec"].get("priority") or 0)


def start_time(pod: JSON) -> int:
    """Nanoseconds since 1970."""
    stamp = status(pod).get("startTime")
    return nanoseconds(stamp) if stamp else NOT_STARTED


@cache
def nanoseconds(stamp: str) -> int:
    found = _FRACTION.search(stamp)
    whole = datetime.fromisoformat(_FRACTION.sub("", stamp))
    return int(whole.timestamp()) * 10**9 + (int(found[1].ljust(9, "0")[:9]) if found else 0)


def status(thing: JSON) -> JSON:
    return thing.get("status") or {}


def labels(thing: JSON) -> dict[str, str]:
    return thing["metadata"].get("labels") or {}


def annotations(thing: JSON) -> dict[str, str]:
    return thing["metadata"].get("annotations") or {}


def namespace(thing: JSON) -> str:
    return str(thing["metadata"].get("namespace") or "default")


def terminating(thing: JSON) -> bool:
    return bool(thing["metadata"].get("deletionTimestamp"))


def controller(thing: JSON) -> JSON | None:
    """The owner reference of the one that manages it."""
    references: list[JSON] = thing["metadata"].get("ownerReferences") or []
    return next((one for one in references if one.get("controller")), None)


def finished(pod: JSON) -> bool:
    """The scheduler's informer never shows it such pods. Terminating ones it does see."""
    return status(pod).get("phase") in ("Succeeded", "Failed")


def always_restarts(container: JSON) -> bool:
    """A sidecar, if it is an init container."""
    return container.get("restartPolicy") == "Always"


def containers(pod: JSON) -> list[JSON]:
    return pod["spec"].get("containers") or []


def init_containers(pod: JSON) -> list[JSON]:
    return pod["spec"].get("initContainers") or []
