"""A valid KubeSchedulerConfiguration with one value changed: accepted and refused as by kube-scheduler v1.36.

`mutations.jsonl.gz`: the valid document, then `[change, said]` a line. A change is `["put", path, value]` or
`["del", path]`; said is null where kube-scheduler starts with the file, else the parts of its message that ours must
have as well: place, kind of the fault, names. Plugins that are not in-tree are left out: here they are accepted.
`CHANGED` are those changes of which v1.33's code says otherwise.
"""

import gzip
import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from extender.config.scheduler import kube_scheduler_of
from extender.errors import ConfigError
from tests.profiles import by_profile

TABLE = Path(__file__).with_name("mutations.jsonl.gz")

PLUGINS = ["profiles", 0, "plugins"]
STRATEGY = ["profiles", 0, "pluginConfig", 0, "args", "scoringStrategy"]
CHANGED: dict[str, tuple[list[Any], dict[str, bool]]] = {
    **{
        f"{name} at {point}": (["put", [*PLUGINS, point], {"enabled": [{"name": name}]}], {"1.36": True, "1.33": False})
        for name, points in {
            "GangScheduling": ("preEnqueue", "permit", "multiPoint"),
            "NodeDeclaredFeatures": ("preFilter", "filter", "multiPoint"),
            "DynamicResources": ("score",),
        }.items()
        for point in points
    },
    "a shape that no strategy reads": (["put", [*STRATEGY, "type"], "LeastAllocated"], {"1.36": False, "1.33": True}),
}
"""Change -> the versions that accept it."""


@pytest.fixture(scope="module")
def table():
    with gzip.open(TABLE, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def changed(document: Any, change: list[Any]) -> Any:
    """The document after the change, which may create the mappings on its way and append to a list."""
    action, path, *value = deepcopy(change)
    result = holder = deepcopy(document)
    for key in path[:-1]:
        holder = holder.setdefault(key, {}) if isinstance(holder, dict) else holder[key]
    if action == "del":
        del holder[path[-1]]
    elif isinstance(holder, list) and path[-1] >= len(holder):
        holder.append(value[0])
    else:
        holder[path[-1]] = value[0]
    return result


def message_of(document: Any, version: str | None = None) -> str | None:
    try:
        kube_scheduler_of(document, version=version)
    except ConfigError as error:
        return str(error)
    return None


def is_said(part: str, message: str) -> bool:
    """Whether the message has the part; Go's decoder names fields without the indices of lists."""
    return part in message or part in re.sub(r"\[\d+\]", "", message)


def test_the_document_of_the_table_is_valid(table):
    assert message_of(table[0]) is None


def test_every_change_is_accepted_or_refused_as_kube_scheduler_does_with_its_place_and_reason(table):
    document, *rows = table
    assert len(rows) > 500
    wrong = []
    for change, said in rows[:: by_profile(fast=3, ci=1, long=1)]:
        message = message_of(changed(document, change))
        if (said is None) != (message is None) or (
            said is not None and message is not None and not all(is_said(part, message) for part in said)
        ):
            wrong.append((change, said, message))
    assert wrong == []


@pytest.mark.parametrize("name", CHANGED)
def test_what_a_version_has_decides(table, name):
    document = deepcopy(table[0])
    args = document["profiles"][0]["pluginConfig"]
    args[:] = [one for one in args if one["name"] != "DynamicResources"]  # without arguments in v1.33
    change, accepts = CHANGED[name]
    changes = changed(document, change)
    assert {version: message_of(changes, version) is None for version in accepts} == accepts
