"""Requests that no kube-scheduler sends, made of some that one did send.

The same mutations serve a seeded generator, Hypothesis and a coverage-guided fuzzer: who chooses is passed in.

Rule: chance comes from the `Chooser` only, so that a case can be had again.
"""

import gzip
import json
import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from tests.property.fuzz.spots import Spot, spots

T = TypeVar("T")

MARKER = "hunter2"
"""Stands in many of the values that are put in: no error may repeat it."""


class Chooser(Protocol):
    def below(self, limit: int) -> int:
        """A number from 0 to `limit - 1`."""

    def raw(self, at_most: int) -> bytes:
        """Any bytes."""


class Seeded:
    """Chooses by a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)

    def raw(self, at_most: int) -> bytes:
        return self._random.randbytes(self._random.randint(0, at_most))


def pick(choose: Chooser, among: Sequence[T]) -> T:
    return among[choose.below(len(among))]


# --- values ---------------------------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """What white space separates."""
    return text.split()


def _quoted(texts: Sequence[str]) -> list[bytes]:
    return [json.dumps(word, ensure_ascii=False).encode("utf-8", "surrogatepass") for word in texts]


_PLAIN = [b"null", b"true", b"false", b'""', b"[]", b"{}", b"0", b"1", b"-1", b"[null]", b'{"":null}']
_NUMBERS = [
    word.encode()
    for word in words(
        """
        -0 0.0 5.0 5e0 1.5 1e3 1e999 -1e999 1e-999 NaN Infinity -Infinity 01 +1 .5 5. 1e 0x10 1_000 2147483647
        2147483648 -2147483648 -2147483649 9223372036854775807 9223372036854775808 -9223372036854775808
        -9223372036854775809 18446744073709551615 18446744073709551616 340282366920938463463374607431768211456
        """
    )
]
_NUMBERS += [b"9" * 400, b"1e" + b"9" * 30, b"0." + b"0" * 400 + b"1"]
_QUANTITIES = _quoted(
    words(
        """
        1 0 -1 -0 +1 500m 0.5m 1e3 1E3 1e-3 1Ei 1Gi 1k 1K 1Ki 100n 1u .5 5. 1. . - + 1e 1ee3 1e+3 1e99 1e-99
        1e999999999 9223372036854775807 9223372036854775808 9223372036854775807Ei -9e99 0x10 1,5 NaN Inf 1KiB \uff11
        \uff11Gi \u0663 1m1 m Ki 1_0
        """
    )
)
_QUANTITIES += _quoted(["", " ", "1 ", " 1", "1\n", "1\x00", "9" * 2000, "0." + "0" * 300 + "1", f"{MARKER}Gi"])
_WORDS = _quoted(
    words(
        """
        In NotIn Exists DoesNotExist Gt Lt Equal NoSchedule PreferNoSchedule NoExecute DoNotSchedule ScheduleAnyway
        Honor Ignore Never PreemptLowerPriority Always Restart Running Pending Succeeded TCP UDP SCTP Pod Node Job
        ReplicaSet worker-0001 worker-0002 topology.kubernetes.io/zone kubernetes.io/hostname metadata.name shop default
        kube-system system-node-critical 0.0.0.0 127.0.0.1 :: ::1 256.1.1.1 2026-01-31T08:00:00Z
        2026-01-31T08:00:00.5+02:00 2026-02-30T08:00:00Z 0000-00-00T00:00:00Z 9999-12-31T23:59:60Z
        0001-01-01T00:00:00+23:59 2026-01-31 1769846400 10000-01-01T00:00:00Z
        """
    )
)
_TEXTS = _quoted(
    [
        *(MARKER, f"{MARKER}\n", f"\x1b[31m{MARKER}", f"<script>{MARKER}</script>", f"../{MARKER}", MARKER * 5000),
        *("\x00", "\u2028", "\ufeff", "\uff57orker-0001", "👩\u200d👩\u200d👧", "e\u0301", "\U0010ffff"),
        *("a" * 64, "a" * 254, "A/b/c", "-", "_.-", "a b", "{", "[", '"', "\\"),
        *("%s%n", "{0}", "$(x)", "%00", "'; --"),
    ]
)
_ESCAPES = [rb'"\ud800"', rb'"\udc00\ud800"', rb'"\ud83d\ude00"', rb'"\u0000"', rb'"\x"', rb'"\u12"', rb'"\/"', b'"\t"']
_BAD_TEXT = [
    b'"\xff"',
    b'"\xc0\xaf"',
    b'"\xed\xa0\x80"',
    b'"\xf8\x88\x80\x80\x80"',
    b'"\xe2\x82"',
    b'"',
    b"'a'",
    b'"\x00"',
]
_BAD_TEXT += _quoted(["\ud800", "\udfff"])
_SHAPES = [
    b"[" * 60 + b"]" * 60,
    b'{"a":' * 60 + b"1" + b"}" * 60,
    b"[" * 1_500 + b"]" * 1_500,
    b'{"metadata":' * 1_500 + b"null" + b"}" * 1_500,
    b"[" * 3_000,
    b"[" + b"null," * 2_000 + b"null]",
    b"[" + b"{}," * 300 + b"{}]",
    b"{" + b",".join(b'"key-%d":"%d"' % (n, n) for n in range(1_000)) + b"}",
    json.dumps({MARKER: {MARKER: [MARKER]}}).encode(),
    b'{"cpu":"1","memory":"1Gi","pods":"1","hunter2/x":"1","ephemeral-storage":"1","hugepages-2Mi":"3"}',
    b'{"matchExpressions":[{"key":"a","operator":"In"}],"matchLabels":{"":""}}',
    b'{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["worker-0001"]}]}]}',
    b'[{"topologyKey":"","labelSelector":{}},{"topologyKey":"kubernetes.io/hostname","labelSelector":null}]',
    b'[{"name":"c","restartPolicy":"Always","resources":{"requests":{"cpu":"9Ei"}},"ports":[{"hostPort":70000}]}]',
    b'[{"name":"v","persistentVolumeClaim":{"claimName":""}},{"name":"v","ephemeral":{}},{"name":"w","csi":{}}]',
    b'[{"maxSkew":0,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule","minDomains":-1}]',
]
KINDS = (*[_PLAIN, _NUMBERS, _QUANTITIES, _WORDS, _TEXTS] * 3, *[_SHAPES] * 2, _ESCAPES, _BAD_TEXT)
"""What breaks the text itself is rarer: what is behind the decoder is to be reached, too."""

KEYS = words(
    """
    Pod pod Nodes nodes NodeNames nodenames NODENAMES NodeNameToVictims NodeNameToMetaVictims Pods UID uid
    NumPDBViolations PodName PodNamespace PodUID Node metadata Metadata name namespace labels annotations
    creationTimestamp deletionTimestamp ownerReferences spec Spec status items priority priorityClassName
    preemptionPolicy nodeName nodeSelector affinity tolerations topologySpreadConstraints containers initContainers
    overhead volumes resources requests limits resourceClaims hostNetwork schedulingGates phase startTime conditions
    nominatedNodeName ephemeralContainers os runtimeClassName pods preset preemption compare seed pending enabled
    """
)


def value(choose: Chooser, body: bytes, places: Sequence[Spot]) -> bytes:
    """Something to put in a value's place: often what stands elsewhere in the same body."""
    if choose.below(4) == 0:
        other = pick(choose, places)
        return body[other.start : other.end]
    return pick(choose, pick(choose, KINDS))


# --- changes to one place: what is put between two bytes ------------------------------------------------------------

Change = tuple[int, int, bytes]


def _another_value(choose: Chooser, body: bytes, places: Sequence[Spot]) -> Change:
    spot = pick(choose, places)
    return spot.start, spot.end, value(choose, body, places)


def _another_key(choose: Chooser, body: bytes, places: Sequence[Spot]) -> Change:
    spot = pick(choose, [spot for spot in places if spot.is_member] or places)
    if not spot.is_member:
        return spot.start, spot.end, b"null"
    key = body[spot.key + 1 : spot.key_end - 1]
    spelled = [key.lower(), key.upper(), key.swapcase(), key.title(), b"", key + b" ", b" " + key, key[:-1]]
    spelled += [
        key.replace(b"s", "\u017f".encode()),
        key.replace(b"K", "\u212a".encode()),
        rb"\u0050" + key[1:],
        b"\xff" + key,
        rb"\ud800",
    ]
    new = pick(choose, [*spelled, MARKER.encode(), pick(choose, KEYS).encode()])
    return spot.key, spot.key_end, b'"' + new + b'"'


def _a_member_twice(choose: Chooser, body: bytes, places: Sequence[Spot]) -> Change:
    spot = pick(choose, places)
    member, again = body[spot.key : spot.end], body[spot.key : spot.start] + value(choose, body, places)
    return spot.key, spot.end, b",".join(pick(choose, ([again, member], [member, again], [member] * 2, [again] * 9)))


def _one_more_member(choose: Chooser, body: bytes, places: Sequence[Spot]) -> Change:
    objects = [spot for spot in places if body[spot.start : spot.start + 1] == b"{"]
    if not objects:
        return 0, 0, b""
    spot = pick(choose, objects)
    more = json.dumps(pick(choose, KEYS)).encode() + b":" + value(choose, body, places)
    is_empty = not body[spot.start + 1 : spot.end - 1].strip()
    return spot.start + 1, spot.start + 1, more if is_empty else more + b","


def _a_member_less(choose: Chooser, body: bytes, places: Sequence[Spot]) -> Change:
    spot = pick(choose, places)
    start, end = spot.key, spot.end
    if body[end : end + 1] == b",":
        end += 1
    elif body[start - 1 : start] == b",":
        start -= 1
    return start, end, b""


def _deeper(choose: Chooser, body: bytes, places: Sequence[Spot]) -> Change:
    spot, depth = pick(choose, places), pick(choose, (1, 2, 40, 1_200))
    opening, closing = pick(choose, ((b"[", b"]"), (b'{"items":', b"}"), (b'{"Pod":', b"}")))
    return spot.start, spot.end, opening * depth + body[spot.start : spot.end] + closing * depth


def _many(choose: Chooser, body: bytes, places: Sequence[Spot]) -> Change:
    spot, times = pick(choose, places), pick(choose, (2, 10, 200))
    one = body[spot.start : spot.end]
    return spot.start, spot.end, b"[" + b",".join([one] * (times if len(one) < 2_000 else 2)) + b"]"


def _other_bytes(choose: Chooser, body: bytes, places: Sequence[Spot]) -> Change:
    start = choose.below(len(body) + 1)
    new = (
        choose.raw(8)
        if choose.below(4) == 0
        else pick(choose, (b"", b'"', b"}", b"]", b",", b":", b"0", b"null", b"\\"))
    )
    return start, min(len(body), start + choose.below(9)), new


_CHANGES: Sequence[Callable[[Chooser, bytes, Sequence[Spot]], Change]] = (
    *[_another_value] * 6,
    *[_another_key] * 2,
    _a_member_twice,
    _one_more_member,
    _a_member_less,
    _deeper,
    _many,
    _other_bytes,
)

# --- changes to the whole -------------------------------------------------------------------------------------------

_WHOLE: Sequence[Callable[[Chooser, bytes], bytes]] = (
    lambda choose, body: body[: choose.below(len(body) + 1)],
    lambda choose, body: body + pick(choose, (b"}", b"x", b"{}", b"\x00", b",", b"\xff", b"\n", body)),
    lambda choose, body: pick(choose, (b"\xef\xbb\xbf", b" \r\n\t", b"\x00", b"\x1e", b",", b"\xff\xfe")) + body,
    lambda choose, body: body.decode("latin-1").encode(pick(choose, ("utf-16", "utf-32", "utf-16-le", "utf-7"))),
    lambda choose, body: gzip.compress(body, mtime=0),
    lambda choose, body: pick(choose, pick(choose, KINDS)),
    lambda choose, body: choose.raw(64),
    lambda choose, body: b"[" * 100_000 + b"]" * 100_000,
    lambda choose, body: b'{"Pod":' * 100_000 + body + b"}" * 100_000,
)


def mutated(choose: Chooser, body: bytes) -> bytes:
    """The body with one to three places changed and, now and then, the whole."""
    places = spots(body)
    changes = [pick(choose, _CHANGES)(choose, body, places) for _ in range(1 + choose.below(3))]
    result, last = body, len(body) + 1
    for start, end, new in sorted(changes, key=lambda change: change[0], reverse=True):
        if end < last:  # the one that begins later wins where two overlap
            result, last = result[:start] + new + result[end:], start
    return pick(choose, _WHOLE)(choose, result) if choose.below(8) == 0 else result
