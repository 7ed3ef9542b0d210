"""The JSON schema of facts: what exactly makes a plugin reject a node, in typed fields.

Amounts are quantities as kubectl prints them: 250m, 3, 4Gi. `report.wording.describe_fact` has the sentences.

Rule: types only; the other modules of this package fill them in, from the objects that the plugin reads.
"""

from collections.abc import Callable, Sequence

import msgspec


def _kind(class_name: str) -> str:
    name = class_name.removesuffix("Fact")
    return name[0].lower() + name[1:]


class FactStruct(
    msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True, tag_field="kind", tag=_kind
):
    """Base class of facts: `kind` is the name of the class in camelCase, without `Fact`. Equal facts are one cause."""


class TaintFact(FactStruct, frozen=True, kw_only=True):
    """A taint that the pod does not tolerate (TaintToleration)."""

    key: str
    value: str = ""
    effect: str
    """NoSchedule or NoExecute."""


AnyFact = TaintFact

FactsOf = Callable[[int], Sequence[AnyFact]]
"""Node row -> the facts of one plugin about that node."""


class FactCount(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A fact, and the number of nodes of which it is true."""

    fact: AnyFact
    nodes: int
