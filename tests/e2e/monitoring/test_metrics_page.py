"""/metrics as a whole: names and help texts follow the conventions, few series, and docs/metrics.md is complete."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.cluster.watch.list_watch import RESOURCES
from extender.cluster.watch.state import Phase
from extender.config import Configuration
from extender.server.app import create_app
from tests.e2e.monitoring.everything import ReflectorsInPhase, everything, families, name_of
from tests.e2e.monitoring.page import CONDITIONAL, PAGE, SECTIONS, page
from tests.e2e.monitoring.promql import MONITORING

MAX_SERIES = 500

UNITS = ("_seconds", "_bytes", "_info", "_ratio")
OTHER_UNITS = ("milliseconds", "minutes", "hours", "kilobytes", "megabytes", "mb", "kb", "ms", "percent")
"""Units that are not Prometheus base units."""

REPOSITORY = Path(__file__).parents[3]


# --- section 6 of the requirements ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [24, 26])
def test_a_live_cluster_with_all_kinds_and_everything_on_has_at_most_500_series(kinds):
    all_kinds = list(ReflectorsInPhase().kinds)
    assert (len(RESOURCES), len(all_kinds)) == (24, 26)
    shown = families(everything(ReflectorsInPhase(kinds=all_kinds[:kinds])))
    assert sum(len(family.samples) for family in shown) <= MAX_SERIES


@pytest.mark.parametrize("phase", list(Phase))
def test_streams_are_counted_by_phase(phase):
    shown = {
        sample.labels["phase"]: sample.value
        for family in families(everything(ReflectorsInPhase(phase=phase)))
        for sample in family.samples
        if sample.name == "extender_watch_streams"
    }
    assert shown == dict.fromkeys(Phase, 0) | {phase: 26}


@pytest.mark.parametrize(("phase", "expected"), [("watching", 23), ("broken", 23), ("forbidden", 0), ("absent", 0)])
def test_the_age_is_that_of_kinds_that_can_be_read(phase, expected):
    """The age of an unreadable kind would grow for ever, and no operator could act on it."""
    shown = [
        family for family in families(everything(ReflectorsInPhase(phase=phase))) if family.name.endswith("age_seconds")
    ]
    assert [len(family.samples) for family in shown] == ([expected] if expected else [0])


def test_a_kind_that_was_never_listed_has_no_age():
    (family,) = [one for one in families(everything(ReflectorsInPhase(age=None))) if one.name.endswith("age_seconds")]
    assert family.samples == []


def test_without_a_cluster_and_tls_only_conditional_metrics_are_missing():
    shown = families(create_app(ClusterCache(), Configuration()).server_context.metrics)
    missing = {name_of(one) for one in families()} - {name_of(one) for one in shown}
    assert {"extender_watch_streams", "extender_certificate_files_valid"} <= missing
    assert not [name for name in missing if not name.startswith(tuple(CONDITIONAL))]


# --- names ----------------------------------------------------------------------------------------------------------


def test_every_metric_says_what_it_means_in_a_sentence():
    for family in families():
        assert re.fullmatch(r"[A-Z1s].+\.", family.documentation), (family.name, family.documentation)


def test_names_follow_the_conventions_of_prometheus():
    for family in families():
        name = name_of(family)
        assert re.fullmatch(r"(extender|process)_[a-z]+(_[a-z]+)*", name)
        assert name.endswith("_total") == (family.type == "counter")
        assert not set(name.split("_")) & set(OTHER_UNITS)
        assert family.type in ("counter", "gauge", "histogram")
        for unit in UNITS:
            assert unit not in name.removesuffix("_total").removesuffix(unit)  # a unit ends the name


def test_promtool_has_nothing_to_say_about_what_is_shown():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=everything().exposition(), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# --- documents ------------------------------------------------------------------------------------------------------


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make metrics`"


def test_every_metric_has_its_place_on_the_page():
    placed = [name for names in SECTIONS.values() for name in names]
    assert sorted(placed) == sorted(name_of(family) for family in families())


def documents():
    text = [*REPOSITORY.glob("docs/*.md"), REPOSITORY / "README.md", *MONITORING.iterdir()]
    return [path for path in text if path.name != "CHANGELOG.md"]


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_documents_name_only_metrics_that_exist(path):
    known = {name for family in families() for name in (name_of(family), *(one.name for one in family.samples))}
    named = set(re.findall(r"\bextender_[a-z_]*[a-z]\b", path.read_text(encoding="utf-8")))
    assert named - known == set()
