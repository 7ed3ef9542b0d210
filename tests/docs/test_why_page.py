"""docs/why.md: the outputs that it shows are what the command prints, and every key, option and exit code is on it.

`python -m tests.docs.test_why_page` writes the outputs.
"""

import os
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from typer.testing import CliRunner

from extender import cli
from extender.report import pod_schema as schema
from extender.report.facts.schema import AnyFact
from extender.report.pod_schema import EXIT_CODES

PAGE = Path(__file__).parents[2] / "docs" / "why.md"
BLOCK = re.compile(r"```console\n\$ extender (.*)\n((?:.*\n)*?)```\n")


def printed(command: str) -> str:
    result = CliRunner().invoke(cli.app, command.split(), env={})
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert result.exit_code in EXIT_CODES.values(), result.output
    return result.stdout


def renewed(page: str, folder: Path) -> str:
    """The page with the outputs as they are now; its manifest is written into the folder."""
    found = re.search(r"```yaml\n((?:.*\n)*?)```", page)
    assert found is not None
    (folder / "pod.yaml").write_text(found[1])
    os.chdir(folder)
    return BLOCK.sub(lambda block: f"```console\n$ extender {block[1]}\n{printed(block[1])}```\n", page)


def test_the_outputs_on_the_page_are_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    assert len(BLOCK.findall(page)) == 4
    assert renewed(page, tmp_path) == page, "run `python -m tests.docs.test_why_page`"


SHAPES = [
    one
    for one in vars(schema).values()
    if isinstance(one, type) and issubclass(one, schema.DiagnosisStruct) and one is not schema.DiagnosisStruct
]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_key_is_on_the_page(shape):
    page = PAGE.read_text(encoding="utf-8")
    keys = {field.encode_name for field in msgspec.structs.fields(shape)}
    assert {key for key in keys if not re.search(rf"`{key}(\[\])?`", page)} == set()


@pytest.mark.parametrize("kind", get_args(AnyFact))
def test_every_kind_of_fact_is_on_the_page_with_its_fields(kind):
    config = kind.__struct_config__
    row = re.search(rf"^\| `{config.tag}` \|.*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert row is not None
    keys = {field.encode_name for field in msgspec.structs.fields(kind)}
    assert {key for key in keys if not re.search(rf"`{key}(\[\])?`", row[0])} == set()


def test_every_option_and_exit_code_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    help_text = CliRunner().invoke(cli.app, ["why", "--help"], env={"COLUMNS": "200"}).stdout
    options = set(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z-]+)", help_text, re.MULTILINE)) - {"--help"}
    assert "--wait-timeout" in options
    assert {option for option in options if option not in page} == set()
    assert {verdict for verdict, code in EXIT_CODES.items() if f"| {code} | `{verdict}`" not in page} == set()


if __name__ == "__main__":
    import tempfile

    before = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as work:
        PAGE.write_text(renewed(before, Path(work)), encoding="utf-8")
