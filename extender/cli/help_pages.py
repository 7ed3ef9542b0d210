"""Sections that `--help` prints below the options of each command: signals, output, environment, files, exit codes,
examples and documentation, as in a man page.

Plain text of at most 80 columns, so that it reads the same on a terminal, in a pipe and on paper.

Rule: an example is a command that works as it stands, given the files that it names.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typer._click import Context, HelpFormatter
else:  # typer bundles its own copy of click, whose module path is private
    Context = TyperCommand.context_class
    HelpFormatter = Context.formatter_class

HelpEntries = tuple[tuple[str, str], ...]
"""Pairs of (term, description)."""

_ADMIN_URL = "https://127.0.0.1:8889"
_SERVER_NAME = "extender.kube-system.svc"
_NEXT_LINE = "\\\n  "

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}

_ENV_CONFIG = ("EXTENDER_CONFIG", "Configuration file, if --config is not given.")
_ENV_SETTINGS = (
    "EXTENDER_*",
    "Any setting; overrides the file: EXTENDER_SERVER__PORT is server.port. extender config show lists all settings.",
)
_ENV_KUBECONFIG = ("KUBECONFIG", "Kubeconfig files, as for kubectl; default ~/.kube/config.")
_ENV_NO_COLOR = ("NO_COLOR", "Disables colors if set.")

_EXIT_SUCCESS = ("0", "Success.")
_EXIT_USAGE = (
    "2",
    "Invalid option, setting, file or address. Standard error has the details.",
)
_EXIT_INTERRUPTED = ("130", "Interrupted by Ctrl-C.")


@dataclass(frozen=True, slots=True)
class HelpPage:
    """The sections of one command."""

    examples: HelpEntries
    """Pairs of (purpose, command)."""
    exit_codes: HelpEntries = (_EXIT_SUCCESS, _EXIT_USAGE, _EXIT_INTERRUPTED)
    environment: HelpEntries = (_ENV_CONFIG, _ENV_SETTINGS)
    files: HelpEntries = ()
    signals: HelpEntries = ()
    output: HelpEntries = ()
    see_also: tuple[str, ...] = ()
    """Documentation pages, relative to the repository."""


_CONFIG_FILE = ("extender.yaml", "Configuration (YAML); docs/configuration.md documents each key.")
_CLUSTER_FILE = (
    "cluster.json[.gz]",
    "Kubernetes objects: the output of kubectl get -o json or extender cluster dump, or YAML documents.",
)
_RECORDING_DIRECTORY = ("recording/", "Directory of segments written by `extender serve --record`.")

PAGES = {
    "": HelpPage(
        examples=(
            ("Serve the example cluster that ships with the package:", "extender serve"),
            ("Explain why a pod was evicted:", "extender explain shop/cart-9"),
            ("Simulate scheduling of the pending pods:", "extender simulate --pending"),
            ("Create a configuration file:", "extender config show > extender.yaml"),
        ),
        exit_codes=(
            _EXIT_SUCCESS,
            ("1", "Not found or out of date; see the help of each command."),
            _EXIT_USAGE,
            _EXIT_INTERRUPTED,
        ),
        see_also=("README.md", "docs/install.md", "docs/configuration.md"),
    ),
    "serve": HelpPage(
        examples=(
            ("Serve the example cluster on 127.0.0.1:8888, with the admin listener on :8889:", "extender serve"),
            ("Serve a cluster from a file, reloaded when it changes:", "extender serve --cluster cluster.json"),
            ("Watch a live cluster, with your kubeconfig:", "extender serve --kubernetes --context production"),
            ("Run in a pod, with its service account:", "extender serve --config extender.yaml --kubernetes"),
            ("Record every call for replay:", "extender serve --record recording"),
            (
                "Override one setting from the environment:",
                "EXTENDER_LOG__FORMAT=JSON extender serve --config extender.yaml",
            ),
        ),
        exit_codes=(
            ("0", "Shut down by a signal."),
            (
                "2",
                (
                    "Cannot start: invalid setting, file, certificate or credentials, or address already in use. Or "
                    "cannot continue: no permission to read the cluster. Standard error has the details."
                ),
            ),
        ),
        environment=(_ENV_CONFIG, _ENV_SETTINGS, _ENV_KUBECONFIG),
        files=(
            _CONFIG_FILE,
            _CLUSTER_FILE,
            (
                "PEM files",
                (
                    "Certificates, keys and CA bundles of server.tls and admin.tls. A listener with TLS accepts HTTPS "
                    "only; the files are reloaded when they change."
                ),
            ),
            _RECORDING_DIRECTORY,
        ),
        signals=(
            (
                "SIGTERM",
                (
                    "Shuts down gracefully: /readyz fails at once, calls are served for server.drainTime (10s), "
                    "in-flight requests are drained, and the process exits. Another signal ends the wait."
                ),
            ),
            ("SIGINT", "Ctrl-C: as SIGTERM, without waiting for server.drainTime."),
        ),
        output=(
            (
                "standard output",
                "Audit lines: one JSON line for each /preempt and /bind (audit.enabled, audit.path).",
            ),
            ("standard error", "Log: text, or JSON with log.format: JSON."),
        ),
        see_also=("docs/install.md", "docs/configuration.md", "docs/cluster.md", "docs/audit.md", "docs/runbook.md"),
    ),
    "explain": HelpPage(
        examples=(
            ("List the latest decisions:", "extender explain"),
            ("Explain why a pod was evicted, or where it fits:", "extender explain shop/cart-9"),
            ("Explain why a node was not chosen:", "extender explain shop/cart-9 --node worker-a1"),
            ("List the preemptions of the last 15 minutes:", "extender explain --verb preempt --since 15m"),
            ("Read a recording, print JSON:", "extender explain preempt-17 --recording recording -o json"),
            (
                "Connect over HTTPS, through kubectl port-forward:",
                f"extender explain --url {_ADMIN_URL} --ca-file ca.crt {_NEXT_LINE}--tls-server-name {_SERVER_NAME}",
            ),
        ),
        exit_codes=(
            _EXIT_SUCCESS,
            ("1", "No such decision, or it does not include the node."),
            ("2", "Invalid option or file, or the service does not respond. Standard error has the details."),
            _EXIT_INTERRUPTED,
        ),
        environment=(("EXTENDER_ADMIN_URL", "URL of the admin listener, if --url is not given."), _ENV_NO_COLOR),
        files=(_RECORDING_DIRECTORY,),
        see_also=("docs/explain.md", "docs/page.md"),
    ),
    "simulate": HelpPage(
        examples=(
            ("Schedule the pending pods of the cluster:", "extender simulate --pending"),
            (
                "Schedule a pod that does not exist yet, on a live cluster:",
                "kubectl run web --image web --dry-run=client -o yaml |\n  extender simulate --from-server --pod -",
            ),
            (
                "Compare two policies:",
                f"extender simulate --cluster cluster.json.gz --pod pod.yaml {_NEXT_LINE}--compare upstream strict",
            ),
            ("Print JSON for a script:", "extender simulate --pod pod.yaml -o json"),
        ),
        environment=(_ENV_CONFIG, _ENV_SETTINGS, _ENV_KUBECONFIG, _ENV_NO_COLOR),
        files=(_CONFIG_FILE, _CLUSTER_FILE, ("pod.yaml", "Pod manifests, in YAML or JSON.")),
        see_also=("docs/simulate.md", "docs/policies.md"),
    ),
    "replay": HelpPage(
        examples=(
            ("Check that all answers are unchanged:", "extender replay recording"),
            (
                "Show the effect of other policies:",
                "extender replay recording --preset careful --verb preempt",
            ),
            ("Replay one call:", "extender replay recording --id preempt-42 -o json"),
            (
                "Test a running service in CI:",
                "extender replay recording --url http://127.0.0.1:8888 --junit replay.xml",
            ),
        ),
        exit_codes=(
            ("0", "All answers are unchanged."),
            ("1", "Some answers changed; the differences are printed."),
            ("2", "Invalid option or file, no matching call, or the service does not respond."),
            _EXIT_INTERRUPTED,
        ),
        environment=(("EXTENDER_*", "With --config: any setting; overrides the file."), _ENV_NO_COLOR),
        files=(_RECORDING_DIRECTORY,),
        see_also=("docs/recordings.md",),
    ),
    "openapi": HelpPage(
        examples=(
            ("Write the document of the scheduler port:", "extender openapi --out openapi/openapi.json"),
            ("Check that the file is up to date:", "extender openapi --check openapi/openapi.json"),
            ("Check the document of the admin port:", "extender openapi --admin --check openapi/admin.json"),
        ),
        exit_codes=(
            _EXIT_SUCCESS,
            ("1", "The file of --check is out of date; the differences are printed."),
            _EXIT_USAGE,
            _EXIT_INTERRUPTED,
        ),
        environment=(),
        see_also=("docs/wire.md",),
    ),
    "cluster": HelpPage(
        examples=(("Write the live cluster to a file:", "extender cluster dump --out cluster.json.gz"),),
        see_also=("docs/cluster.md",),
    ),
    "cluster dump": HelpPage(
        examples=(
            ("Write the live cluster of your kubeconfig:", "extender cluster dump --out cluster.json.gz"),
            ("Use another context:", "extender cluster dump --context production --out cluster.json.gz"),
            ("Serve the file:", "extender serve --cluster cluster.json.gz"),
        ),
        environment=(_ENV_CONFIG, _ENV_SETTINGS, _ENV_KUBECONFIG),
        files=(_CONFIG_FILE, _CLUSTER_FILE),
        see_also=("docs/cluster.md",),
    ),
    "config": HelpPage(
        examples=(
            ("Create a configuration file:", "extender config show > extender.yaml"),
            ("Validate a file before deploying it:", "extender config check --config extender.yaml"),
        ),
        files=(_CONFIG_FILE,),
        see_also=("docs/configuration.md",),
    ),
    "config show": HelpPage(
        examples=(
            ("Print every setting with its default:", "extender config show"),
            ("Print the effective settings of a file:", "extender config show --config extender.yaml"),
        ),
        files=(_CONFIG_FILE,),
        see_also=("docs/configuration.md", "docs/policies.md"),
    ),
    "config check": HelpPage(
        examples=(("Validate a file before deploying it:", "extender config check --config extender.yaml"),),
        exit_codes=(
            ("0", "Valid."),
            ("2", "Not valid; standard error has a line per error, with its position in the file."),
            _EXIT_INTERRUPTED,
        ),
        files=(_CONFIG_FILE,),
        see_also=("docs/configuration.md",),
    ),
}
"""Command -> its page; "" is `extender` itself."""


# --- formatting -------------------------------------------------------------------------------------------------------

_NON_BREAKING_HYPHEN = "\u2011"
"""Placeholder for hyphens while lines are wrapped, so that `--ca-file` and kube-scheduler are not split."""


class PlainTextFormatter(HelpFormatter):
    """Wraps lines at blanks only."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _NON_BREAKING_HYPHEN))

    def write_dl(self, rows: "Sequence[tuple[str, str]]", col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(term, text.replace("-", _NON_BREAKING_HYPHEN)) for term, text in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_NON_BREAKING_HYPHEN, "-")


class _Context(Context):
    formatter_class = PlainTextFormatter


def write_sections(page: HelpPage, formatter: HelpFormatter) -> None:
    """Write the sections that are not empty."""
    for title, entries in (
        ("Signals", page.signals),
        ("Output", page.output),
        ("Environment", page.environment),
        ("Files", page.files),
        ("Exit codes", page.exit_codes),
    ):
        if entries:
            with formatter.section(title):
                formatter.write_dl(entries)
    with formatter.section("Examples"):
        for number, (purpose, command) in enumerate(page.examples):
            if number:
                formatter.write_paragraph()
            formatter.write_text(purpose)
            formatter.write("".join(f"{'':{formatter.current_indent + 2}}{line}\n" for line in command.splitlines()))
    with formatter.section("See also"):
        formatter.write_text(", ".join(page.see_also))


class DocumentedCommand(TyperCommand):
    """A command whose help ends with its page of PAGES."""

    context_class = _Context

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        write_sections(PAGES[command_path(ctx)], formatter)


class DocumentedGroup(TyperGroup):
    """A group of commands whose help ends with its page of PAGES."""

    context_class = _Context

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        write_sections(PAGES[command_path(ctx)], formatter)


def command_path(ctx: Context) -> str:
    """Return the names of a command below `extender`, such as `cluster dump`."""
    if ctx.parent is None:
        return ""
    return f"{command_path(ctx.parent)} {ctx.info_name}".strip()
