"""extender replay: answer the calls of a recording again, and say what differs."""

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple
from xml.etree import ElementTree

import typer

from extender.cli.http_client import CAFileOption, CertOption, KeyOption, ServerNameOption, Trust
from extender.cli.options import configuration
from extender.version import __version__

if TYPE_CHECKING:  # what a command needs it imports itself, so that the others start fast
    from rich.console import Console

    from extender.server.recording.differences import Answered, Difference
    from extender.server.recording.replay import RecordedCall, Recording, Replayed, Result, Under
    from extender.server.settings import Settings

JSON_TYPE = {"Content-Type": "application/json"}

Preset = Literal["upstream", "careful", "strict"]


def replay(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A recording, or one segment of it.")],
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Send the calls to this service, and compare its answers."),
    ] = None,
    ca_file: CAFileOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
    tls_server_name: ServerNameOption = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="Answer by this configuration, not by that of then."),
    ] = None,
    preset: Annotated[
        Preset | None, typer.Option("--preset", help="Answer by the policies of this preset; over --config.")
    ] = None,
    verb: Annotated[
        Literal["filter", "prioritize", "preempt"] | None, typer.Option("--verb", help="Only calls of this verb.")
    ] = None,
    pod: Annotated[str | None, typer.Option("--pod", metavar="NS/NAME", help="Only calls about this pod.")] = None,
    id: Annotated[  # noqa: A002
        str | None, typer.Option("--id", metavar="ID", help="Only this call, such as preempt-42.")
    ] = None,
    output: Annotated[
        Literal["text", "json"], typer.Option("--output", "-o", help="How the result is printed.")
    ] = "text",
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write the result as JUnit XML, for CI.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="How long --url may take for an answer.")
    ] = 5.0,
    color: Annotated[bool, typer.Option("--color/--no-color", help="Colors, on a terminal.")] = True,
) -> None:
    """Answer the calls of a recording again, and print what differs.

    Each call is answered by this extender, on the picture and by the settings that it was recorded with; the answer
    has to be the same, byte for byte. With --config or --preset it is answered by other policies, and what differs is
    what these change. With --url a running service answers from its own picture, and the same JSON is enough; it takes
    the calls for the scheduler's, so it must be none that a scheduler uses.
    """
    from rich.console import Console

    from extender.errors import RecordingError, printable
    from extender.server.recording.replay import open_recording

    if url is not None and (config is not None or preset is not None):
        raise typer.BadParameter(
            "a service answers by its own policies: leave out --config and --preset", param_hint="--url"
        )
    trust = Trust(ca_file, cert, key, tls_server_name)
    if url is None and trust.options():
        raise typer.BadParameter("nobody is called without --url", param_hint=trust.options().split()[0])
    _keep_the_log_quiet()
    recording, under = open_recording(directory), _settings(config, preset)
    errors = Console(stderr=True, no_color=not color or None, highlight=False)

    def wanted(call: "RecordedCall") -> bool:
        return verb in (None, call.verb) and pod in (None, call.pod) and id in (None, call.id)

    with contextlib.ExitStack() as stack:
        answer = _from_engine if url is None else stack.enter_context(_from_service(url, timeout, trust))
        rows = list(_answered(recording.replayed(wanted, under), answer, errors, exact=url is None))
    if not rows:
        asked = [option for option, value in (("--verb", verb), ("--pod", pod), ("--id", id)) if value is not None]
        raise RecordingError(f"{directory}: there is no call{' for ' + ' and '.join(asked) if asked else ''}")
    for warning in (*_versions(recording), *recording.notes):
        errors.print(f"extender: {printable(warning)}", markup=False)
    if junit is not None:
        junit.write_bytes(_junit(rows))
    if output == "json":
        typer.echo(_json(directory, rows))
    else:
        _print(rows, Console(no_color=not color or None, highlight=False, soft_wrap=True))
    raise typer.Exit(1 if any(row.differences for row in rows) else 0)


class Row(NamedTuple):
    """One call, without the bodies: of these there may be many."""

    id: str
    verb: str
    pod: str
    time: str
    segment: str
    recorded_status: int
    status: int
    differences: "tuple[Difference, ...]"

    @classmethod
    def of(cls, result: "Result") -> "Row":
        call = result.call
        return cls(
            call.id, call.verb, call.pod, call.time, call.segment, call.status, result.status, result.differences
        )


def _keep_the_log_quiet() -> None:
    """What the service would log is what the calls said then."""
    logging.getLogger("extender").addHandler(logging.NullHandler())


# --- by what it is answered -----------------------------------------------------------------------------------------


def _settings(config: Path | None, preset: Preset | None) -> "Under":
    """The settings of then -> those of now."""
    from dataclasses import replace

    from extender.config import Configuration
    from extender.server.settings import Settings

    given: dict[str, tuple[str, object]] = {} if preset is None else {"--preset": ("preemption.preset", preset)}
    if config is not None:
        other = Settings.of(configuration(config, given))
        return lambda _: other
    if preset is None:
        return lambda settings: settings
    policies = Settings.of(Configuration.model_validate({"preemption": {"preset": preset}}))
    policy = policies.profile.preemption

    def under(settings: "Settings") -> "Settings":
        """All but preemption stays; and it is decided, if it was not then."""
        keep = 1 if policy.budget_accounting == "Live" else settings.profile.keep_candidates
        profile = replace(settings.profile, preemption=policy, keep_candidates=keep)
        return Settings(profile, policies.on_preempt_failure)

    return under


def _answered(
    chosen: "Iterator[Replayed]", answer: "Callable[[Replayed], Answered]", errors: "Console", *, exact: bool
) -> Iterator[Row]:
    from rich.progress import Progress

    with Progress(console=errors, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("replay", total=1.0)
        for replayed in chosen:
            answered = answer(replayed)
            bar.update(task, completed=replayed.progress)
            yield Row.of(replayed.result(answered, exact=exact))


def _from_engine(replayed: "Replayed") -> "Answered":
    return replayed.answer()


@contextlib.contextmanager
def _from_service(url: str, timeout: float, trust: Trust) -> "Iterator[Callable[[Replayed], Answered]]":
    """A service that is asked over one connection."""
    import httpx

    from extender.errors import RecordingError
    from extender.server.recording.differences import Answered

    def answer(replayed: "Replayed") -> "Answered":
        place = f"{url.rstrip('/')}/{replayed.call.verb}"
        try:
            response = client.post(place, content=replayed.call.request, headers=JSON_TYPE)
        except httpx.HTTPError as error:
            why = trust.why(error, url) or str(error)
            why = f"no answer within {timeout:g} s" if isinstance(error, httpx.TimeoutException) else why
            raise RecordingError(f"{place}: {replayed.call.id} was not answered: {why}") from error
        return Answered(response.status_code, response.content)

    with trust.client(url, timeout) as client:
        yield answer


# --- what is printed --------------------------------------------------------------------------------------------------


def _versions(recording: "Recording") -> list[str]:
    others = sorted(recording.versions() - {__version__})
    return [f"recorded by version {', '.join(others)}; this is {__version__}"] if others else []


def _print(rows: list[Row], console: "Console") -> None:
    """The calls that are answered differently, and how many there are."""
    from rich.text import Text

    from extender.errors import printable
    from extender.server.recording.differences import ABSENT

    for row in rows:
        if not row.differences:
            continue
        console.print(Text(printable(f"{row.id}  {row.pod}  {row.time}"), "bold"))
        for what, recorded, now in row.differences:
            console.print(Text(f"  {printable(what)}"))
            console.print(Text(f"    - {printable(recorded or ABSENT)}", "red"))
            console.print(Text(f"    + {printable(now or ABSENT)}", "green"))
    different = sum(bool(row.differences) for row in rows)
    counts = f"{_calls(len(rows))}: {len(rows) - different} answered as recorded, {different} differently"
    console.print(Text(counts, "red" if different else "green"))


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


def _json(directory: Path, rows: list[Row]) -> str:
    """Every call, with what differs."""
    calls = [
        {
            "id": row.id,
            "verb": row.verb,
            "pod": row.pod,
            "time": row.time,
            "segment": row.segment,
            "status": {"recorded": row.recorded_status, "now": row.status},
            "differences": [one._asdict() for one in row.differences],
        }
        for row in rows
    ]
    different = sum(bool(row.differences) for row in rows)
    found = {"recording": str(directory), "same": len(rows) - different, "different": different, "calls": calls}
    return json.dumps(found, indent=2)


def _junit(rows: list[Row]) -> bytes:
    """A test case per call; one that differs is a failure."""
    from extender.errors import printable

    failures = str(sum(bool(row.differences) for row in rows))
    suite = ElementTree.Element("testsuite", name="extender replay", tests=str(len(rows)), failures=failures)
    for row in rows:
        name = printable(f"{row.id} {row.pod} {row.time}")
        case = ElementTree.SubElement(suite, "testcase", classname=f"extender.replay.{row.verb}", name=name, time="0")
        if row.differences:
            said = [printable(str(one)) for one in row.differences]
            failure = ElementTree.SubElement(case, "failure", message=said[0])
            failure.text = "\n".join(said)
    suites = ElementTree.Element("testsuites", tests=str(len(rows)), failures=failures)
    suites.append(suite)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text
