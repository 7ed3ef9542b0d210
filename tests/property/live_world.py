"""What a schedule of C14 does to a cluster: changes and the faults C1 to C9, all by one chance, each told in a line."""

from collections import Counter
from collections.abc import Callable
from random import Random

from extender.k8s.kinds import KINDS
from extender.k8s.objects import Pod
from tests.builders import JSON, typed
from tests.fakes.api_server import Answer, CutBody, CutEvent, Drop, ErrorEvent, FakeAPI, Fault, Hang
from tests.fakes.chaos import Chaos
from tests.fakes.storage import Event
from tests.fakes.watches import event_line
from tests.property.generate import case

OPTIONAL = ("Namespace", "PersistentVolume", "PersistentVolumeClaim", "ReplicaSet", "Service", "StorageClass")
ERRORS = (Answer(500), Answer(503, retry_after=1), Answer(429, retry_after=1), Answer(429), Answer(410), Answer(504))
STRIKES = (*ERRORS, Drop(), Drop(reset=False), CutBody(40), CutBody(700, reset=False), Answer(200, body=b"<html>"))
CUTS = (CutEvent(1), CutEvent(2, "close"), CutEvent(3, "end"), ErrorEvent(410), ErrorEvent(500), ErrorEvent(429))
JUNK = (b'{"type":"SURPRISE","object":{}}\n', b'{"type":"ADDED","object":{"kind":"Pod"}}\n', b"\n", b'{"type":"ADD\n')


class World:
    """An API server, the way to it, and what a schedule does to both."""

    def __init__(self, seed: int, api: FakeAPI, chaos: Chaos) -> None:
        self.chance = Random(seed)
        self.api = api
        self.chaos = chaos
        self.log: list[str] = []
        self.times: Counter[str] = Counter()
        """Name -> how many objects have borne it."""
        everything = [one for number in range(3) for one in case(seed + number).cluster["items"]]
        self.material = [one for one in everything if one["kind"] in KINDS]
        self.pods = [typed(case(seed + number).pod) for number in range(3)]
        self.swapped: set[str] = set()
        self.expired = False
        """Whether anything happened that costs a list."""
        self.is_silent = self.chance.random() < 0.4
        self.faults = FAULTS | (SILENT_FAULTS if self.is_silent else {})
        self.rewound_to = 0
        api.watch_list = self.chance.random() < 0.5
        api.expired_as_status = self.chance.random() < 0.5
        for one in self.material[: len(self.material) // 2]:
            self.put(one, "")

    @property
    def is_ambiguous(self) -> bool:
        """Whether versions were given away a second time: then equal ones say nothing."""
        return bool(self.rewound_to) and self.api.revision > self.rewound_to

    @property
    def doubtful(self) -> bool:
        """Whether events may have been lost without a trace, as the earlier one of two that were swapped may be."""
        return self.is_ambiguous or bool(self.swapped)

    def preemptor(self) -> Pod:
        """Some pod that waits: as the server has it, or unknown to the server."""
        pod = self.chance.choice(self.pods)
        known = self.api.get("Pod", pod.metadata.name, pod.metadata.namespace)
        return typed(known) if known is not None and self.chance.random() < 0.7 else pod

    def any(self) -> str:
        """Some kind: those that change most are meant most."""
        return self.chance.choice((*KINDS, "Pod", "Pod", "Pod", "Pod", "Node", "Node", "PodDisruptionBudget"))

    # --- the cluster ---

    def change(self) -> str:
        """A few objects come, change, go, or make room for others of the same name."""
        told = []
        for _ in range(self.chance.randint(1, 6)):
            kind = self.chance.choice(("Pod", "Pod", "Node", *KINDS))
            there = self.api.objects(kind)
            if there and self.chance.random() < 0.4:
                told.append(self.delete(kind, self.chance.choice(there)["metadata"]))
            elif there and self.chance.random() < 0.3:
                told.append(self.put(self.chance.choice(there), "again"))
            else:
                told.append(self.put(self.chance.choice(self.material), ""))
        return ", ".join(told)

    def put(self, one: JSON, again: str) -> str:
        kind, metadata = one["kind"], one["metadata"]
        namespace, name = metadata.get("namespace") or "default", metadata["name"]
        there = self.api.get(kind, name, namespace)
        what = f"{kind} {namespace}/{name}"
        if there is None or again:
            self.times[what] += 1
        uid = f"{what}#{self.times[what]}" if there is None or again else there["metadata"]["uid"]
        self.api.put(kind, one | {"metadata": metadata | {"uid": uid}})
        return f"put {what}{' again' if again else ''}"

    def delete(self, kind: str, metadata: JSON) -> str:
        self.api.delete(kind, metadata["name"], metadata.get("namespace", ""))
        return f"delete {kind} {metadata.get('namespace', '')}/{metadata['name']}"

    # --- faults: each says what it did ---

    def reset(self) -> str:
        self.chaos.reset()
        return "C1 reset"

    def cut(self) -> str:
        count, times = self.chance.randint(1, 3000), self.chance.randint(1, 20)
        self.chaos.cut_after(count, times)
        return f"C1 cut after {count}, {times} times"

    def cut_events(self) -> str:
        fault = Fault("watch", self.any(), self.chance.choice(CUTS), times=self.chance.randint(1, 3))
        self.api.faults.add(fault)
        self.expired |= fault.action == ErrorEvent(410)
        return f"C1 {fault}"

    def compact(self) -> str:
        self.expired = True
        self.api.compact()
        if self.chance.random() < 0.7:
            self.chaos.reset()
            self.change()
            self.api.compact()
        return "C2 compact"

    def expire(self) -> str:
        self.expired = True
        kind, page = self.any(), self.chance.choice((None, 2))
        self.api.faults.add(Fault("list", kind, Answer(410), page=page))
        count = self.api.send_error(kind, 410)
        return f"C2 410 for {count} watches of {kind}, and for page {page} of the list"

    def repeat(self) -> str:
        kind, count = self.any(), self.chance.randint(1, 5)
        self.api.duplicate_next(kind, count)
        self.api.replay(kind, count)
        return f"C3 {count} events of {kind} twice, and the last ones again"

    def old(self) -> str:
        """Events of long ago come again, most of them of what is not there any more."""
        history = self.api.storage.history
        stale = [event for event in history if self.is_stale(event)]
        events = self.chance.choices(history, k=min(len(history), 3)) + self.chance.sample(stale, min(len(stale), 5))
        for event in events:
            self.api.send_raw(event.kind, event_line(event))
        return f"C3 old events: {[(event.type, event.kind, event.revision) for event in events]}"

    def is_stale(self, event: Event) -> bool:
        """Whether its object is gone, or another one bears the name now."""
        shown = event.after or event.before
        there = self.api.storage.get(event.kind, shown.key) if shown else None
        return shown is not None and (there is None or there.uid != shown.uid)

    def swap(self) -> str:
        kind = self.any()
        self.swapped.add(kind)
        self.api.swap_next(kind)
        return f"C3 swap two of {kind}"

    def rewind(self) -> str:
        revision = self.chance.randint(max(self.api.storage.compacted, self.api.revision - 20), self.api.revision)
        self.api.rewind(revision)
        self.rewound_to = self.rewound_to or revision
        return f"C4 rewind to {revision}"

    def stall(self) -> str:
        self.chaos.stall()
        return "C5 stall"

    def resume(self) -> str:
        self.chaos.resume()
        self.chaos.accept()
        self.api.start()
        return "resume, accept, start"

    def refuse(self) -> str:
        self.chaos.refuse()
        self.chaos.reset()
        return "C8 refuse"

    def stop(self) -> str:
        self.api.stop()
        return "C8 stop"

    def fail(self) -> str:
        verb = self.chance.choice(("list", "watch", "*"))
        fault = Fault(verb, self.any(), self.chance.choice(STRIKES), times=self.chance.randint(1, 6))
        self.api.faults.add(fault)
        self.api.end_watches(fault.kind)
        self.expired |= fault.action == Answer(410)
        return f"C8, C9 {fault}"

    def hang(self) -> str:
        fault = Fault("*", self.any(), Hang(), times=self.chance.randint(1, 2))
        self.api.faults.add(fault)
        self.api.end_watches(fault.kind)
        return f"C5 {fault}"

    def trickle(self) -> str:
        size = self.chance.choice((None, 7, 100))
        self.chaos.trickle(size, self.chance.randint(0, 9))
        return f"trickle {size}"

    def end(self) -> str:
        kind = self.any()
        self.api.end_watches(kind)
        return f"the watch of {kind} ends"

    def bookmark(self) -> str:
        kind = self.any()
        self.api.bookmark(kind)
        return f"bookmark for {kind}"

    def junk(self) -> str:
        kind, line = self.any(), self.chance.choice(JUNK)
        self.api.send_raw(kind, line)
        return f"C13 {line!r} to {kind}"

    def forbid(self) -> str:
        kind, how = self.chance.choice(OPTIONAL), self.chance.choice(("forbid", "allow", "remove", "restore"))
        method: Callable[[str], None] = getattr(self.api, f"{how}_resource" if how.startswith("re") else how)
        method(kind)
        self.expired = True
        self.api.end_watches(kind)
        return f"{how} {kind}"

    def calm(self) -> None:
        """Nothing is wrong any more, and nothing changes."""
        self.api.faults.clear()
        for kind in OPTIONAL:
            self.api.allow(kind)
            self.api.restore_resource(kind)
        self.chaos.cut_after(None)
        self.chaos.trickle(None)
        self.resume()
        for kind in self.swapped:  # an event that still waits for another one comes with the next watch
            self.api.end_watches(kind)


FAULTS: dict[Callable[[World], str], int] = {
    World.reset: 4,
    World.cut: 4,
    World.cut_events: 4,
    World.compact: 4,
    World.expire: 4,
    World.repeat: 5,
    World.old: 7,
    World.swap: 2,
    World.resume: 5,
    World.refuse: 1,
    World.stop: 1,
    World.fail: 6,
    World.hang: 2,
    World.trickle: 2,
    World.end: 4,
    World.bookmark: 3,
    World.junk: 2,
    World.forbid: 3,
}
"""Fault -> how often."""

SILENT_FAULTS: dict[Callable[[World], str], int] = {World.rewind: 2, World.stall: 2}
