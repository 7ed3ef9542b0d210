"""`extender replay`: answer the calls of a recording again and report differences.

Rule: the exit code is 0 only if every answer is unchanged.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from extender.cli.http_client import CAFileOption, CertOption, KeyOption, ServerNameOption, TLSClientConfig
from extender.cli.options import (
    OutputOption,
    SchedulerConfigOption,
    SchedulerVersionOption,
    read_configuration,
    scheduler_options,
)
from extender.errors import RecordingError, printable, printable_json
from extender.report.schema import VerbName
from extender.version import __version__

if TYPE_CHECKING:  # the server and rich load slowly: imported only when needed
    from rich.console import Console

    from extender.server.recording.answer_diff import Difference, RawAnswer
    from extender.server.replay import RecordedCall, ReplayableCall

    Answer = Callable[[ReplayableCall], RawAnswer]


def replay(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Recording to replay, or one segment of it.")],
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="Send the calls to this running service instead of deciding them locally."
        ),
    ] = None,
    ca_file: CAFileOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    tls_server_name: ServerNameOption = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", metavar="FILE", help="Decide by this configuration instead of the recorded one."
        ),
    ] = None,
    preset: Annotated[
        Literal["upstream", "careful", "strict"] | None,
        typer.Option("--preset", help="Decide by the policies of this preset; overrides --config."),
    ] = None,
    scheduler_config: SchedulerConfigOption = None,
    scheduler_version: SchedulerVersionOption = None,
    verb: Annotated[VerbName | None, typer.Option("--verb", help="Replay only calls of this verb.")] = None,
    pod: Annotated[
        str | None, typer.Option("--pod", metavar="NS/NAME", help="Replay only calls about this pod.")
    ] = None,
    id: Annotated[  # noqa: A002
        str | None, typer.Option("--id", metavar="ID", help="Replay only this call, such as preempt-42.")
    ] = None,
    output: OutputOption = "text",
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write the result to this file as JUnit XML.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Time limit for each response of --url.")
    ] = 5.0,
    color: Annotated[bool, typer.Option("--color/--no-color", help="Color the output on a terminal.")] = True,
) -> None:
    """Replay the calls of a recording and print the differences.

    Each call is decided again on the recorded cluster and settings, and the answer must be identical, byte for byte.
    With --config or --preset, calls are decided by other policies, with --scheduler-config or --scheduler-version by
    another kube-scheduler's profiles or version, and the differences show the effect. With --url, a running service
    answers from its own cluster cache, and the same JSON is enough. That service cannot tell the calls from a
    scheduler's: do not use one that a scheduler calls.

    \b
    Examples:
      # Check that all answers are unchanged
      extender replay recording
      # Show the effect of other policies
      extender replay recording --preset careful --verb preempt
      # Show what an upgrade of kube-scheduler would change
      extender replay recording --scheduler-version 1.36
      # Test a running service in CI
      extender replay recording --url http://127.0.0.1:8888 --junit replay.xml

    See docs/recordings.md.
    """
    from rich.console import Console

    from extender.cli import logs
    from extender.cli.sources.replay_settings import settings_override
    from extender.server.replay import ReplayableCall, open_recording

    given = {
        "--config": config,
        "--preset": preset,
        "--scheduler-config": scheduler_config,
        "--scheduler-version": scheduler_version,
    }
    if url is not None and any(value is not None for value in given.values()):
        names = " and ".join(option for option, value in given.items() if value is not None)
        raise typer.BadParameter(f"a running service applies its own settings: omit {names}", param_hint="--url")
    tls = TLSClientConfig(ca_file, cert, key, tls_server_name)
    if url is None and tls.command_line():
        raise typer.BadParameter("requires --url", param_hint=tls.command_line().split()[0])
    # 1. Choose the settings to decide by.
    logs.silence()
    recording = open_recording(directory)
    overrides = scheduler_options(scheduler_config, scheduler_version) | {"--preset": ("preemption.preset", preset)}
    settings = None if config is None else read_configuration(config, overrides)
    under = settings_override(settings, preset, scheduler_config, scheduler_version)
    errors = Console(stderr=True, no_color=not color or None, highlight=False)

    def wanted(call: "RecordedCall") -> bool:
        return verb in (None, call.verb) and pod in (None, call.pod) and id in (None, call.id)

    # 2. Answer the calls again, here or by the service.
    with contextlib.ExitStack() as stack:
        answer = ReplayableCall.answer if url is None else stack.enter_context(_answer_over_http(url, timeout, tls))
        rows = list(_replay_calls(recording.replayed(wanted, under), answer, errors, exact=url is None))
    if not rows:
        filters = [option for option, value in (("--verb", verb), ("--pod", pod), ("--id", id)) if value is not None]
        raise RecordingError(f"{directory}: no call{' matches ' + ' and '.join(filters) if filters else 's recorded'}")
    # 3. Warnings are complete now that every line has been read.
    if versions := ", ".join(sorted(recording.versions() - {__version__})):
        logs.print_message(f"recorded by version {versions}; this is {__version__}")
    for warning in recording.notes:
        logs.print_message(warning)
    # 4. Print the differences.
    different = sum(bool(row.differences) for row in rows)
    if junit is not None:
        junit.write_bytes(_render_junit(rows))
    if output == "json":
        calls = [row._asdict() | {"differences": [one._asdict() for one in row.differences]} for row in rows]
        found = {"recording": str(directory), "same": len(rows) - different, "different": different, "calls": calls}
        typer.echo(printable_json(found))
    else:
        _print_differences(rows, Console(no_color=not color or None, highlight=False, soft_wrap=True))
    raise typer.Exit(1 if different else 0)


class ReplayedCall(NamedTuple):
    """The outcome of one call, without bodies: all bodies of a recording may not fit into memory."""

    id: str
    verb: str
    pod: str
    time: str
    segment: str
    status: dict[str, int]
    """HTTP status `recorded` and `now`."""
    differences: "tuple[Difference, ...]"


# --- answers ----------------------------------------------------------------------------------------------------------


def _replay_calls(
    chosen: "Iterator[ReplayableCall]", answer: "Answer", errors: "Console", *, exact: bool
) -> Iterator[ReplayedCall]:
    from rich.progress import Progress

    with Progress(console=errors, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("replay", total=1.0)
        for replayed in chosen:
            result = replayed.result(answer(replayed), exact=exact)
            bar.update(task, completed=replayed.progress)
            call, status = result.call, {"recorded": result.call.status, "now": result.status}
            yield ReplayedCall(call.id, call.verb, call.pod, call.time, call.segment, status, result.differences)


@contextlib.contextmanager
def _answer_over_http(url: str, timeout: float, tls: TLSClientConfig) -> "Iterator[Answer]":
    """Yield a function that sends a call to the service and returns its answer."""
    import httpx

    from extender.server.recording.answer_diff import RawAnswer

    headers = {"Content-Type": "application/json"}

    def answer(replayed: "ReplayableCall") -> "RawAnswer":
        endpoint = f"{url.rstrip('/')}/{replayed.call.verb}"
        try:
            response = client.post(endpoint, content=replayed.call.request, headers=headers)
        except httpx.HTTPError as error:
            reason = tls.error_message(error, url) or str(error)
            reason = f"no response within {timeout:g}s" if isinstance(error, httpx.TimeoutException) else reason
            raise RecordingError(f"{endpoint}: {replayed.call.id} failed: {reason}") from error
        return RawAnswer(response.status_code, response.content)

    with tls.client(url, timeout) as client:
        yield answer


# --- output -----------------------------------------------------------------------------------------------------------


def _print_differences(rows: list[ReplayedCall], console: "Console") -> None:
    """Print the calls whose answers have changed, with `-` before the recorded part and `+` before the new one."""
    from rich.text import Text

    from extender.server.recording.answer_diff import ABSENT
    from extender.utilities.text import pluralize

    for row in rows:
        if not row.differences:
            continue
        console.print(Text(printable(f"{row.id}  {row.pod}  {row.time}"), "bold"))
        for subject, recorded, now in row.differences:
            console.print(Text(f"  {printable(subject)}"))
            console.print(Text(f"    - {printable(recorded or ABSENT)}", "red"))
            console.print(Text(f"    + {printable(now or ABSENT)}", "green"))
    different = sum(bool(row.differences) for row in rows)
    counts = f"{pluralize(len(rows), 'call')}: {len(rows) - different} unchanged, {different} changed"
    console.print(Text(counts, "red" if different else "green"))


def _render_junit(rows: list[ReplayedCall]) -> bytes:
    """Return JUnit XML with a test case per call; a call with differences is a failure."""
    from xml.etree import ElementTree

    failures = str(sum(bool(row.differences) for row in rows))
    suite = ElementTree.Element("testsuite", name="extender replay", tests=str(len(rows)), failures=failures)
    for row in rows:
        name = printable(f"{row.id} {row.pod} {row.time}")
        case = ElementTree.SubElement(suite, "testcase", classname=f"extender.replay.{row.verb}", name=name, time="0")
        if row.differences:
            lines = [printable(str(one)) for one in row.differences]
            failure = ElementTree.SubElement(case, "failure", message=lines[0])
            failure.text = "\n".join(lines)
    # CI systems expect the outer element, even around one suite.
    suites = ElementTree.Element("testsuites", tests=str(len(rows)), failures=failures)
    suites.append(suite)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text
