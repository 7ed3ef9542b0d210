"""Facts about topology spread constraints (PodTopologySpread)."""

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from msgspec.structs import replace

from extender.core.evaluation import Evaluation
from extender.core.framework.plugins.pod_topology_spread import (
    NAME,
    CompiledConstraint,
    SpreadConstraint,
    hard_constraints,
    matches_per_domain,
)
from extender.core.snapshot.arrays import BoolArray
from extender.report.facts.collected import first_domains
from extender.report.facts.schema import DomainCount, FactsOf, SpreadFact


def spread_facts(evaluation: Evaluation) -> FactsOf:
    """Say the skew that each constraint would have, the minimum and the domains that have it."""
    run, context = evaluation.filter, evaluation.context
    found = run.only_check(SpreadConstraint)
    if found is None:
        return lambda _row: ()
    check, headroom = found
    fails, nominated = (headroom < 0) | ~check.has_key, check.nominated_demand
    facts_of = [_constraint_facts(evaluation, *one) for one in zip(*hard_constraints(context), strict=True)]

    def facts(row: int) -> list[SpreadFact]:
        return [
            facts_of[column](row, 0 if nominated is None else int(nominated[column, row]))
            for column in np.flatnonzero(fails[:, row]).tolist()
        ]

    return facts


def _constraint_facts(
    evaluation: Evaluation, constraint: CompiledConstraint, counting: BoolArray
) -> Callable[[int, int], SpreadFact]:
    """Return (node row, number of matching pods nominated to the node) -> the fact about a hard constraint."""
    context, labels = evaluation.context, evaluation.context.snapshot.label(constraint.topology_key)
    counts, exists = matches_per_domain(context, constraint, counting)
    domains = np.flatnonzero(exists)
    fewest = first_domains(labels.values, counts, domains)
    has_enough = len(domains) >= constraint.min_domains
    common = SpreadFact(
        topology_key=constraint.topology_key,
        selector=str(constraint.selector),
        max_skew=constraint.max_skew,
        self_matching=int(constraint.selector.matches(context.pod.metadata.labels)),
        minimum=int(counts[fewest[0]]) if has_enough and fewest else 0,
        min_domains=0 if has_enough else constraint.min_domains,
        domains=tuple(
            DomainCount(
                domain=labels.values[code],
                pods=int(counts[code]),
                rejected_by=tuple(_rejected_by(evaluation, counting & (labels.codes == code))),
            )
            for code in fewest
        ),
        count=len(domains),
    )

    @cache
    def of_domain(code: int, nominated: int) -> SpreadFact:
        domain, matching = labels.values[code], int(counts[code]) + nominated
        return replace(common, domain=domain, missing_label=domain is None, matching=matching, nominated=nominated)

    return lambda row, nominated: of_domain(int(labels.codes[row]), nominated)


def _rejected_by(evaluation: Evaluation, nodes: BoolArray) -> Iterator[str]:
    """Yield the other plugins that reject these nodes; none unless they reject all of them."""
    run = evaluation.filter
    indices = np.unique(run.rejected_by[nodes] // 2).tolist()
    plugins = {run.checks[index].plugin for index in indices if index >= 0}
    if min(indices, default=-1) >= 0 and NAME not in plugins:
        for plugin in sorted(plugins):
            yield from [plugin] if plugin else sorted(run.prefilter_plugins)
