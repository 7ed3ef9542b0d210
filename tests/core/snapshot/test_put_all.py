"""Objects that are put in together make the snapshot that they make one by one."""

import random

import numpy as np
import pytest
from hypothesis import example, given
from msgspec.structs import replace

from extender.core.engine import prepare
from extender.core.framework.plugins.node_ports import HostPortIndex
from extender.core.preemption.pdb.index import BudgetIndex
from extender.core.preemption.pdb.live import LiveBudgetIndex
from extender.core.snapshot import snapshot as snapshot_module
from extender.core.snapshot.selector_index import LabelGroups
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import KIND_LOAD_ORDER
from tests.builders import pod, typed
from tests.profiles import SEEDS, examples
from tests.property.test_changes import metadata, objects_of

COLUMNS = ("priority", "start", "order", "terminating", "demand", "non_zero")
ODD = {
    "amount": lambda pod, _: replace(pod, spec=typed_spec(pod, cpu="much")),
    "start": lambda pod, _: replace(pod, status=replace(pod.status, start_time="yesterday")),
    "scalars": lambda pod, _: replace(pod, spec=typed_spec(pod, requests={"a.example/gpu": "3"})),
    "no node": lambda pod, _: replace(pod, spec=replace(pod.spec, node_name="")),
    "unknown node": lambda pod, _: replace(pod, spec=replace(pod.spec, node_name="nowhere")),
    "finished": lambda pod, _: replace(pod, status=replace(pod.status, phase="Failed")),
    "same name": lambda pod, other: metadata(pod, name=other.metadata.name, namespace=other.metadata.namespace),
    "same UID": lambda pod, other: metadata(pod, uid=other.metadata.uid),
    "same pod": lambda pod, other: replace(pod, metadata=other.metadata),
    "no UID": lambda pod, _: metadata(pod, uid=""),
    "same labels": lambda pod, other: metadata(pod, labels=other.metadata.labels),
}
"""What happens to some of the pods of a cluster, given another one of it."""


def typed_spec(of, **amounts):
    return replace(typed(pod("odd", **amounts)).spec, node_name=of.spec.node_name)


def with_odd_pods(chance, objects):
    """The cluster with some odd pods among its own."""
    pods = [one for kind, one in objects if kind == "Pod"]
    for _ in range(chance.randint(0, 6) if pods else 0):
        one = ODD[chance.choice(sorted(ODD))](chance.choice(pods), chance.choice(pods))
        objects.insert(chance.randint(0, len(objects)), ("Pod", one))
    return objects


def one_by_one(made, kind, objects, on_skipped):
    for one in objects:
        try:
            made.put(kind, one)
        except ValueError as error:
            on_skipped(kind, error)


def together(made, kind, objects, on_skipped):
    for _ in made.put_all(kind, objects, on_skipped):
        pass


def made_of(objects, put, *, indexes_first):
    """The snapshot of (kind, object), and what was skipped."""
    made, skipped = Snapshot(), []
    if indexes_first:
        indexes(made)
    for kind in KIND_LOAD_ORDER:
        of_kind = [one for of, one in objects if of == kind]
        put(made, kind, of_kind, lambda kind, error: skipped.append((kind, str(error))))
    made.refresh_layout()
    return prepare(made), skipped


def indexes(made):
    kinds = LabelGroups, BudgetIndex, LiveBudgetIndex, HostPortIndex
    return tuple(map(made.index, kinds))


def contents(made):
    """All that is known of pods, by their identity, as rows may differ."""
    table, (groups, budgets, live, ports) = made.pod_table, indexes(made)
    name_of = {row: name for name, row in table.row_of.items()}
    rows = np.array(sorted(name_of), np.int64)

    def names(found):
        return sorted(name_of[row] for row in found)

    def counted(index):
        places, numbers = index.uses(rows)
        uses = sorted((name_of[int(rows[place])], number) for place, number in zip(places, numbers, strict=True))
        on_node = {budget: dict(of) for budget, of in index.pods_on_node.items() if of}
        return uses, on_node, index.allowances.tolist()

    return {
        "objects": made.frozen(),
        "columns": {name: [getattr(table, one)[row].tolist() for one in COLUMNS] for row, name in name_of.items()},
        "scalars": {name_of[row]: amounts for row, amounts in table.scalar_resources.items()},
        "demand of scalars": {of: names(rows) for of, rows in table.scalar_requests.items()},
        "sums": (made.used.tolist(), table.non_zero_requested.tolist(), table.priorities),
        "on nodes": [[name_of.get(row) for row in column] for column in made.layout.pod.T.tolist()],
        "without a row": made._without_row.orders,
        "labels": {name: (groups.of_pod[row].key, names(groups.of_pod[row].members)) for row, name in name_of.items()},
        "budgets": counted(budgets),
        "live budgets": counted(live),
        "ports": ({port: names(of) for port, of in ports.users.items()}, ports.addresses),
    }


def check(seed):
    objects = with_odd_pods(random.Random(seed), list(objects_of(seed)))
    expected, not_readable = made_of(objects, one_by_one, indexes_first=True)
    for indexes_first in (True, False):
        made, skipped = made_of(objects, together, indexes_first=indexes_first)
        assert skipped == not_readable, "other objects are unreadable"
        assert contents(made) == contents(expected), "put in together, the snapshot differs"


@examples(10, 400, 20_000)
@given(SEEDS)
@example(111)  # a pod that waited is bound while another one runs that has its UID
def test_objects_put_in_together_are_as_those_put_in_one_by_one(seed):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(snapshot_module, "PODS_PER_STEP", 4)  # so that some steps have no odd pod
        check(seed)


def test_an_object_that_cannot_be_read_is_an_error_where_nobody_wants_to_hear_of_it():
    pods = [typed(pod(f"p{number}", cpu="1" if number < 7 else "much")) for number in range(9)]
    with pytest.raises(ValueError, match="much"):
        together(Snapshot(), "Pod", pods, None)
