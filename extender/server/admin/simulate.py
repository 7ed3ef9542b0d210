"""What would happen if: a simulation for `POST /simulate` and for `extender simulate`, under one policy or two.

Nothing here knows HTTP. It takes a while: about 5 s to set a cluster of 150,000 pods up, then some 10 ms a cycle.

Rule: a cluster that is asked about is never changed: every simulation has a snapshot of its own.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from extender.cluster.files.manifests import load_cluster
from extender.config import load_config
from extender.config.preemption import PRESETS, PreemptionSection
from extender.config.values import suggestion
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.profile import Profile
from extender.core.simulator.result import CycleShown, Shown, Simulation
from extender.core.simulator.schedule_one import draws
from extender.core.simulator.simulator import Step, simulate
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ClusterFileError, ConfigError, RequestError
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod
from extender.k8s.validation import sentence

MOST_PODS = 1000
"""How many pods one request may have placed."""

CONFIGURED = "configured"
"""What the policies of the configuration are called beside the presets."""

Watch = Callable[[Step], object]

# --- policies -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Policy:
    """Which rules a simulation goes by, and what they are called."""

    name: str
    profile: Profile


def with_preemption(base: Profile, section: PreemptionSection) -> Profile:
    """The same filters and scores with other rules of preemption."""
    keep = section.keep_candidates
    return replace(base, preemption=section.policy(), keep_candidates=None if keep == "All" else keep)


def preset(base: Profile, name: str) -> Policy:
    """A preset and nothing else, or what is configured; RequestError for any other name."""
    if name == CONFIGURED:
        return Policy(name, base)
    names = (*PRESETS, CONFIGURED)
    if name not in PRESETS:
        raise RequestError(f"no preset {name!r}{suggestion(name, names)}: there are {', '.join(names)}")
    return Policy(name, with_preemption(base, PreemptionSection.model_validate({"preset": name})))


def own_rules(base: Profile, section: Any, name: str = "the request's own") -> Policy:
    """A `preemption` section as in a configuration file; RequestError, a line per mistake, if it is wrong."""
    try:
        config = load_config(None, {}, {"body": ("preemption", section)})
    except ConfigError as error:
        raise RequestError(str(error)) from error
    return Policy(name, with_preemption(base, config.preemption))


# --- one simulation, or two -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Question:
    """What arrives."""

    pods: Sequence[Pod] = ()
    pending: bool = False
    """Also those that wait already."""
    seed: int | None = None
    moment: EvictionHistory = NO_HISTORY


class PodOutcome(Shown, frozen=True):
    """What becomes of a pod: of its last attempt."""

    outcome: str
    node: str | None
    message: str
    vetoed: str | None
    evicts: list[str]
    """In all its attempts."""
    num_pdb_violations: int = msgspec.field(name="numPDBViolations")


class Difference(Shown, frozen=True):
    pod: str
    fates: list[PodOutcome | None]
    """Under the one policy and under the other; null where it does not come up."""


class Comparison(Shown, frozen=True):
    compared: list[str]
    """What the policies are called."""
    results: list[Simulation]
    differences: list[Difference]
    """Pods whose lot differs: in outcome, node, victims or budgets broken."""


def ask(
    objects: ClusterObjects,
    policy: Policy,
    question: Question,
    watch: Watch | None = None,
    spare: Snapshot | None = None,
) -> Simulation:
    """What would happen under one policy; RequestError for pods that cannot arrive.

    `spare`: a snapshot of these objects that may be used up; without one it is built.
    """
    return simulate(
        spare or _build(objects),
        policy.profile,
        question.pods,
        waiting=question.pending,
        moment=question.moment,
        draw=None if question.seed is None else draws(question.seed),
        name=policy.name,
        seed=question.seed,
        watch=watch,
    )


def _build(objects: ClusterObjects) -> Snapshot:
    try:
        return Snapshot.build(objects)
    except ValueError as error:
        raise ClusterFileError(str(error)) from error


def answer(
    objects: ClusterObjects,
    policies: Sequence[Policy],
    question: Question,
    watch: Watch | None = None,
    spare: Snapshot | None = None,
) -> Simulation | Comparison:
    """Under one policy, or the same arrivals under two."""
    spares = [spare, *(None for _ in policies[1:])]
    results = [ask(objects, policy, question, watch, own) for policy, own in zip(policies, spares, strict=True)]
    if len(results) == 1:
        return results[0]
    one, other = map(fates, results)
    differences = [
        Difference(pod=pod, fates=[one.get(pod), other.get(pod)])
        for pod in dict.fromkeys((*one, *other))
        if not _alike(one.get(pod), other.get(pod))
    ]
    return Comparison(compared=[policy.name for policy in policies], results=results, differences=differences)


def fates(result: Simulation) -> dict[str, PodOutcome]:
    """Pod -> its lot, in the order in which they were tried first."""
    of_pod: dict[str, list[CycleShown]] = {}
    for cycle in result.cycles:
        of_pod.setdefault(cycle.pod, []).append(cycle)
    return {
        pod: PodOutcome(
            outcome=cycles[-1].outcome,
            node=cycles[-1].node,
            message=cycles[-1].message,
            vetoed=cycles[-1].vetoed,
            evicts=[victim.pod for cycle in cycles for victim in cycle.victims],
            num_pdb_violations=sum(cycle.num_pdb_violations for cycle in cycles),
        )
        for pod, cycles in of_pod.items()
    }


def _alike(one: PodOutcome | None, other: PodOutcome | None) -> bool:
    """Not in words: what is said of a pod that stays pending depends on all that was done for others."""
    if one is None or other is None:
        return one is other
    return (one.outcome, one.node, sorted(one.evicts), one.num_pdb_violations) == (
        other.outcome,
        other.node,
        sorted(other.evicts),
        other.num_pdb_violations,
    )


# --- pods -----------------------------------------------------------------------------------------------------------


def read_pods(given: Sequence[Any]) -> list[Pod]:
    """Pods as JSON has them; `kind` may be left out. RequestError names the one that is wrong, and the field."""
    return [_read_pod(one, place) for place, one in enumerate(given)]


def _read_pod(given: Any, place: int) -> Pod:
    if not isinstance(given, dict):
        raise RequestError(f"pod {place + 1} of the request: expected an object with metadata and spec")
    kind = given.get("kind") or "Pod"
    if kind != "Pod":
        raise RequestError(not_a_pod(f"pod {place + 1} of the request", str(kind)[:80]))
    try:
        (pod,) = load_cluster({**given, "kind": "Pod", "apiVersion": "v1"}).pods
    except ClusterFileError as error:
        raise RequestError(str(error).replace("cluster: ", f"pod {place + 1} of the request: ", 1)) from error
    return pod


def not_a_pod(place: str, kind: str) -> str:
    """Of something else, where a pod is expected."""
    return f"{place}: {kind!r} is no Pod: only Pods are placed; of a workload, give one of its Pods"


# --- POST /simulate -------------------------------------------------------------------------------------------------


class Body(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What is asked; everything may be left out but pods, or `pending`."""

    pod: Any = None
    """One Pod."""
    pods: list[Any] = []
    """Or several."""
    pending: bool = False
    """Place the pods that wait in the cluster, too."""
    preset: str | None = None
    """Policies: a preset; those of the configuration if left out."""
    preemption: dict[str, Any] | None = None
    """Or keys of the configuration's `preemption` section, on top of `preset`."""
    compare: tuple[str, str] | None = None
    """Or two presets."""
    seed: int | None = None
    """Draw among equal nodes; by name if left out."""


_BODY = msgspec.json.Decoder(Body)


def what_if(
    objects: ClusterObjects,
    base: Profile,
    body: bytes,
    moment: EvictionHistory | None = None,
    spare: Snapshot | None = None,
) -> dict[str, Any]:
    """The answer to `POST /simulate`: a `Simulation`, or a `Comparison`, as plain values.

    `base`: the policies in effect. `moment`: when, and what was approved lately; now if left out. `spare`: see `ask`.
    Raises RequestError for a body that cannot be understood, or asks for too much.
    """
    asked = _decode(body)
    given = ([] if asked.pod is None else [asked.pod]) + asked.pods
    if not given and not asked.pending:
        raise RequestError("nothing to place: give `pod`, `pods` or `pending: true`")
    question = Question(read_pods(given), asked.pending, asked.seed, moment or EvictionHistory(time.time_ns()))
    _check_size(objects, question)
    plain: dict[str, Any] = msgspec.to_builtins(answer(objects, _policies(base, asked), question, spare=spare))
    return plain


def _decode(body: bytes) -> Body:
    try:
        asked = _BODY.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is no question: {sentence(error)}") from error
    if asked.pod is not None and asked.pods:
        raise RequestError("give `pod` or `pods`, not both")
    if asked.compare is not None and (asked.preset is not None or asked.preemption is not None):
        raise RequestError("`compare` names its policies itself: leave `preset` and `preemption` out")
    return asked


def _check_size(objects: ClusterObjects, question: Question) -> None:
    count = len(question.pods)
    if question.pending:
        count += sum(not pod.spec.node_name for pod in objects.pods)
    if count > MOST_PODS:
        raise RequestError(f"{count} pods are more than the {MOST_PODS} of a request")


def _policies(base: Profile, asked: Body) -> list[Policy]:
    if asked.compare is not None:
        return [preset(base, name) for name in asked.compare]
    if asked.preemption is not None:
        preset_of = {} if asked.preset is None else {"preset": asked.preset}
        return [own_rules(base, {**preset_of, **asked.preemption})]
    return [preset(base, asked.preset or CONFIGURED)]
