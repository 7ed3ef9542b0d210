"""The alert rules: valid, about metrics that exist, explained in docs/runbook.md, and firing when they should."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.monitoring.alert_cases import CASES, as_promtool_wants
from tests.e2e.monitoring.everything import series
from tests.e2e.monitoring.promql import OF_PROMETHEUS, alerts, labels_of, manifest, mistakes, plain, rule_groups

RUNBOOK = (Path(__file__).parents[3] / "docs" / "runbook.md").read_text(encoding="utf-8")

ALERTS = {alert["alert"]: alert for alert in alerts()}

SEVERITIES = ("critical", "warning", "info")


# --- the rules ------------------------------------------------------------------------------------------------------


def test_it_is_a_prometheus_rule_of_the_operator():
    found = manifest()
    assert (found["apiVersion"], found["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert list(found["spec"]) == ["groups"]
    assert len(ALERTS) == len(alerts())
    assert len({group["name"] for group in rule_groups()}) == len(rule_groups())


@pytest.mark.parametrize("name", ALERTS)
def test_an_expression_parses_and_asks_for_what_there_is(name):
    assert mistakes(ALERTS[name]["expr"], series()) == []


WRONG = {
    "up ==": "is not PromQL",
    "extender_up == 0": "no metric extender_up",
    'extender_failures_total{reason="Tired"} > 0': "extender_failures_total has no reason Tired",
    'extender_failures_total{reason=~"Internal|Tired"} > 0': "extender_failures_total has no reason Tired",
    'extender_failures_total{verb="filter"} > 0': "extender_failures_total has no label verb",
    "sum by (why) (extender_failures_total) > 0": "no label why",
    "up == 0 and on (cluster) extender_build_info": "no label cluster",
    "up * on (job) group_left (flavour) extender_build_info": "no label flavour",
    "extender_request_duration_seconds > 1": "no metric extender_request_duration_seconds",
}


@pytest.mark.parametrize(("expression", "mistake"), WRONG.items())
def test_an_expression_that_is_wrong_is_found(expression, mistake):
    (found,) = mistakes(expression, series())
    assert found.startswith(mistake)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_how_bad_it_is_and_what_to_read(name):
    alert = ALERTS[name]
    assert name.startswith("Extender")
    assert alert["labels"].keys() == {"severity"}
    assert alert["labels"]["severity"] in SEVERITIES
    assert alert.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert list(alert["annotations"]) == ["summary", "description", "runbook"]
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["annotations"]["runbook"] == f"docs/runbook.md#{name.lower()}"


@pytest.mark.parametrize("name", ALERTS)
def test_what_an_alert_says_is_filled_in_from_labels_that_it_has(name):
    named = set(re.findall(r"\$labels\.(\w+)", " ".join(ALERTS[name]["annotations"].values())))
    assert named <= labels_of(ALERTS[name]["expr"], series() | OF_PROMETHEUS)


# --- the runbook ----------------------------------------------------------------------------------------------------


def sections():
    """Heading of the third level -> its text."""
    found = re.findall(r"^### (Extender\w+)\n((?:(?!^#).*\n)*)", RUNBOOK, re.MULTILINE)
    return dict(found)


def test_every_alert_has_its_section_in_the_order_of_the_rules():
    assert list(sections()) == list(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_a_section_has_the_expression_the_threshold_and_the_severity_of_the_rule(name):
    alert, section = ALERTS[name], sections()[name]
    after = f"after {alert['for']}" if "for" in alert else "at once"
    assert section.startswith(f"\n**{alert['labels']['severity']}**, {after}: {alert['annotations']['summary']}\n")
    (shown,) = re.findall(r"```promql\n(.*?)```", section, re.DOTALL)
    assert plain(shown) == plain(alert["expr"])
    assert len(section.partition("```promql")[2].partition("```")[2].split()) > 15  # what it means, and what to do


# What the prose repeats: alert -> number in the rule -> the words about it.
THRESHOLDS = {
    "ExtenderFailing": ("0.05", "one call in 20"),
    "ExtenderVetoing": ("0.9", "nine in ten"),
    "ExtenderSlow": ("0.01", "More than 1 % of the calls"),
    "ExtenderEventLoopLag": ("0.5", "half a second"),
    "ExtenderCacheStale": ("120", "for 2 minutes"),
    "ExtenderRelisting": ("40", "More than 40 lists"),
    "ExtenderWatchesFlapping": ("150", "More than 150"),
    "ExtenderCertificateExpiresSoon": ("604800", "within 7 days"),
    "ExtenderCertificateExpiresToday": ("86400", "within 24 hours"),
    "ExtenderMemoryNearLimit": ("0.9", "More than 90 %"),
    "ExtenderFileDescriptorsNearLimit": ("0.8", "More than 80 %"),
}


@pytest.mark.parametrize("name", ALERTS)
def test_the_words_of_the_runbook_are_about_this_threshold(name):
    (number,) = set(re.findall(r"[<>]=? ([\d.]+)", plain(ALERTS[name]["expr"]))) - {"0", "20"} or {"none"}
    if name in THRESHOLDS:
        threshold, words = THRESHOLDS[name]
        assert number == threshold
        assert words in sections()[name]
    else:
        assert number == "none"


def test_the_settings_that_the_runbook_names_exist():
    reference = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")
    sections_of = "server|admin|debug|recording|log|audit|tracing|cluster|bind|preemption|killSwitch"
    for section, key in re.findall(rf"`({sections_of})\.(\w+)", RUNBOOK):
        assert re.search(rf"^{section}:\n(?:(?:  .*|\s*)\n)*?  {key}:", reference, re.MULTILINE), f"{section}.{key}"


# --- evaluated ------------------------------------------------------------------------------------------------------


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not():
    assert {case.alert for case in CASES if case.fires} == set(ALERTS)
    assert {case.alert for case in CASES if not case.fires} == set(ALERTS)


def promtool(*arguments):
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    return subprocess.run([found, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def rule_file(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": rule_groups()}))
    return path


def test_prometheus_takes_the_rules(rule_file):
    done = promtool("check", "rules", str(rule_file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def test_the_rules_fire_in_prometheus_when_they_should_and_only_then(tmp_path):
    for name, rule in ALERTS.items():
        (tmp_path / f"{name}.rule.yaml").write_text(yaml.safe_dump({"groups": [{"name": name, "rules": [rule]}]}))
        wanted = as_promtool_wants(CASES, rule, f"{name}.rule.yaml")
        (tmp_path / f"{name}.test.yaml").write_text(yaml.safe_dump(wanted))
    done = promtool("test", "rules", *map(str, sorted(tmp_path.glob("*.test.yaml"))))
    assert done.returncode == 0, done.stdout + done.stderr
