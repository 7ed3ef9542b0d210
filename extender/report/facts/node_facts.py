"""Facts about the nodes that reject a pod, by plugin, and what many nodes have in common.

Rule: nothing is decided here: a fact explains the verdict of an Evaluation.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from extender.core.evaluation import Evaluation
from extender.core.framework.plugins import taint_toleration
from extender.report.facts.schema import AnyFact, FactCount, FactsOf
from extender.report.facts.taints import taint_facts

FACTS: dict[str, Callable[[Evaluation], FactsOf]] = {
    taint_toleration.NAME: taint_facts,
}
"""Plugin -> its facts about one pod; what depends on the pod alone is computed in this call."""

MAX_SUMMARIZED = 5
"""Maximum number of facts in a summary."""


def facts_of_nodes(evaluation: Evaluation) -> Callable[[int, str], Sequence[AnyFact]]:
    """Return (node row, plugin that rejects the node) -> facts. The snapshot must not change meanwhile."""

    prepared: dict[str, FactsOf] = {}

    def facts(row: int, plugin: str) -> Sequence[AnyFact]:
        # PreFilter leaves nodes out in the name of the framework: the plugins that name the others are the cause.
        plugins = [plugin] if plugin else sorted(evaluation.filter.prefilter_plugins)
        found: list[AnyFact] = []
        for name in plugins:
            if name in FACTS:
                if name not in prepared:
                    prepared[name] = FACTS[name](evaluation)
                found += prepared[name](row)
        return found

    return facts


def summarize(facts: Iterable[Sequence[AnyFact]]) -> list[FactCount]:
    """Return the most common of these facts of nodes, with the number of nodes."""
    counts = Counter(fact for of_node in facts for fact in of_node)
    return [FactCount(fact=fact, nodes=nodes) for fact, nodes in counts.most_common(MAX_SUMMARIZED)]
