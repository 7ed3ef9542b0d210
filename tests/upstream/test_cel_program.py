"""The recorded answers are those of kube-scheduler's own code. Skipped without Go; with GO_REQUIRED=1 that fails."""

import pytest

from tests.k8s.cel.answers import recorded
from tests.upstream.cel_fuzz import upstream_answers


@pytest.mark.parametrize("minor", [36, 37])
def test_recorded_answers_are_those_of_kube_scheduler(build, minor):
    program, rows = build("cel", str(minor)), recorded(minor)
    names = ("expression", "answer", "device", "driver")
    selectors = [dict(zip(names, each, strict=False)) for each in rows]
    wanted = [each.pop("answer") for each in selectors]
    found = upstream_answers(program, selectors)
    different = [row for row, answer, upstreams in zip(rows, wanted, found, strict=True) if answer != upstreams]
    # Of a map, the value that cannot be formatted is the first in the order of a Go map.
    in_map_order = "CEL runtime error: error during formatting: no formatting function for "
    answers = {id(row): upstreams for row, upstreams in zip(rows, found, strict=True)}
    different = [
        row
        for row in different
        if not (row[1].startswith(in_map_order) and (answers[id(row)] or "").startswith(in_map_order))
    ]
    # The program prints no panic that cel-go recovers from; kube-scheduler reports it as this error.
    assert [row for row in different if not row[1].startswith("CEL runtime error: internal error: ")] == []
