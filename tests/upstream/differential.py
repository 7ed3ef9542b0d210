"""Judge and compare random scenarios batch by batch, on several cores.

Rule: the findings come in the order of the cases, and memory does not grow with their number.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from typing import Any, Final

from tests.parity.versions import cluster_of
from tests.upstream.finding import Finding, Outcome, examine
from tests.upstream.generate import CATEGORIES
from tests.upstream.judge import Judge, JudgeFailed

JSON = dict[str, Any]
Case = tuple[str, int]
"""Category and number of a scenario."""
Generate = Callable[[str, str, int], JSON]
"""Category, seed and number -> scenario."""

BATCHES_PER_WORKER: Final = 2
"""Under way or waiting, so that no worker is idle."""
TAINT_RULES_V1: Final = 37
"""First minor that serves DeviceTaintRule as resource.k8s.io/v1."""
SLICES_IN_ORDER: Final = 36
"""First minor that tries devices in the order of their slices' names; before, slices are in the order of a Go map."""
ASKED_AGAIN: Final = 30
"""The judge asks upstream twice until both runs agree, so that a rare draw shows only in many verdicts."""


def generated(category: str, seed: str, number: int) -> JSON:
    return CATEGORIES[category](seed, number)


@dataclass(frozen=True, slots=True)
class Found:
    """A scenario's finding; the scenario, with its verdict, only where something differs."""

    case: Case
    id: str
    finding: Finding
    scenario: JSON | None


@dataclass(frozen=True, slots=True)
class Differential:
    """The engine beside a judge of the same minor, with the scenarios of one seed."""

    judge: Judge
    minor: int
    seed: str
    generate: Generate = generated

    def scenario(self, case: Case) -> JSON:
        """The scenario as that minor is shown it."""
        try:
            scenario = self.generate(case[0], self.seed, case[1])
        except Exception as error:
            error.add_note(f"generating number {case[1]} of {case[0]}, seed {self.seed}")
            raise
        cluster = cluster_of(scenario, self.minor)
        items = [_served(item, self.minor) for item in cluster["items"]]
        return scenario | {"cluster": cluster | {"items": items}}

    def judged(self, scenarios: Sequence[JSON]) -> list[JSON]:
        """The scenarios, each with the judge's `expected` or `error`."""
        verdicts = self.judge.verdicts(scenarios)
        return [scenario | verdict for scenario, verdict in zip(scenarios, verdicts, strict=True)]

    def batch(self, cases: Sequence[Case]) -> list[Found]:
        found = []
        for case, judged in zip(cases, self.judged([self.scenario(case) for case in cases]), strict=True):
            one, finding = self._settled(judged, examine(judged, self.minor))
            found.append(Found(case, one["id"], finding, one if finding.outcome is Outcome.DIFFERS else None))
        return found

    def _settled(self, judged: JSON, finding: Finding) -> tuple[JSON, Finding]:
        """Ask again about a scenario that differs, where upstream may draw; what then varies is `unsettled`."""
        kinds = {item["kind"] for item in judged["cluster"]["items"]}
        if finding.outcome is not Outcome.DIFFERS or self.minor >= SLICES_IN_ORDER or "ResourceSlice" not in kinds:
            return judged, finding
        first = judged.get("expected", {})
        others = [one.get("expected", {}) for one in self.judge.verdicts([judged] * ASKED_AGAIN)]
        differing = sorted({key for one in others for key in {*first, *one} if first.get(key) != one.get(key)})
        if not differing:
            return judged, finding
        unsettled = judged | {"expected": first | {"unsettled": differing}}
        return unsettled, examine(unsettled, self.minor)

    def batches(self, cases: Iterable[Case], size: int, workers: int) -> Iterator[list[Found]]:
        """The findings of each batch; several workers are processes with a judge each. Raises JudgeFailed."""
        rest = iter(cases)
        batches = iter(lambda: list(islice(rest, size)), [])
        return map(self.batch, batches) if workers == 1 else self._in_processes(batches, workers)

    def _in_processes(self, batches: Iterator[list[Case]], workers: int) -> Iterator[list[Found]]:
        waiting: deque[tuple[list[Case], Future[list[Found]]]] = deque()
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            try:
                while True:
                    for one in islice(batches, workers * BATCHES_PER_WORKER - len(waiting)):
                        waiting.append((one, pool.submit(self.batch, one)))
                    if not waiting:
                        return
                    asked, future = waiting.popleft()
                    yield _result(asked, future)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def kinds(self, scenarios: Sequence[JSON]) -> list[frozenset[str]]:
        """Kinds of difference of each scenario; none of one that the judge does not survive."""
        try:
            judged = self.judged(scenarios)
        except JudgeFailed:
            return [frozenset()] if len(scenarios) == 1 else [self.kinds([one])[0] for one in scenarios]
        return [frozenset(examine(one, self.minor).kinds) for one in judged]


def _served(item: JSON, minor: int) -> JSON:
    """The object in the version that the minor's API server serves; DeviceTaintRule has the same fields in all."""
    if item["kind"] != "DeviceTaintRule" or minor >= TAINT_RULES_V1:
        return item
    return item | {"apiVersion": f"resource.k8s.io/{'v1beta2' if minor == 36 else 'v1alpha3'}"}


def _result(asked: Sequence[Case], future: Future[list[Found]]) -> list[Found]:
    try:
        return future.result()
    except BrokenProcessPool:
        first, last = (f"{category} {number}" for category, number in (asked[0], asked[-1]))
        raise JudgeFailed(f"a worker died in or beside the batch of {len(asked)} from {first} to {last}") from None
