"""Situations from public reports, in small: what each command says of them, and by whose word (`whyRight`)."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extender import cli

FOLDER = Path(__file__).parent


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
    expected = {field: value for field, value in right.items() if field not in ("exit", "message")}
    assert {field: told[field] for field in expected} == expected
