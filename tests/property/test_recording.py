"""Whatever happens to the cache and the settings, and whatever is asked meanwhile, is replayed to the same bytes.

python -c 'from tests.property.test_recording import check; check(4711)'
"""

import random
import tempfile
from typing import Any

import msgspec
from hypothesis import given
from msgspec.structs import replace

from extender.cluster.cache.cache import Change, ClusterCache
from extender.cluster.cache.eviction_history import EvictionLog
from extender.config.serving import RecordingSection
from extender.core.profile import KubeScheduler, Profile
from extender.k8s.kinds import KINDS
from extender.k8s.time import parse_time
from extender.server.context import ServerContext
from extender.server.recording.recorder import Recorder
from extender.server.replay import open_recording
from extender.server.scheduler import verbs
from extender.server.settings import LiveSettings, Settings
from tests.builders import JSON, candidates_sent_by_kube_scheduler, stored_cluster, typed
from tests.fakes.source import Live
from tests.profiles import SEEDS, examples
from tests.property.generate import Draw
from tests.property.policies import some_policy, world
from tests.property.test_changes import with_uid_of_its_own
from tests.server.conftest import configuration

SOME = examples(2, 25, 20_000)

STEPS = 14
SEGMENT_SIZES = (4_000, 30_000, 1 << 20)
NOW = parse_time("2026-02-01T08:00:30Z")


class Calls:
    """A service that records into a directory, in a world that a seed gives."""

    def __init__(self, seed: int, directory: str) -> None:
        self.chance, self.draw = random.Random(seed), Draw(seed)
        worlds = [world(seed + number) for number in range(3)]
        self.pods: list[JSON] = [pod for _, pod in worlds]
        self.material = [found for cluster, _ in worlds for found in self.objects_of(cluster)]
        self.now = 0.0
        self.version = 0
        self.cache, self.source = ClusterCache(self.clock), Live()
        self.cache.prepare_for(KubeScheduler())
        if self.chance.random() < 0.9:
            self.build()
        section = RecordingSection(directory=directory, segment_size=self.chance.choice(SEGMENT_SIZES))
        self.recorder = Recorder(self.cache, section)
        self.server_context = ServerContext(
            self.cache,
            LiveSettings(configuration()),
            self.source,
            eviction_log=EvictionLog(lambda: int(self.now * 1e9), lambda: NOW + int(self.now * 1e9)),
            recorder=self.recorder,
        )
        self.recorder.start()

    def clock(self) -> float:
        return self.now

    @staticmethod
    def objects_of(cluster: JSON) -> list[tuple[str, Any]]:
        objects = stored_cluster(cluster)
        return [(kind, with_uid_of_its_own(one)) for kind, of in KINDS.items() for one in getattr(objects, of.field)]

    # --- what happens ---

    def build(self) -> None:
        """Another list of the cluster: some of its objects, each name once."""
        kept = {(kind, one.metadata.namespace, one.metadata.name): one for kind, one in self.material if self.rarely(2)}
        unread = [kind for kind in ("ReplicaSet", "StorageClass", "PersistentVolume") if self.rarely(5)]
        objects = {kind: [one for (k, *_), one in kept.items() if k == kind] for kind in KINDS}
        for _ in self.cache.build(objects, unread):
            pass

    def rarely(self, times: int) -> bool:
        return self.chance.randrange(times) == 0

    def change(self) -> None:
        if not self.cache.version:
            return self.build()
        for _ in range(self.chance.randint(1, 5)):
            kind, one = self.chance.choice(self.material)
            self.version += 1
            again = "-again" if self.rarely(10) else ""
            metadata = replace(one.metadata, uid=one.metadata.uid + again, resource_version=str(self.version))
            held = list(self.cache.mutable_snapshot().objects.of(kind).values())
            if held and self.rarely(2):
                self.cache.apply(Change(kind, self.chance.choice(held), deleted=True))
            else:
                self.cache.apply(Change(kind, replace(one, metadata=metadata)))
        return None

    def relist(self) -> None:
        if self.cache.version:
            kind = self.chance.choice(list(KINDS))
            held = list(self.cache.mutable_snapshot().objects.of(kind).values())
            for _ in self.cache.relist(kind, [one for one in held if not self.rarely(3)], is_unread=self.rarely(2)):
                pass

    def rebuild(self) -> None:
        if self.cache.version:
            for _ in self.cache.rebuild():
                pass

    def other_settings(self) -> None:
        profile = Profile(
            keep_candidates=self.chance.choice((1, 1, 2, None)),
            ignored_resources=frozenset({"example.com/gpu"} if self.rarely(3) else ()),
            preemption=some_policy(self.draw),
        )
        self.server_context.live_settings.active = Settings(
            KubeScheduler((profile,)),
            self.chance.choice(("Error", "Veto")),
            self.rarely(6),
            self.chance.choice(("Veto", "PassThrough")) if self.rarely(8) else None,
        )
        self.cache.prepare_for(KubeScheduler((profile,)))

    def trouble(self) -> None:
        self.source.stale = "the cache is stale" if self.source.stale is None else None

    def wait(self) -> None:
        self.now += self.chance.choice((0.5, 5.0, 31.0))

    def happen(self) -> None:
        (what,) = self.chance.choices(
            (self.change, self.relist, self.rebuild, self.build, self.other_settings, self.trouble, self.wait),
            (12, 1, 1, 1, 4, 1, 3),
        )
        what()

    # --- what is asked ---

    def ask(self) -> None:
        pod = self.chance.choice(self.pods)
        name = self.chance.choice(("filter", "prioritize", "preempt", "preempt", "preempt"))
        body = self.preemption(pod) if name == "preempt" else self.arguments(pod)
        verbs.answer(verbs.VERBS[name], self.server_context, msgspec.json.encode(body))

    def arguments(self, pod: JSON) -> JSON:
        known = list(self.cache.mutable_snapshot().node_names) if self.cache.version else ["n1"]
        names = self.chance.sample(known, self.chance.randint(0, len(known))) + ["unknown"] * self.rarely(20)
        if self.rarely(2):
            return {"Pod": pod, "Nodes": None, "NodeNames": names}
        return {"Pod": pod, "Nodes": {"metadata": {}, "items": [self.whole(n) for n in names]}, "NodeNames": None}

    def whole(self, name: str) -> JSON:
        """Only the name of a known node is read; an unknown one counts as it is sent."""
        status = {"nodeInfo": {"secret": "s"}, "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}
        secret = {"metadata": {"name": name, "annotations": {"secret": "s"}}, "status": status}
        is_readable = name == "unknown" or self.rarely(2)
        return secret if is_readable else {"metadata": {"name": name}, "spec": "not what it should be"}

    def preemption(self, pod: JSON) -> JSON:
        sent = {}
        if self.cache.version:
            snapshot = self.cache.snapshot()
            sent = {
                node: (offer.victims, offer.num_pdb_violations)
                for node, offer in candidates_sent_by_kube_scheduler(snapshot, typed(pod)).items()
                if not self.rarely(4)
            }
        if self.rarely(2):
            whole = {
                node: {"Pods": [{"metadata": {"uid": uid}} for uid in uids], "NumPDBViolations": broken}
                for node, (uids, broken) in sent.items()
            }
            return {"Pod": pod, "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}
        meta = {
            node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": broken}
            for node, (uids, broken) in sent.items()
        }
        return {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}


def check(seed: int) -> dict[str, int]:
    """Record and replay; AssertionError for the first call that is answered differently."""
    with tempfile.TemporaryDirectory() as directory:
        calls = Calls(seed, directory)
        for _ in range(STEPS):
            calls.happen()
            for _ in range(calls.chance.randint(1, 3)):
                calls.ask()
        calls.recorder.stop()
        status = calls.recorder.status()
        assert (status["error"], status["dropped"]) == (None, 0), "the recording dropped calls"
        results = list(open_recording(directory).results())
        for result in results:
            assert result.differences == (), f"seed {seed}: {result}"
        assert len(results) == status["calls"] > 0, "a recorded call was not replayed"
        return {verb: sum(result.call.verb == verb for result in results) for verb in verbs.VERBS}


@SOME
@given(SEEDS)
def test_every_recorded_call_is_answered_again_byte_for_byte(seed):
    check(seed)
