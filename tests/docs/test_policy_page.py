"""docs/policies.md agrees with the code: its examples, its tables, and every key."""

import logging
import re
from datetime import datetime

import numpy as np
import pytest
import yaml

from extender.config import Configuration
from extender.config.decoding import Section
from extender.config.preemption import PRESETS, BuiltinProtectionsSection
from extender.core.evaluation import Evaluation
from extender.core.preemption.criteria import ranking_keys
from extender.core.preemption.dry_run import dry_run_preemption
from extender.core.profile import (
    DEFAULT_IMPORTANCE,
    DEFAULT_RANKING,
    EXTRA_IMPORTANCE,
    EXTRA_RANKING,
    PreemptionPolicy,
    Profile,
)
from tests.builders import built, typed
from tests.docs.policy_page import (
    EXAMPLE,
    PAGE,
    PATH,
    POD,
    blocks,
    body_of,
    cluster_of,
    examples,
    kube_scheduler,
    named,
    pod_of,
    served,
    table_below,
)

pytestmark = pytest.mark.anyio

EXAMPLES = dict(examples())


# --- examples -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=list(EXAMPLES))
async def test_an_example_answers_as_printed(example, caplog):
    assert example.keys() <= EXAMPLE
    async with served(example) as client:
        with caplog.at_level(logging.INFO, logger="extender"):
            answer = await client.post("/preempt", content=body_of(example))
    assert answer.status_code == 200
    assert (named(answer), answer.headers.get("X-Extender-Vetoed")) == (example["answer"], example.get("because"))
    if "log" in example:
        assert example["log"] in [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=list(EXAMPLES))
def test_kube_scheduler_by_itself_would_do_as_printed(example):
    nodes = example.get("sent", list(example["nodes"]))
    assert kube_scheduler(example, 1, nodes) == example["kube-scheduler"]


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=list(EXAMPLES))
def test_an_example_is_small(example):
    assert len(example["nodes"]) <= 2
    assert 1 <= len(example["pods"]) <= 4


@pytest.mark.parametrize("preset", sorted(set(PRESETS) - {"upstream"}))
def test_there_is_an_example_of_each_preset(preset):
    assert any(one["configuration"].get("preemption", {}).get("preset") == preset for one in EXAMPLES.values())


def test_the_keys_of_pods_are_explained():
    assert [row[0].strip("`") for row in table_below("How to read the examples")] == list(POD)


def test_every_other_block_is_a_configuration():
    others = [block for _, block in blocks() if "nodes" not in block]
    assert others
    for block in others:
        Configuration.model_validate(block)


def test_the_configuration_of_the_readme_is_one():
    text = (PATH.parents[1] / "README.md").read_text(encoding="utf-8").partition("**Policies.**")[2]
    block = text.partition("```yaml\n")[2].partition("```")[0]
    assert Configuration.model_validate(yaml.safe_load(block)) != Configuration()


# --- tables ---------------------------------------------------------------------------------------------------------


def values(section: Section) -> dict[str, str]:
    """Return key below `preemption`, such as `protections.builtin.ownPods` -> its value as text."""
    found = {}
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        below = values(value) if isinstance(value, Section) else None
        if below is None:
            found[str(field.alias)] = _text(section.model_dump(by_alias=True)[str(field.alias)])
        else:
            found |= {f"{field.alias}.{key}": text for key, text in below.items()}
    return found


def _text(value: object) -> str:
    """Render the value as in the configuration file."""
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def test_the_table_of_presets_is_what_presets_set():
    of = {name: values(Configuration.model_validate({"preemption": {"preset": name}}).preemption) for name in PRESETS}
    keys = [key for key in of["upstream"] if len({of[name][key] for name in PRESETS}) > 1 and key != "preset"]
    head, table = list(PRESETS), table_below("Presets")
    assert f"| key | {' | '.join(f'`{name}`' for name in head)} |" in PAGE
    shown = {row[0].strip("`"): row[1:] for row in table}
    assert shown == {key: [of[name][key] for name in head] for key in keys}


def test_the_table_of_importance_has_every_criterion():
    assert [row[0].strip("`") for row in table_below("`importance`")] == [*DEFAULT_IMPORTANCE, *EXTRA_IMPORTANCE]


def test_the_table_of_ranking_has_every_criterion():
    assert [row[0].strip("`") for row in table_below("`ranking`")] == [*DEFAULT_RANKING, *EXTRA_RANKING]


def numbers(name: str) -> dict[str, list[int]]:
    """Return node -> keys of the criterion, in the example below the table."""
    example = EXAMPLES["ranking 1"]
    policy = PreemptionPolicy(ranking=(name,))
    evaluation = Evaluation(
        built(cluster_of(example)), typed(pod_of(example["pod"], is_pending=True)), Profile(preemption=policy)
    )
    run = dry_run_preemption(evaluation.context, evaluation.filter.checks, evaluation.dry_run_rows)
    keys = ranking_keys(run, np.flatnonzero(run.candidate)).flat
    rows = run.rows[run.candidate].tolist()
    return {run.snapshot.node_names[row]: [int(key[place]) for key in keys] for place, row in enumerate(rows)}


@pytest.mark.parametrize("row", table_below("`ranking`"), ids=lambda row: row[0].strip("`"))
def test_the_numbers_of_criteria_are_those_of_the_example(row):
    criterion, _, *shown = row
    found = numbers(criterion.strip("`"))
    assert [found["n1"], found["n2"]] == [[_number(text) for text in cell.split(", ")] for cell in shown]


def _number(text: str) -> int:
    """Parse a number, or a time: a later time is a smaller number."""
    return -round(datetime.fromisoformat(text).timestamp()) * 10**9 if "T" in text else int(text)


def test_the_table_of_builtin_protections_is_complete():
    assert [row[0].strip("`") for row in table_below("`protections.builtin`")] == [
        f"protections.builtin.{field.alias}" for field in BuiltinProtectionsSection.model_fields.values()
    ]


def test_every_default_is_documented():
    """The key reference has every key with its default."""
    shown = {row[0].strip("`"): row[1].strip("`") for row in table_below("Key reference")}
    assert shown == values(Configuration().preemption)


def test_every_key_that_can_veto_has_an_example():
    """The key is set, and the response differs from kube-scheduler's own choice."""
    differing = [one["configuration"] for one in EXAMPLES.values() if one["answer"] != one["kube-scheduler"]]
    shown = [values(Configuration.model_validate(one).preemption) for one in differing]
    default = values(Configuration().preemption)
    for key, _, veto, _ in table_below("Key reference"):
        name = key.strip("`")
        assert veto not in ("yes", "with Strict") or any(one[name] != default[name] for one in shown), name


def test_every_key_is_mentioned_in_the_text():
    text = PAGE.partition("## Key reference")[0]
    keys = [*values(Configuration().preemption), "mode", "killSwitch.enabled", "killSwitch.preempt"]
    missing = [key for key in keys if not re.search(rf"`[^`\n]*\b{re.escape(key.rpartition('.')[2])}\b", text)]
    assert missing == [], "docs/policies.md does not describe these"
