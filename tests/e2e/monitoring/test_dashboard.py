"""deploy/monitoring/dashboard.json: every panel asks for what there is, of a data source that the reader chooses."""

import json
import re

import pytest

from tests.e2e.monitoring.everything import families, name_of, series
from tests.e2e.monitoring.promql import MONITORING, labels_of, metrics_of, mistakes

DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
ROWS = [panel for panel in DASHBOARD["panels"] if panel["type"] == "row"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

UNITS = {"none", "short", "s", "bytes", "reqps", "eps", "percentunit"}
"""Units of Grafana that panels may use."""

VARIABLES = {"$__rate_interval": "5m", "$__range": "3h"}

NOT_SHOWN = {
    "process_virtual_memory_bytes",
    "process_max_fds",
    "extender_watch_waits_total",
    "extender_log_lines_dropped_total",
}
"""In no panel, as they say little."""


def plain(expression):
    """With Grafana's variables filled in."""
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


def expressions():
    return [plain(target["expr"]) for panel in PANELS for target in panel["targets"]]


def test_there_is_a_row_for_each_part():
    titles = [row["title"] for row in ROWS]
    assert titles == ["State", "Traffic", "Latency", "Decisions", "Cluster cache", "Process"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_what_there_is(panel):
    for target in panel["targets"]:
        expression = plain(target["expr"])
        assert mistakes(expression, series()) == []
        named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert named <= labels_of(expression, series())


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_shows_only_the_extenders_that_were_chosen(panel):
    for target in panel["targets"]:
        assert 'job=~"$job", instance=~"$instance"' in target["expr"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_has_a_unit_and_says_what_it_shows(panel):
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    assert panel["description"].endswith((".", "?"))


def test_the_data_source_is_chosen_by_the_reader():
    sources = {json.dumps(one, sort_keys=True) for one in found(DASHBOARD, "datasource")}
    assert sources == {'{"type": "prometheus", "uid": "${datasource}"}'}
    assert DASHBOARD["templating"]["list"][0]["type"] == "datasource"
    assert [one["name"] for one in DASHBOARD["templating"]["list"]] == ["datasource", "job", "instance"]


def found(tree, key):
    """Every value of the key, at any depth."""
    if isinstance(tree, list):
        return [one for part in tree for one in found(part, key)]
    if not isinstance(tree, dict):
        return []
    return [value for name, part in tree.items() for value in ([part] if name == key else found(part, key))]


def test_nothing_that_is_shown_by_the_process_is_missing():
    asked = set().union(*(metrics_of(expression) for expression in expressions()))
    missing = {name_of(family) for family in families() if not asked & {sample.name for sample in family.samples}}
    assert missing == NOT_SHOWN


def test_no_two_panels_overlap_and_none_is_wider_than_the_page():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(x + place["x"], y + place["y"]) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
