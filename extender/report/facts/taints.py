"""Facts about taints (TaintToleration)."""

from extender.core.evaluation import Evaluation
from extender.k8s.selectors import HARD_EFFECTS, tolerates
from extender.report.facts.schema import FactsOf, TaintFact


def taint_facts(evaluation: Evaluation) -> FactsOf:
    """Name every taint that the pod does not tolerate; kube-scheduler's reason names the first one, or none."""
    context, taints = evaluation.context, evaluation.context.snapshot.taints
    tolerations, compares = context.pod.spec.tolerations or (), context.features.taint_toleration_comparison_operators
    facts = [
        [
            TaintFact(key=taint.key, value=taint.value, effect=taint.effect)
            for taint in listed
            if taint.effect in HARD_EFFECTS and not any(tolerates(one, taint, compares=compares) for one in tolerations)
        ]
        for listed in taints.values
    ]
    return lambda row: facts[taints.codes[row]]
