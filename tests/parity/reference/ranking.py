"""Which candidate would kube-scheduler take: the criteria one after the other, only the best stay.

Mirrors `pickOneNodeForPreemption` (pkg/scheduler/framework/preemption, v1.36). Upstream walks a Go map, so what is left
after the last criterion is arbitrary: all of it is returned.
"""

from collections.abc import Iterable, Mapping, Sequence

from tests.parity.reference.objects import JSON, priority, start_time


def best_nodes(candidates: Mapping[str, JSON], pods: Iterable[JSON]) -> list[str]:
    """The nodes that upstream may pick, sorted by name.

    `candidates` is the corpus' shape, `{node: {"victims": [uid], "numPDBViolations": int}}`; `pods` holds the victims.
    """
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
    victims = {node: [by_uid[uid] for uid in found["victims"]] for node, found in candidates.items()}

    def fewest_violations(node: str) -> int:
        return -int(candidates[node]["numPDBViolations"])

    def lowest_highest_priority(node: str) -> int:
        return -priority(victims[node][0])

    def lowest_priority_sum(node: str) -> int:
        return -sum(priority(pod) + 2**31 for pod in victims[node])

    def fewest_victims(node: str) -> int:
        return -len(victims[node])

    def latest_start(node: str) -> int:
        return earliest_start_of_the_highest(victims[node])

    best = sorted(candidates)
    for criterion in (fewest_violations, lowest_highest_priority, lowest_priority_sum, fewest_victims, latest_start):
        if len(best) < 2:
            break
        score = {node: criterion(node) for node in best}
        top = max(score.values())
        best = [node for node in best if score[node] == top]
    return best


def earliest_start_of_the_highest(victims: Sequence[JSON]) -> int:
    highest = max(priority(pod) for pod in victims)
    return min(start_time(pod) for pod in victims if priority(pod) == highest)
