"""Estimate the memory of decoded objects.

Rule: an estimate is an upper one whatever the object holds, and costs little more than encoding it.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from extender.k8s.objects import Pod

POD_BYTES = 1000
"""Memory of a pod without its lists, maps, structs and long strings."""

_PARTS = list, dict, msgspec.Struct
"""Types of a field whose value counts by itself."""

_LONG = 100
"""Characters of a string from which on it counts by itself."""

_ENCODER = msgspec.json.Encoder()


def memory_of(value: Any) -> int:
    """Return an upper estimate of a decoded value's memory in bytes, from its JSON.

    Per string its header, per list its header, per entry a pointer, and per map or struct 184 bytes, which covers the
    largest struct that a list can hold many of.
    """
    text = _ENCODER.encode(value)
    entries, strings, objects, lists = (text.count(one) for one in (b",", b'"', b"{", b"["))
    return len(text) + 16 * entries + 28 * strings + 184 * objects + 64 * lists


def pod_parts(pod: Pod) -> Iterator[object]:
    """Yield the pod and what pods of its template may share with it: its lists, maps, structs and long strings."""
    yield pod
    for struct in (pod.metadata, pod.spec, pod.status):
        for name in struct.__struct_fields__:
            part = getattr(struct, name)
            if isinstance(part, _PARTS) or (isinstance(part, str) and len(part) > _LONG):
                yield part
