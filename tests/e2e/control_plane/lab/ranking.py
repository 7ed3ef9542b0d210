"""Rank the candidates of a recorded call as kube-scheduler's pickOneNodeForPreemption does."""

from collections.abc import Mapping, Sequence
from typing import Any

from extender.k8s.time import parse_time
from tests.e2e.control_plane.lab.call_recorder import ExtenderCall

JSON = dict[str, Any]


def best_candidates(call: ExtenderCall, pods: Mapping[str, JSON]) -> set[str]:
    """Return the nodes that kube-scheduler may choose among those it sent; `pods`: UID -> running pod.

    Fewest budgets broken, then the lowest highest priority, the lowest sum of priorities, the fewest victims and
    the latest start of the earliest started victim of the highest priority.
    """
    keys = {
        node: (call.violations[node], *_key([pods[uid] for uid in victims])) for node, victims in call.victims.items()
    }
    return {node for node, key in keys.items() if key == min(keys.values())}


def _key(victims: Sequence[JSON]) -> tuple[int, int, int, int]:
    priorities = [one["spec"]["priority"] for one in victims]
    highest = max(priorities)
    first = min(parse_time(one["status"]["startTime"]) for one in victims if one["spec"]["priority"] == highest)
    return highest, sum(one + 2**31 for one in priorities), len(priorities), -first
