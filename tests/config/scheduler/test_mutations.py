"""A valid KubeSchedulerConfiguration with one value changed: accepted and refused as by kube-scheduler v1.36.

`mutations.jsonl.gz`: the valid document, then `[change, said]` a line. A change is `["put", path, value]` or
`["del", path]`; said is null where kube-scheduler starts with the file, else the parts of its message that ours must
have as well: place, kind of the fault, names. Plugins that are not in-tree are left out: here they are accepted.
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

TABLE = Path(__file__).with_name("mutations.jsonl.gz")


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


def message_of(document: Any) -> str | None:
    try:
        kube_scheduler_of(document)
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
    for change, said in rows:
        message = message_of(changed(document, change))
        if (said is None) != (message is None) or (
            said is not None and message is not None and not all(is_said(part, message) for part in said)
        ):
            wrong.append((change, said, message))
    assert wrong == []
