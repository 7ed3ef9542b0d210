"""docs/evicted.md: the output that it shows is that of the records of docs/audit.md, and every key and word is on it.

`python -m tests.docs.test_evicted_page` writes the output.
"""

import contextlib
import re
import tempfile
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from extender import cli
from extender.report.audit.schema import (
    AuditDecision,
    AuditEnd,
    AuditGap,
    AuditProcess,
    AuditReport,
    AuditRole,
    BrokenLine,
)
from extender.report.wording import AUDIT_ENDS

PAGE = Path(__file__).parents[2] / "docs" / "evicted.md"
BLOCK = re.compile(r"```console\n\$ extender (explain \S+ --from audit\.log)\n((?:.*\n)*?)```\n")


def write_log(folder: Path) -> None:
    """Write the records that audit.md shows, in their order."""
    page = (PAGE.parent / "audit.md").read_text(encoding="utf-8")
    records = [text.replace("\n", "") for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    order = ("auditStarted", '"verb":"preempt"', '"verb":"bind"', "auditLost", "auditStopped")
    ordered = [next(one for one in records if mark in one) for mark in order]
    (folder / "audit.log").write_text("".join(f"{one}\n" for one in ordered), encoding="utf-8")


def renewed(page: str, folder: Path) -> str:
    write_log(folder)

    def printed(block: re.Match[str]) -> str:
        with contextlib.chdir(folder):
            result = CliRunner().invoke(cli.app, block[1].split(), env={})
        assert result.exit_code == 0, result.output
        return f"```console\n$ extender {block[1]}\n{result.stdout}```\n"

    return BLOCK.sub(printed, page)


def test_the_output_on_the_page_is_what_is_printed(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    assert len(BLOCK.findall(page)) == 1
    assert renewed(page, tmp_path) == page, "run `python -m tests.docs.test_evicted_page`"


@pytest.mark.parametrize("kind", [AuditReport, AuditDecision, AuditProcess, AuditGap, BrokenLine])
def test_every_key_is_on_the_page(kind):
    page = PAGE.read_text(encoding="utf-8")
    assert [key for key in kind.__struct_encode_fields__ if f"`{key}`" not in page] == []


def test_every_end_and_role_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    assert [word for word in (*get_args(AuditEnd), *get_args(AuditRole)) if f"`{word}`" not in page] == []
    said = {end: words.partition(":")[0].partition(", so written")[0] for end, words in AUDIT_ENDS.items()}
    assert {end: words for end, words in said.items() if f"`{words}`" not in page} == {}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), Path(scratch)), encoding="utf-8")
