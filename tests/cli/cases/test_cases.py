"""Situations from public reports, in small: what each command says of them, and by whose word (`whyRight`)."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender import cli
from extender.cli.output import tables

FOLDER = Path(__file__).parent

OF_FACTS = ("names", "first", "fact")
"""What an answer says with --node, what its first line says without, and the typed fact about that node."""


def cases():
    for file in sorted(FOLDER.glob("*/case.json")):
        for one in json.loads(file.read_text(encoding="utf-8"))["run"]:
            command = one["command"].removeprefix("extender ")
            yield pytest.param(file.parent, command, one["right"], id=f"{file.parent.name}: {command}")


@pytest.mark.parametrize(("folder", "command", "right"), [*cases()])
def test_a_reported_situation(monkeypatch, folder, command, right):
    monkeypatch.chdir(folder)
    is_check = command.startswith("config check")
    result = CliRunner().invoke(cli.app, [*shlex.split(command), *([] if is_check else ["-o", "json"])], env={})
    assert result.exit_code == right["exit"], result.output
    if is_check:
        return
    found = json.loads(result.stdout)
    if "verdict" in found:
        told = {"verdict": found["verdict"], "message": found["message"], "notEvaluated": found["notEvaluated"]}
    else:
        summary, messages = found["summary"], " ".join(one["message"] for one in found["cycles"])
        told = {"scheduled": summary["scheduled"], "pending": summary["pending"], "message": messages}
        told["notEvaluated"] = [name for one in found["cycles"][:1] for name in one["notEvaluated"]]
        told["blocked"] = [
            pod["pod"] for node in (found["scenario"] or {}).get("drained", ()) for pod in node["blocked"]
        ]
    told["pods"] = found["cluster"]["pods"]
    assert right.get("message", "") in told.pop("message"), result.output
    expected = {field: value for field, value in right.items() if field not in ("exit", "message", *OF_FACTS)}
    assert {field: told[field] for field in expected} == expected


@pytest.mark.parametrize(("folder", "command", "right"), [one for one in cases() if "fact" in one.values[2]])
@pytest.mark.parametrize("columns", [80, 200, tables.UNLIMITED_COLUMNS])
def test_the_cause_is_named(monkeypatch, folder, command, right, columns):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tables, "UNLIMITED_COLUMNS", columns)
    # 1. Text with --node: every name, wherever a line is broken.
    shown = printed(command)
    assert max(map(len, shown.splitlines())) <= columns
    assert [name for name in right["names"] if name not in re.sub(r"\s+", " ", shown)] == []
    # 2. Without --node, the first line.
    first = re.sub(r"\s+", " ", printed(re.sub(r" --node \S+", "", command)).partition("\n\n")[0])
    assert [name for name in right.get("first", ()) if name not in first] == []
    # 3. JSON: the fact in typed fields.
    (node,) = json.loads(printed(f"{command} -o json"))["nodes"]
    assert [one for one in node["facts"] if one.items() >= right["fact"].items()] != []


def printed(command):
    return CliRunner().invoke(cli.app, shlex.split(command), env={}).stdout
