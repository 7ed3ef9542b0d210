"""A valid KubeSchedulerConfiguration with one value changed, judged by kube-scheduler v1.36.

`mutations.jsonl.gz`: the valid document, then `[change, said]` a line. A change is `["put", path, value]` or
`["del", path]`; said is null where kube-scheduler starts with the file, else parts of its message: place, kind of the
fault, names. What it starts with is read here; what is refused here it refuses, at the same place. The reverse does not
hold: what it alone reads, it alone checks. `CHANGED` are those changes of which v1.33's code says otherwise.
"""

import gzip
import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from extender.config.scheduler.load import kube_scheduler_of
from extender.errors import ConfigError
from tests.profiles import by_profile

TABLE = Path(__file__).with_name("mutations.jsonl.gz")

PLUGINS = ["profiles", 0, "plugins"]
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
    """Whether the message has the part, or what surrounds the place; Go's decoder names no indices of lists."""
    message, part = re.sub(r"\[\d+\]", "", message), part.removeprefix("missing unit in ")
    keys = re.sub(r"\[\d+\]", "", part).split(".")
    return any(".".join(keys[:length]) in message for length in range(max(1, min(len(keys) - 1, 4)), len(keys) + 1))


def test_the_document_of_the_table_is_valid(table):
    assert message_of(table[0]) is None


def test_what_kube_scheduler_starts_with_is_read_and_what_is_refused_it_refuses_there(table):
    document, *rows = table
    assert len(rows) > 500
    wrong, refused = [], 0
    step = by_profile(fast=8, ci=1, long=1)
    for change, said in rows[::step]:
        message = message_of(changed(document, change))
        refused += message is not None
        # Of what its decoder refuses, kube-scheduler names no place: then ours is that of the change.
        place = ".".join(key for key in change[1] if isinstance(key, str))
        if message is not None and (
            said is None or (said and not any(is_said(part, message) for part in (*said, place)))
        ):
            wrong.append((change, said, message))
    assert wrong == []
    assert refused > 500 / step


@pytest.mark.parametrize("name", CHANGED)
def test_what_a_version_has_decides(table, name):
    document = deepcopy(table[0])
    args = document["profiles"][0]["pluginConfig"]
    args[:] = [one for one in args if one["name"] != "DynamicResources"]  # without arguments in v1.33
    change, accepts = CHANGED[name]
    changes = changed(document, change)
    assert {version: message_of(changes, version) is None for version in accepts} == accepts
