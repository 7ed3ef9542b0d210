"""Facts about taints (TaintToleration)."""

from collections import defaultdict
from functools import cache
from itertools import chain

from extender.core.evaluation import Evaluation
from extender.k8s.objects import Taint, Toleration
from extender.k8s.selectors import HARD_EFFECTS, tolerates
from extender.report.facts.schema import FactsOf, TaintFact


def taint_facts(evaluation: Evaluation) -> FactsOf:
    """Name every taint that the pod does not tolerate; kube-scheduler's reason names the first one, or none."""
    context, taints = evaluation.context, evaluation.context.snapshot.taints
    compares = context.features.taint_toleration_comparison_operators
    # A pod may have thousands of tolerations: only those of the taint's key, or of any key, are compared with it.
    tolerations = defaultdict[str, dict[Toleration, None]](dict)
    for one in context.pod.spec.tolerations or ():
        tolerations[one.key][one] = None

    def is_tolerated(taint: Taint) -> bool:
        found = chain(tolerations.get("", ()), tolerations.get(taint.key, ()))
        return any(tolerates(one, taint, compares=compares) for one in found)

    @cache
    def of_list(code: int) -> list[TaintFact]:
        return [
            TaintFact(key=taint.key, value=taint.value, effect=taint.effect)
            for taint in taints.values[code]
            if taint.effect in HARD_EFFECTS and not is_tolerated(taint)
        ]

    return lambda row: of_list(int(taints.codes[row]))
