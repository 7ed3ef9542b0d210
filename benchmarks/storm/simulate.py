"""Simulate one storm under one policy, and the lifecycle of its pods.

Victims are deleted at once and end after their grace period; their owner creates a replacement at once, which is placed
on a node with room, and becomes ready some seconds later.

Rule: the same storm and profile give the same outcome.
"""

import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field

from benchmarks.renamed import SentCandidate
from benchmarks.storm.clock import Clock
from benchmarks.storm.exhaustive import clean_placement
from benchmarks.storm.extender_side import Extender
from benchmarks.storm.generate import Arrival, Start, Template, generate
from benchmarks.storm.kube_scheduler import KubeScheduler
from benchmarks.storm.observed import ObservedClusters
from benchmarks.storm.plan import Storm
from benchmarks.storm.tally import Tally
from benchmarks.storm.truth import Life, Truth
from extender.cluster.cache.cache import Change, identity
from extender.core.engine import Candidate
from extender.core.profile import Profile
from extender.k8s.objects import Pod

REPLACEMENT_INTERVAL_SECONDS = 1.0
"""Interval between attempts to place replacements of evicted pods."""
READY_AFTER_SECONDS = (3.0, 10.0)
"""Range of the time from binding a replacement until it is ready."""


@dataclass(frozen=True, slots=True)
class Clean:
    """Preemptors for which the exhaustive search found a placement that breaks no budget at some attempt."""

    placements: set[str] = field(default_factory=set)
    """Names of the preemptors with a clean placement at some attempt."""
    rested: set[str] = field(default_factory=set)
    """Names of those with one that also evicts no workload twice within five minutes."""
    undecided: set[str] = field(default_factory=set)
    """Names of the others for which the search was undecided."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one storm under one policy."""

    tally: Tally
    clean: Clean
    checked: bool
    """Whether clean placements were searched for."""
    seconds: float
    """CPU time of the simulation in seconds."""

    @property
    def placed(self) -> Set[str]:
        """Names of the preemptors that were bound."""
        return self.tally.bound.keys()


def simulate(storm: Storm, profile: Profile, checked: bool = True) -> Outcome:
    """Run the storm; with `checked`, also search for a clean placement at every attempt."""
    begin = time.process_time()
    simulation = Simulation(storm, generate(storm), profile, checked)
    simulation.clock.run(storm.lasting)
    return Outcome(simulation.tally, simulation.clean, checked, time.process_time() - begin)


class Simulation:
    """State and event handlers of one storm."""

    def __init__(self, storm: Storm, start: Start, profile: Profile, checked: bool) -> None:
        self.storm = storm
        self.clock = Clock()
        self.truth = Truth(self.clock, start)
        self.tally = Tally()
        self.clean = Clean()
        self._checked = checked
        observed = ObservedClusters.begin(storm, self.clock, self.truth, profile, self._seen)
        self.scheduler = KubeScheduler(
            self.clock, observed.of_scheduler, self, storm.chance("offers"), self._is_leaving_for
        )
        self._extender = Extender.begin(self.clock, observed.of_extender, profile)
        self._chance = storm.chance("starting")
        self._came = {arrival.name: arrival.at for arrival in start.arrivals}
        self._unseen: dict[str, Life] = {}
        """UID -> pod that kube-scheduler has not observed yet."""
        self._replacing: list[Life] = []
        self._replaced = 0
        for arrival in start.arrivals:
            self.clock.after(arrival.at, self._arrive(arrival))
        self.clock.after(REPLACEMENT_INTERVAL_SECONDS, self._replace)

    # --- arrivals ---------------------------------------------------------------------------------------------

    def _arrive(self, arrival: Arrival) -> Callable[[], None]:
        def arrive() -> None:
            self._create(arrival.name, arrival.template)

        return arrive

    def _create(self, name: str, template: Template, only_node: str = "") -> None:
        life = self.truth.create(name, template, only_node)
        self._unseen[life.uid] = life

    def _seen(self, change: Change) -> None:
        """Handle a change that kube-scheduler has just observed."""
        if change.kind != "Pod" or change.deleted:
            self.scheduler.something_changed()
            return
        life = self._unseen.pop(identity(change.object)[0], None)
        if life is not None and life.is_preemptor:
            self.scheduler.add(life)
        elif life is not None:
            self._replacing.append(life)

    # --- what kube-scheduler does -----------------------------------------------------------------------------

    def tried(self, life: Life, fits: bool) -> None:
        """Record an attempt of a preemptor, and search for a clean placement."""
        self.tally.attempts += 1
        if self._checked:
            resting = self.tally.resting(self.clock.now)
            self._check(life, self.clean.placements, lambda: fits or clean_placement(self.truth, life))
            self._check(life, self.clean.rested, lambda: fits or clean_placement(self.truth, life, resting))

    def _check(self, life: Life, found: set[str], exists: Callable[[], bool | None]) -> None:
        if life.name in found:
            return
        answer = exists()
        if answer:
            found.add(life.name)
        elif answer is None:
            self.clean.undecided.add(life.name)

    def ask(self, pod: Pod, sent: dict[str, SentCandidate]) -> Candidate | None:
        self.tally.calls += 1
        candidate = self._extender.preempt(pod, sent)
        self.tally.vetoed += candidate is None
        return candidate

    def fail(self) -> None:
        self.tally.failed += 1

    def bind(self, life: Life, node: str) -> None:
        self.truth.bind(life, node)
        if life.is_preemptor:
            self.tally.bound[life.name] = self.clock.now - self._came[life.name]
        else:
            self.clock.after(self._chance.uniform(*READY_AFTER_SECONDS), lambda: self.truth.become_ready(life))

    def preempt(self, life: Life, candidate: Candidate) -> None:
        """Delete the victims that still exist, and nominate the preemptor."""
        named = (self.truth.pods.get(victim.metadata.uid) for victim in candidate.victims)
        victims = [victim for victim in named if victim is not None and not victim.leaving]
        self.tally.evicted(victims, self.clock.now)
        self.tally.announced += candidate.num_pdb_violations
        for victim in victims:
            self._evict(victim)
        self.truth.nominate(life, candidate.node)

    def _is_leaving_for(self, life: Life) -> bool:
        node = life.pod.status.nominated_node_name
        return any(other.leaving for other in self.truth.on_node.get(node, {}).values())

    # --- what happens to victims ------------------------------------------------------------------------------

    def _evict(self, victim: Life) -> None:
        self.tally.violations += self.truth.evict(victim)
        self.clock.after(victim.template.grace, lambda: self.truth.remove(victim))
        self._replaced += 1
        name = f"{victim.template.workload[2]}-r{self._replaced}"
        self._create(name, victim.template, victim.only_node)

    def _replace(self) -> None:
        self._replacing = self.scheduler.place(self._replacing)
        self.clock.after(REPLACEMENT_INTERVAL_SECONDS, self._replace)
