"""Generate the chart's README.md from README.md.gotmpl, Chart.yaml and values.yaml, as helm-docs does.

helm-docs is a program in Go, which pip does not have. Both files follow its conventions, so that
`helm-docs --sort-values-order=file` writes the same page.

Run: `python -m tests.e2e.deploy.chart_readme`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

CHART = Path(__file__).parents[3] / "deploy" / "helm" / "kube-scheduler-extender"
README = CHART / "README.md"

TEMPLATE = re.compile(r'\{\{ template "(chart\.\w+)" \. \}\}')

TYPES = {bool: "bool", int: "int", float: "float", str: "string", list: "list", dict: "object"}
"""Type of a value -> its name in helm-docs."""


class Row(NamedTuple):
    """One value in the table."""

    key: str
    type: str
    default: str
    description: str
    """Empty if its comment has none."""


def page() -> str:
    """Return the text of README.md."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    texts = {
        "chart.kubeVersion": about["kubeVersion"],
        "chart.version": about["version"],
        "chart.valuesTable": _table(rows((CHART / "values.yaml").read_text(encoding="utf-8"))),
    }
    return TEMPLATE.sub(lambda match: texts[match[1]], (CHART / "README.md.gotmpl").read_text(encoding="utf-8"))


def commands() -> list[list[str]]:
    """Return the commands in README.md, in words."""
    blocks = re.findall(r"^```console\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ").split() for line in lines]


def rows(text: str) -> list[Row]:
    """Return the values that have a description, and those that have none and stand below none, in their order."""
    root = yaml.compose(text)
    assert root is not None
    return list(_rows(root, "", text.splitlines(), is_described=False))


def _rows(node: yaml.Node, path: str, lines: list[str], *, is_described: bool) -> Iterator[Row]:
    """Yield the rows below one value; `is_described`: one above it has a description, which stands for all below."""
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        name = f"{path}.{key.value}" if path else key.value
        description, default = _comment(lines, key.start_mark.line)
        has_more = isinstance(value, yaml.MappingNode) and bool(value.value)
        if description or not (has_more or is_described):
            held = _value(value)
            yield Row(name, TYPES[type(held)], default or f"`{_json(held)}`", description)
        yield from _rows(value, name, lines, is_described=is_described or bool(description))


def _comment(lines: list[str], line: int) -> tuple[str, str]:
    """Return the description, and the default if the comment names one, of the comment above a line; "": none."""
    above: list[str] = []
    while line and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        above.insert(0, lines[line].strip())
    starts = [number for number, text in enumerate(above) if text.startswith("# -- ")]
    if not starts:
        return "", ""
    words, default = [above[starts[-1]].removeprefix("# -- ")], ""
    for text in above[starts[-1] + 1 :]:
        if text.startswith("# @default -- "):
            default = text.removeprefix("# @default -- ")
        else:
            words.append(text.removeprefix("# "))
    return " ".join(words), default


def _value(node: yaml.Node) -> Any:
    return yaml.safe_load(yaml.serialize(node))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _table(shown: list[Row]) -> str:
    head = "| Key | Type | Default | Description |\n|-----|------|---------|-------------|"
    return "\n".join([head, *(f"| {one.key} | {one.type} | {one.default} | {one.description} |" for one in shown)])


if __name__ == "__main__":
    README.write_text(page(), encoding="utf-8")
