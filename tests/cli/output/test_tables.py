"""Tables at the widths of terminals, and in a pipe."""

import io

import pytest
from rich.console import Console

import extender
from extender.cli.output import simulation_text, tables
from extender.cli.output.tables import AdaptiveTable, text
from extender.cluster.files.manifests import example_cluster
from tests.builders import incoming
from tests.whatif.test_scenarios import workload

LONG = "0/12 nodes are available: 5 Insufficient cpu, 3 node(s) had untolerated taint(s), 4 node(s) were unschedulable."


def printed(capsys, parts, width=None, **settings):
    """The lines of a terminal of this width, or of a pipe."""
    console = Console(width=width or tables.UNLIMITED_COLUMNS, file=io.StringIO(), highlight=False, **settings)
    tables.print_parts(parts, console)
    return capsys.readouterr().out.splitlines()


def table(**settings):
    rows = [("shop", "pod/web-6f7c9d5b84-bbbbb", LONG), ("ml", "pod/train", "short")]
    return AdaptiveTable(("NAMESPACE", "OBJECT", "MESSAGE"), [tuple(map(text, row)) for row in rows], **settings)


def test_in_a_pipe_a_row_is_a_line_without_a_ruler(capsys):
    assert printed(capsys, [table()]) == [
        "  NAMESPACE  OBJECT                    MESSAGE",
        f"  shop       pod/web-6f7c9d5b84-bbbbb  {LONG}",
        "  ml         pod/train                 short",
    ]


def test_on_a_terminal_the_longest_column_wraps_between_words(capsys):
    assert printed(capsys, [table()], 80) == [
        "  NAMESPACE  OBJECT                    MESSAGE",
        "  shop       pod/web-6f7c9d5b84-bbbbb  0/12 nodes are available: 5 Insufficient",
        "                                       cpu, 3 node(s) had untolerated taint(s),",
        "                                       4 node(s) were unschedulable.",
        "  ml         pod/train                 short",
    ]


def test_a_table_whose_cells_would_take_many_lines_is_a_list(capsys):
    assert printed(capsys, [table(lead=2)], 50) == [
        "  shop  pod/web-6f7c9d5b84-bbbbb",
        "     message 0/12 nodes are available: 5",
        "     Insufficient cpu, 3 node(s) had untolerated",
        "     taint(s), 4 node(s) were unschedulable.",
        "  ml  pod/train",
        "     message short",
    ]


def test_a_header_breaks_before_cells_do(capsys):
    rows = [tuple(map(text, (1, "default/web")))]
    shown = printed(capsys, [AdaptiveTable(("PDBViolations", "VICTIMS"), rows)], 26)
    assert shown == ["  PDB         VICTIMS", "  Violations", "  1           default/web"]


def test_rows_beyond_the_limit_are_counted(capsys):
    assert printed(capsys, [table(limit=1, rest="-o json shows all")])[-1] == "  and 1 more (-o json shows all)"


def test_no_line_ends_in_blanks_with_colors_either(capsys):
    shown = printed(capsys, [text("a sentence of some words", "bold red")], 15, force_terminal=True)
    assert shown == ["\x1b[1;31ma sentence of\x1b[0m", "\x1b[1;31msome words\x1b[0m"]


SCENARIOS = [
    {"pending": True, "drain": ["worker-b1"]},
    {"pods": [incoming("a", cpu="3", priority=100_000), incoming("b", cpu="900")], "admission": "none"},
    {"workloads": [workload(replicas=60).object]},
    {"workloads": [workload().object], "until_full": True},
    {"workloads": [workload(cpu="64").object], "gang": True, "remove_nodes": ["worker-a1"]},
]


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: " ".join(one))
def test_a_simulation_fits_the_terminal(capsys, scenario, width):
    found = extender.simulate(example_cluster(), **scenario)
    lines = printed(capsys, simulation_text.render(found), width)
    assert [line for line in lines if len(line) > width or line != line.rstrip()] == []
    assert not any("─" in line for line in lines)
    named = {one.node for one in found.cycles if one.node} | {one.name for one in found.summary.nodes}
    assert [name for name in named if not any(name in line for line in lines)] == [], "a name that is cut"
