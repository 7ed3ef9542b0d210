"""`extender config`: print and check the configuration, and compare it with kube-scheduler's.

Rule: no connections are made; the output depends only on the files, the environment and the options.
"""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extender.cli import options
from extender.cli.help_pages import PlainTextCommand, new_group
from extender.errors import ConfigError, printable, printable_json

if TYPE_CHECKING:  # pydantic loads slowly: imported only when needed
    from collections.abc import Iterator, Sequence

    from extender.config import Configuration
    from extender.config.document import Document, KeyPath
    from extender.config.scheduler.check import Finding
    from extender.config.scheduler.schema import KubeSchedulerConfiguration
    from extender.core.profile import KubeScheduler

app = new_group("""Print and check the configuration.

    \b
    Examples:
      # Create a configuration file
      extender config show > extender.yaml
      # Validate a file before deploying it
      extender config check --config extender.yaml
      # Compare it with kube-scheduler's own file
      extender config check --scheduler-config scheduler-config.yaml

    See docs/configuration.md and docs/scheduler.md.
    """)


@app.command(cls=PlainTextCommand)
def show(config: options.ConfigOption = None) -> None:
    """Print the effective configuration, with a comment for each key.

    Values come from the file and the environment. The output is a valid configuration file.

    \b
    Examples:
      # Every setting with its default
      extender config show
      # The effective settings of a file
      extender config show --config extender.yaml

    See docs/configuration.md and docs/policies.md.
    """
    from extender.config import render

    typer.echo(render(options.read_configuration(config)), nl=False)


@app.command(cls=PlainTextCommand)
def check(
    config: options.ConfigOption = None,
    scheduler_config: options.SchedulerConfigOption = None,
    scheduler_version: options.SchedulerVersionOption = None,
    extender: Annotated[
        str | None,
        typer.Option(
            "--extender",
            metavar="NUMBER|URL",
            help="Entry of kube-scheduler's `extenders` for this extender: its index, from 0, or its urlPrefix.",
        ),
    ] = None,
    output: options.OutputOption = "text",
) -> None:
    """Validate the configuration, and compare it with kube-scheduler's.

    The extender's own file is validated, with the environment's overrides. kube-scheduler's file is checked for what
    decisions depend on, and for what kube-scheduler does not start with. The entry of this extender in its `extenders`
    is compared with the listener, the time limits and the policies configured here. The output also has the version of
    kube-scheduler that decisions follow, and the plugins and other extenders that are not evaluated.

    The exit code is 0 if there are only notes, 1 if there is an error or a warning, and 2 if a file is invalid.

    \b
    Examples:
      # Validate a file before deploying it
      extender config check --config extender.yaml
      # Validate a setting of the environment
      EXTENDER_LOG__FORMAT=JSON extender config check
      # Compare it with kube-scheduler's own file
      extender config check --scheduler-config scheduler-config.yaml

    See docs/configuration.md, docs/scheduler.md and docs/install.md.
    """
    from extender.config.scheduler.load import read_scheduler

    settings = options.read_configuration(config, options.scheduler_options(scheduler_config, scheduler_version))
    source = read_scheduler(settings)
    scheduler = source.assume()
    findings: list[Finding] = []
    place_of: dict[KeyPath, str] = {}
    if settings.scheduler.config is not None:
        findings, document = _compare(settings, scheduler, extender, is_deployed=config is not None)
        if settings.scheduler.version == "auto":
            findings += _version_findings(source.refused_by())
        place_of = {one.path: str(document.place(one.path)) for one in findings}
    elif extender is not None:
        raise typer.BadParameter("requires --scheduler-config or scheduler.config", param_hint="--extender")
    name = str(config or "the default configuration")
    if output == "json":
        typer.echo(printable_json(_report(name, settings, scheduler, findings, place_of)))
    else:
        for line in _lines(name, settings, scheduler, findings, place_of):
            typer.echo(printable(line))
    if any(one.severity != "note" for one in findings):
        raise typer.Exit(1)


def _compare(
    settings: "Configuration", scheduler: "KubeScheduler", named: str | None, *, is_deployed: bool
) -> "tuple[list[Finding], Document]":
    """Return the findings about kube-scheduler's file and our entry in it, and the document for their line numbers.

    `is_deployed`: a configuration file of ours was given, so that kube-scheduler is meant to call us.
    """
    from extender.config.scheduler.check import Entry, Finding, check_entry, find_misspelt_plugins, missing_entry
    from extender.config.scheduler.file import SECOND_DOCUMENT
    from extender.config.scheduler.load import read_configuration
    from extender.config.scheduler.startup import find_refusals

    read = read_configuration(Path(settings.scheduler.config or ""))
    written = read.config
    found = [*find_refusals(read, scheduler), *find_misspelt_plugins(written)]
    if SECOND_DOCUMENT in read.document.places:
        found.append(Finding("warning", SECOND_DOCUMENT, "has no effect: kube-scheduler reads only the first document"))
    number = _entry_number(written, settings, named)
    if number is None:
        return [*found, missing_entry(settings, is_deployed=is_deployed)], read.document
    return [*found, *check_entry(Entry(number, written, settings, scheduler))], read.document


def _version_findings(refused: "dict[str, str]") -> "Iterator[Finding]":
    """Yield a note if a version that `auto` may find refuses the file."""
    from extender.config.scheduler.check import Finding

    if refused:
        versions, newest = [*refused], [*refused.values()][-1]
        span = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
        message = f"kube-scheduler {span} does not start with this file: {newest}"
        yield Finding("note", ("apiVersion",), message, "name the version that runs: --scheduler-version")


def _entry_number(written: "KubeSchedulerConfiguration", settings: "Configuration", named: str | None) -> int | None:
    """Return the index of the named entry, or of the one that may be ours, or None; ConfigError if several may be."""
    from extender.config.scheduler.check import own_entries

    # kube-scheduler may call several extenders: `own_entries` knows ours by its port or its verbs.
    numbers = range(len(written.extenders))
    entries = [f"{number} ({written.extenders[number].url_prefix})" for number in numbers]
    if named is not None:
        found = [number for number in numbers if named in (str(number), written.extenders[number].url_prefix)]
        problem = f"--extender {named}: no such entry of extenders: {', '.join(entries)}"
    else:
        found = own_entries(written, settings)
        several = [entries[number] for number in found]
        problem = f"{settings.scheduler.config}: extenders: which is this one? --extender {', or '.join(several)}"
        if not found:
            return None
    if len(found) != 1:
        raise ConfigError(problem)
    return found[0]


# --- output -----------------------------------------------------------------------------------------------------------


def _notes(settings: "Configuration", scheduler: "KubeScheduler") -> "list[str]":
    """Return notes about the version, its feature gates and the plugins that are not evaluated."""
    from extender.k8s.version.faults import known_faults
    from extender.k8s.version.found import assumption
    from extender.k8s.version.gates import gate_notes, gate_warnings
    from extender.k8s.version.versions import DEFAULT_MINOR, NEWEST_VERIFIED, Version, supported_version
    from extender.report.scheduler_report import extender_notes

    version = Version(scheduler.minor, scheduler.patch)
    notes = [
        *extender_notes(scheduler),
        *(
            f"profile {one.scheduler_name}: plugins that are not evaluated: {', '.join(one.not_evaluated_plugins)}"
            for one in scheduler.profiles
            if one.not_evaluated_plugins
        ),
    ]
    # No cluster is read here, so `auto` cannot be resolved.
    if settings.scheduler.version == "auto":
        refused = f", as 1.{DEFAULT_MINOR} refuses this" if scheduler.minor != DEFAULT_MINOR else ""
        notes.append(
            f"scheduler.version is auto: {scheduler.release} is checked here{refused}; a running extender takes "
            "the version of the kube-scheduler that it finds in the cluster"
        )
    if scheduler.minor > NEWEST_VERIFIED.minor:
        notes.append(f"{scheduler.version} is not verified: its rules follow from its published changes")
    elif settings.scheduler.version != "auto":
        notes += assumption(supported_version(settings.scheduler.version), version)
    gates = settings.scheduler.feature_gates
    notes += known_faults(version)
    return [*notes, *gate_warnings(gates, scheduler.minor, scheduler.emulation), *gate_notes(gates)]


def _lines(
    name: str,
    settings: "Configuration",
    scheduler: "KubeScheduler",
    findings: "Sequence[Finding]",
    place_of: "dict[KeyPath, str]",
) -> "Iterator[str]":
    from extender.config.document import path_text
    from extender.k8s.version.gates import NO_EMULATION
    from extender.utilities.text import pluralize

    profiles = ", ".join(one.scheduler_name for one in scheduler.profiles)
    gates = "".join(f", {gate}={str(value).lower()}" for gate, value in scheduler.changed_gates.items())
    yield f"{name}: valid"
    if settings.scheduler.config is not None:
        has_errors = any(one.severity == "error" for one in findings)
        yield f"{settings.scheduler.config}: read" + ("" if has_errors else "; kube-scheduler itself validates it")
    emulation = f", {scheduler.emulation}" if scheduler.emulation != NO_EMULATION else ""
    yield f"kube-scheduler {scheduler.release}{emulation}{gates}; profiles: {profiles}"
    for note in _notes(settings, scheduler):
        yield f"note: {note}"
    if settings.scheduler.config is None:
        yield "note: scheduler.config is not set: kube-scheduler's `extenders` are not compared"
        return
    for one in findings:
        yield f"{one.severity}: {place_of[one.path]}: {path_text(one.path)}: {one.message}"
        if one.advice:
            yield f"    {one.advice}"
    counts = Counter(one.severity for one in findings)
    yield f"{pluralize(counts['error'], 'error')}, {pluralize(counts['warning'], 'warning')}"


def _report(
    name: str,
    settings: "Configuration",
    scheduler: "KubeScheduler",
    findings: "Sequence[Finding]",
    place_of: "dict[KeyPath, str]",
) -> dict[str, Any]:
    from extender.config.document import path_text

    return {
        "configuration": name,
        "schedulerConfiguration": settings.scheduler.config,
        "version": scheduler.version,
        "release": scheduler.release,
        "versionSource": scheduler.version_source,
        "featureGates": scheduler.changed_gates,
        "profiles": [
            {"schedulerName": one.scheduler_name, "notEvaluatedPlugins": list(one.not_evaluated_plugins)}
            for one in scheduler.profiles
        ],
        "notes": _notes(settings, scheduler),
        "findings": [
            {
                "severity": one.severity,
                "place": place_of[one.path],
                "path": path_text(one.path),
                "message": one.message,
                "advice": one.advice,
            }
            for one in findings
        ],
    }
