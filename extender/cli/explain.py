"""extender explain: why a pod was evicted, where it fits, and why not on that node."""

import difflib
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from extender.cli.http_client import ADMIN_LISTENER, CAFileOption, CertOption, KeyOption, ServerNameOption, Trust

if TYPE_CHECKING:  # what a command needs it imports itself, so that the others start fast
    from rich.console import Console, RenderableType

    from extender.cli.decision_source import Asked, Source
    from extender.cli.report import Way
    from extender.core.explain.schema import Decision, Summary

_WIDE = 10_000
"""Columns of a console that is no terminal: nothing is cut off or wrapped there."""

_FEW = 10
"""Of so many nodes is spoken where another one was meant."""

_ID = re.compile(r"(filter|prioritize|preempt)-\d+")

T = TypeVar("T")


class Verb(StrEnum):
    FILTER = "filter"
    PRIORITIZE = "prioritize"
    PREEMPT = "preempt"


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"


def explain(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="POD|DECISION",
            help="A pod (namespace/name, name or UID) that was to be scheduled or evicted, or the id of a decision.",
        ),
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", "-n", metavar="NAME", help="Why that node, or why not that node.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--list", "-l", help="List the decisions that speak of the pod, not the latest one only.")
    ] = False,
    verb: Annotated[Verb | None, typer.Option("--verb", help="Only decisions of this verb.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only later ones: 15m, or 2026-03-01T12:00:00Z.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="NUMBER", min=1, max=1000, help="How many are listed at most.")
    ] = 20,
    show_all: Annotated[
        bool, typer.Option("--all", help="All candidates, nodes and victims, not a few of them.")
    ] = False,
    url: Annotated[
        str,
        typer.Option("--url", metavar="URL", envvar="EXTENDER_ADMIN_URL", help="The admin listener of the service."),
    ] = ADMIN_LISTENER,
    ca_file: CAFileOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    tls_server_name: ServerNameOption = None,
    recording: Annotated[
        Path | None, typer.Option("--recording", metavar="DIR", help="Ask a recording instead of a running service.")
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How it is printed.")] = Output.TEXT,
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain text.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="How long the service may take to answer.")
    ] = 10,
) -> None:
    """Say why: a decision in one sentence, then all that led to it.

    Without an argument the latest decisions are listed. Of a pod it is the latest preemption that it asked for or was
    a victim of, or else where it was last found to fit.
    """
    from extender.cli.decision_source import Asked, Recorded, RunningService

    asked = Asked(subject, node, verb, since, limit)  # type: ignore[arg-type]  # a StrEnum is the text of its value
    trust = Trust(ca_file, cert, key, tls_server_name)
    way, console = _way(url, trust, recording), _console(no_color)
    with closing(RunningService(url, timeout, trust) if recording is None else Recorded(recording)) as source:
        if subject is None or every:
            _list(source, asked, output, console, way)
        else:
            _explain(source, subject, asked, output, console, way, show_all=show_all)


def _explain(
    source: "Source", subject: str, asked: "Asked", output: Output, console: "Console", way: "Way", *, show_all: bool
) -> None:
    node = asked.node
    decision, others = _find(source, subject, asked)
    known = decision.id
    if node is not None and all(one.name != node for one in decision.nodes):
        _miss(f"{known} does not speak of node {node!r}", _nearby(node, [one.name for one in decision.nodes]))
    if output is Output.JSON:
        typer.echo(_pretty(_there(source.decision(known, node=node))))
        return
    whole = decision
    if node is not None:
        decision = _decoded(_there(source.decision(known, node=node)), type(decision))
    elif decision.chosen:
        decision = _with_pods_of_the_best(source, decision)
    _print(console, _told(whole, decision, subject, node, others, show_all, way))


def _way(url: str, trust: Trust, recording: Path | None) -> "Way":
    """Commands that are hinted at ask at the same place."""
    from extender.cli.report import Way

    if recording is not None:
        return Way(f"extender explain --recording {shlex.quote(str(recording))}", is_replay=True)
    is_default = url in (ADMIN_LISTENER, os.environ.get("EXTENDER_ADMIN_URL"))
    where = "" if is_default else f" --url {shlex.quote(url)}"
    return Way(f"extender explain{where}{trust.options()}")


def _told(
    whole: "Decision", decision: "Decision", subject: str, node: str | None, others: int, show_all: bool, way: "Way"
) -> "Iterable[RenderableType]":
    from extender.cli import node_report, report

    if node is not None:
        yield from node_report.told(whole, decision.nodes[0], way)
    else:
        yield from report.told(decision, subject, way, show_all=show_all)
    if others:
        yield from report.of_others(subject, others, way)


# --- which one --------------------------------------------------------------------------------------------------------


def _find(source: "Source", subject: str, asked: "Asked") -> "tuple[Decision, int]":
    """The decision, without the pods of nodes, and how many others speak of the same pod; exits if there is none."""
    from dataclasses import replace

    from extender.cli.decision_source import MOST
    from extender.core.explain.schema import Decision

    if _ID.fullmatch(subject):
        found = source.decision(subject, pods=False)
        if found is not None:
            return _decoded(found, Decision), 0
    widely = replace(asked, limit=MOST, node=None)
    about = _summaries(source, widely)
    if not about:
        _miss(f"no decision is kept that speaks of {subject!r}", _alike(source, subject))
    with_node = _summaries(source, replace(widely, node=asked.node)) if asked.node is not None else []
    chosen = _foremost(with_node, "preempt", "filter") if with_node else _foremost(about, "preempt")
    found = source.decision(chosen.id, pods=False)
    return _decoded(_there(found), Decision), len(about) - 1


def _foremost(found: "Sequence[Summary]", *verbs: str) -> "Summary":
    """The latest of the first of these verbs, or else the latest."""
    return next((one for verb in verbs for one in found if one.verb == verb), found[0])


def _alike(source: "Source", subject: str) -> str:
    """What is there instead."""
    from extender.cli.decision_source import Asked

    known = _summaries(source, Asked())
    if not known:
        return "none is kept at all: has kube-scheduler called the service since it started?"
    names = {name for one in known for name in (one.pod, *one.victims)}
    of_short = {name.rpartition("/")[2]: name for name in sorted(names)}
    close = _close(subject, names) or [of_short[name] for name in _close(subject.rpartition("/")[2], of_short)]
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{meant}extender explain lists the decisions that are kept"


def _nearby(node: str, known: Sequence[str]) -> str:
    """Which nodes there are, those of similar names first."""
    if not known:
        return "it speaks of no node at all"
    close = _close(node, known)
    others = [one for one in known if one not in close]
    more = len(others) - _FEW
    return f"it speaks of {', '.join(close + others[:_FEW])}{f' and {more} more' if more > 0 else ''}"


def _close(name: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(name, list(known), 3)


def _miss(message: str, hint: str) -> NoReturn:
    from extender.errors import printable

    typer.echo(f"extender: {printable(message)}; {printable(hint)}", err=True)
    raise typer.Exit(1)


def _there(found: bytes | None) -> bytes:
    if found is None:
        _miss("the decision has just been dropped", "newer ones took its place (debug.decisions)")
    return found


def _with_pods_of_the_best(source: "Source", decision: "Decision") -> "Decision":
    """The chosen node shows who had to go; of the others a line is enough."""
    import msgspec

    best = decision.chosen[0]
    told = _decoded(_there(source.decision(decision.id, node=best)), type(decision)).nodes
    nodes = [told[0] if one.name == best and told else one for one in decision.nodes]
    return msgspec.structs.replace(decision, nodes=nodes)


# --- in and out -------------------------------------------------------------------------------------------------------


def _list(source: "Source", asked: "Asked", output: Output, console: "Console", way: "Way") -> None:
    from extender.cli import report

    body = source.find(asked)
    found = _listed(body)
    if not found and asked.pod is not None:
        _miss(f"no decision is kept that speaks of {asked.pod!r}", _alike(source, asked.pod))
    if output is Output.JSON:
        typer.echo(_pretty(body))
    else:
        _print(console, report.listed(found, way, console.width, asked.limit))


def _summaries(source: "Source", asked: "Asked") -> "list[Summary]":
    return _listed(source.find(asked))


def _listed(body: bytes) -> "list[Summary]":
    from extender.core.explain.schema import Summary

    @dataclass
    class Listed:
        decisions: list[Summary]

    return _decoded(body, Listed).decisions


def _decoded(body: bytes, kind: type[T]) -> T:
    """Keys that are not known, of a newer service, are passed over."""
    import msgspec

    from extender.cli.decision_source import Unreachable

    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise Unreachable(f"the answer cannot be read ({error}); is the service of another version?") from error


def _pretty(body: bytes) -> str:
    import msgspec

    return msgspec.json.format(body, indent=2).decode()


def _console(no_color: bool) -> "Console":
    from rich.console import Console

    settings: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    if no_color or os.environ.get("NO_COLOR"):
        settings["color_system"] = None
    console = Console(**settings)
    if not console.is_terminal:
        console = Console(**settings, width=_WIDE)
    return console


def _print(console: "Console", parts: "Iterable[RenderableType]") -> None:
    with console.capture() as printed:
        for part in parts:
            console.print(part)
    lines = (line.rstrip() for line in printed.get().splitlines())
    typer.echo("\n".join(lines), color=True)  # the console has decided whether there is any
