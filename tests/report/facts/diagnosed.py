"""Diagnoses of one waiting pod, for the tests of facts."""

from collections.abc import Iterable, Mapping
from typing import Any

from extender.core.profile import KubeScheduler, Profile
from extender.report.diagnose import diagnose
from extender.report.facts.wording import describe_fact
from extender.report.pod_schema import Diagnosis
from tests.builders import JSON, NodeObject, built, cluster, incoming, typed


def diagnosed(
    nodes: Mapping[NodeObject, Iterable[JSON]] | Iterable[NodeObject],
    waiting: JSON | None = None,
    *,
    others: Iterable[JSON] = (),
    namespaces: Iterable[JSON] = (),
    profile: Profile | None = None,
) -> Diagnosis:
    """The diagnosis of the pod `waiting`; `others`: further pods without a node."""
    waiting = incoming() if waiting is None else waiting
    there = nodes if isinstance(nodes, Mapping) else dict.fromkeys(nodes, ())
    found = cluster(there, waiting=[waiting, *others], namespaces=namespaces)
    return diagnose(built(found), typed(waiting), KubeScheduler((profile or Profile(),)))


def facts_on(found: Diagnosis, name: str) -> list[Any]:
    """The facts of a node; each test knows of which kind they are."""
    (node,) = [one for one in found.nodes if one.name == name]
    return node.facts


def words_on(found: Diagnosis, name: str) -> list[str]:
    """What is said of the node's facts."""
    return [describe_fact(one) for one in facts_on(found, name)]


def causes(found: Diagnosis, plugin: str) -> list[Any]:
    """The facts counted by reason, of a plugin with one reason."""
    (reason,) = [one for one in found.reasons if one.plugin == plugin]
    return [*reason.facts]
