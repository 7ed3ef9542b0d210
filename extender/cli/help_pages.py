"""What `--help` says of each command below its options: examples, environment, files, exit codes and where to read on.

Plain text of at most 80 columns, so that it reads the same on a terminal, in a pipe and on paper.

Rule: an example is a command that works as it stands, given the files that it names.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typer._click import Context, HelpFormatter
else:  # wherever typer has them from
    Context = TyperCommand.context_class
    HelpFormatter = Context.formatter_class

Entries = tuple[tuple[str, str], ...]
"""(what is meant, what is said of it)."""

ADMIN = "https://127.0.0.1:8889"
SERVICE = "extender.kube-system.svc"
CONTINUED = "\\\n  "

SETTINGS = {"help_option_names": ["-h", "--help"]}

CONFIG = ("EXTENDER_CONFIG", "The configuration file, where --config does not name one.")
EVERY_SETTING = (
    "EXTENDER_*",
    "Every setting, over the file: EXTENDER_SERVER__PORT is server.port. extender config show lists all of them.",
)
KUBECONFIG = ("KUBECONFIG", "Kubeconfig files, as kubectl reads them; without it ~/.kube/config.")
NO_COLOR = ("NO_COLOR", "If it is set, nothing is coloured.")

DONE = ("0", "Done.")
WRONG = (
    "2",
    "The command line, a setting, a file or an address is wrong. Standard error says what and where.",
)
INTERRUPTED = ("130", "Ended by Ctrl-C.")


@dataclass(frozen=True, slots=True)
class Page:
    """Of one command."""

    examples: Entries
    """(what it is for, the command)."""
    exit_codes: Entries = (DONE, WRONG, INTERRUPTED)
    environment: Entries = (CONFIG, EVERY_SETTING)
    files: Entries = ()
    signals: Entries = ()
    output: Entries = ()
    read_on: tuple[str, ...] = ()
    """Pages of the documentation."""


CONFIG_FILE = ("extender.yaml", "The configuration (YAML); docs/configuration.md says what each key means.")
CLUSTER_FILE = (
    "cluster.json[.gz]",
    "Kubernetes objects: a List as kubectl get -o json prints it, YAML documents, or what extender cluster dump wrote.",
)
A_RECORDING = ("recording/", "A directory of segments, as `extender serve --record` writes it.")

PAGES = {
    "": Page(
        examples=(
            ("Serve the example cluster that ships with the package:", "extender serve"),
            ("Ask why a pod was evicted:", "extender explain shop/cart-9"),
            ("See what would become of the pods that wait:", "extender simulate --pending"),
            ("Begin a configuration file:", "extender config show > extender.yaml"),
        ),
        exit_codes=(
            DONE,
            ("1", "What was looked for is not there, or is not as it should be; each command says more."),
            WRONG,
            INTERRUPTED,
        ),
        read_on=("README.md", "docs/install.md", "docs/configuration.md"),
    ),
    "serve": Page(
        examples=(
            ("The example cluster, on 127.0.0.1:8888, for people on :8889:", "extender serve"),
            ("A cluster from a file, which is read again when it changes:", "extender serve --cluster cluster.json"),
            ("A live cluster, with your kubeconfig:", "extender serve --kubernetes --context production"),
            ("In a pod, with its service account:", "extender serve --config extender.yaml --kubernetes"),
            ("Keep every call, to be replayed:", "extender serve --record recording"),
            (
                "One setting from the environment:",
                "EXTENDER_LOG__FORMAT=JSON extender serve --config extender.yaml",
            ),
        ),
        exit_codes=(
            ("0", "Ended by a signal."),
            (
                "2",
                (
                    "It cannot start: a setting, a file, a certificate or credentials are wrong, or an address is "
                    "taken. Or it cannot go on: it may not read the cluster. Standard error says what is wrong."
                ),
            ),
        ),
        environment=(CONFIG, EVERY_SETTING, KUBECONFIG),
        files=(
            CONFIG_FILE,
            CLUSTER_FILE,
            (
                "PEM files",
                (
                    "Certificates, keys and authorities, named by server.tls and admin.tls. With them HTTPS is spoken "
                    "and nothing else; they are read again when they change."
                ),
            ),
            A_RECORDING,
        ),
        signals=(
            (
                "SIGTERM",
                (
                    "/readyz says no at once, calls are still answered for server.drainTime (10s), then what is under "
                    "way is finished and the process ends. Another signal ends the waiting."
                ),
            ),
            ("SIGINT", "Ctrl-C: the same, without waiting for server.drainTime."),
        ),
        output=(
            (
                "standard output",
                "The audit lines: one of JSON for each /preempt and /bind (audit.enabled, audit.path).",
            ),
            ("standard error", "The log: text, or JSON with log.format: JSON."),
        ),
        read_on=("docs/install.md", "docs/configuration.md", "docs/cluster.md", "docs/audit.md", "docs/runbook.md"),
    ),
    "explain": Page(
        examples=(
            ("The latest decisions:", "extender explain"),
            ("Why was it evicted, or where does it fit?", "extender explain shop/cart-9"),
            ("Why not that node?", "extender explain shop/cart-9 --node worker-a1"),
            ("Preemptions of the last quarter of an hour:", "extender explain --verb preempt --since 15m"),
            ("From a recording, as JSON:", "extender explain preempt-17 --recording recording -o json"),
            (
                "Over HTTPS, through kubectl port-forward:",
                f"extender explain --url {ADMIN} --ca-file ca.crt {CONTINUED}--tls-server-name {SERVICE}",
            ),
        ),
        exit_codes=(
            DONE,
            ("1", "There is no such decision, or it does not speak of that node."),
            ("2", "The command line or a file is wrong, or nobody answers. Standard error says what."),
            INTERRUPTED,
        ),
        environment=(("EXTENDER_ADMIN_URL", "The admin listener, where --url does not name one."), NO_COLOR),
        files=(A_RECORDING,),
        read_on=("docs/explain.md", "docs/page.md"),
    ),
    "simulate": Page(
        examples=(
            ("The pods that wait in the cluster:", "extender simulate --pending"),
            (
                "A pod that does not exist yet, on a live cluster:",
                "kubectl run web --image web --dry-run=client -o yaml |\n  extender simulate --from-server --pod -",
            ),
            (
                "Two policies side by side:",
                f"extender simulate --cluster cluster.json.gz --pod pod.yaml {CONTINUED}--compare upstream strict",
            ),
            ("For a script:", "extender simulate --pod pod.yaml -o json"),
        ),
        environment=(CONFIG, EVERY_SETTING, KUBECONFIG, NO_COLOR),
        files=(CONFIG_FILE, CLUSTER_FILE, ("pod.yaml", "Manifests of pods, in YAML or JSON.")),
        read_on=("docs/simulate.md", "docs/policies.md"),
    ),
    "replay": Page(
        examples=(
            ("Are all answers still the same?", "extender replay recording"),
            ("What would other policies have answered?", "extender replay recording --preset careful --verb preempt"),
            ("One call:", "extender replay recording --id preempt-42 -o json"),
            (
                "A running service, for CI:",
                "extender replay recording --url http://127.0.0.1:8888 --junit replay.xml",
            ),
        ),
        exit_codes=(
            ("0", "All answers are the same."),
            ("1", "Some differ; each difference was printed."),
            ("2", "Something cannot be read, there is no such call, or the service does not answer."),
            INTERRUPTED,
        ),
        environment=(("EXTENDER_*", "With --config: every setting, over the file."), NO_COLOR),
        files=(A_RECORDING,),
        read_on=("docs/recordings.md",),
    ),
    "openapi": Page(
        examples=(
            ("Write the document of the scheduler's port:", "extender openapi --out openapi/openapi.json"),
            ("Is the file up to date?", "extender openapi --check openapi/openapi.json"),
            ("The same of the admin port:", "extender openapi --admin --check openapi/admin.json"),
        ),
        exit_codes=(DONE, ("1", "The file of --check is not up to date; what differs is printed."), WRONG, INTERRUPTED),
        environment=(),
        read_on=("docs/wire.md",),
    ),
    "cluster": Page(
        examples=(("Write the live cluster to a file:", "extender cluster dump --out cluster.json.gz"),),
        read_on=("docs/cluster.md",),
    ),
    "cluster dump": Page(
        examples=(
            ("The live cluster of your kubeconfig:", "extender cluster dump --out cluster.json.gz"),
            ("Of another context:", "extender cluster dump --context production --out cluster.json.gz"),
            ("And serve what was written:", "extender serve --cluster cluster.json.gz"),
        ),
        environment=(CONFIG, EVERY_SETTING, KUBECONFIG),
        files=(CONFIG_FILE, CLUSTER_FILE),
        read_on=("docs/cluster.md",),
    ),
    "config": Page(
        examples=(
            ("Begin a configuration file:", "extender config show > extender.yaml"),
            ("Before it is put in place:", "extender config check --config extender.yaml"),
        ),
        files=(CONFIG_FILE,),
        read_on=("docs/configuration.md",),
    ),
    "config show": Page(
        examples=(
            ("Every setting with its default:", "extender config show"),
            ("What a file comes to:", "extender config show --config extender.yaml"),
        ),
        files=(CONFIG_FILE,),
        read_on=("docs/configuration.md", "docs/policies.md"),
    ),
    "config check": Page(
        examples=(("Before it is put in place:", "extender config check --config extender.yaml"),),
        exit_codes=(
            ("0", "Valid."),
            ("2", "Not valid; every mistake is a line on standard error, with its place in the file."),
            INTERRUPTED,
        ),
        files=(CONFIG_FILE,),
        read_on=("docs/configuration.md",),
    ),
}
"""Command -> its page; "" is `extender` itself."""


# --- how it is printed ------------------------------------------------------------------------------------------------

_HARD = "\u2011"
"""A hyphen at which no line ends: `--ca-file` and kube-scheduler are one word."""


class Formatter(HelpFormatter):
    """Breaks lines at blanks only."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _HARD))

    def write_dl(self, rows: "Sequence[tuple[str, str]]", col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(name, said.replace("-", _HARD)) for name, said in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_HARD, "-")


class _Context(Context):
    formatter_class = Formatter


def write(page: Page, formatter: HelpFormatter) -> None:
    """The sections that the page has."""
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
        for number, (what, command) in enumerate(page.examples):
            if number:
                formatter.write_paragraph()
            formatter.write_text(what)
            formatter.write("".join(f"{'':{formatter.current_indent + 2}}{line}\n" for line in command.splitlines()))
    with formatter.section("Read on"):
        formatter.write_text(", ".join(page.read_on))


class Command(TyperCommand):
    """A command whose help ends with its page."""

    context_class = _Context

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        write(PAGES[name_of(ctx)], formatter)


class Group(TyperGroup):
    """A command of commands, the same."""

    context_class = _Context

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        write(PAGES[name_of(ctx)], formatter)


def name_of(ctx: Context) -> str:
    """Of the command, without `extender`."""
    if ctx.parent is None:
        return ""
    return f"{name_of(ctx.parent)} {ctx.info_name}".strip()
