"""Estimate the memory of decoded objects.

Rule: an estimate is an upper one whatever the object holds, and costs little more than encoding it.
"""

from sys import getrefcount
from typing import Any

import msgspec

from extender.k8s.objects import Pod

_POD_BYTES = 1000
"""Memory of a pod without its lists, maps and structs."""

_NEGLIGIBLE_SHARE = 64
"""Number of pods from which on a part that they share counts nothing for one of them."""

_ENCODER = msgspec.json.Encoder()


def memory_of(value: Any) -> int:
    """Return an upper estimate of a decoded value's memory in bytes, from its JSON.

    Per string its header, per list its header, per entry a pointer, and per map or struct 184 bytes, which covers the
    largest struct that a list can hold many of.
    """
    text = _ENCODER.encode(value)
    entries, strings, objects, lists = (text.count(one) for one in (b",", b'"', b"{", b"["))
    return len(text) + 16 * entries + 28 * strings + 184 * objects + 64 * lists


def pod_memory(pod: Pod, later: Pod | None = None) -> int:
    """Return the estimated memory of a pod in bytes; of a part that pods of its template share, one share each.

    `later`: a later state of the pod; the parts that both share do not count.
    The pods that share a part are told from its reference count: the intern pool holds one reference, each pod one.
    """
    total = _POD_BYTES
    for field in ("metadata", "spec", "status"):
        own, others = getattr(pod, field), getattr(later, field, None)
        for name in own.__struct_fields__ if own is not others else ():
            part = getattr(own, name)
            if isinstance(part, list | dict | msgspec.Struct) and part is not getattr(others, name, None):
                pods = max(getrefcount(part) - 3, 1)  # `part`, the argument and the intern pool hold one each
                total += memory_of(part) // pods if pods < _NEGLIGIBLE_SHARE else 0
    return total
