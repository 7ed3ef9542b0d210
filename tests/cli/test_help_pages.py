"""What --help says: of every command, in 80 columns, and true."""

import gzip
import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from extender import cli
from extender.config.load import OTHER_VARIABLES
from tests.builders import cluster, incoming, node, pod

ROOT = Path(__file__).parents[2]


def of(group, *names):
    """(names, command) of the group and of all below it."""
    yield names, group
    for name, command in getattr(group, "commands", {}).items():
        yield from of(command, *names, name)


COMMANDS = {" ".join(names): command for names, command in of(typer.main.get_command(cli.app))}
EACH = pytest.mark.parametrize("command", COMMANDS, ids=lambda name: name or "extender")


def run(*arguments, **env):
    """At the width of a terminal, without colours."""
    return CliRunner().invoke(cli.app, arguments, env={"TERM": "dumb", **env}, prog_name="extender")


def help_of(command, width=80):
    done = run(*command.split(), "--help", COLUMNS=str(width))
    assert done.exit_code == 0
    return done.stdout


# --- how it looks -----------------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("width", [80, 120])
def test_help_is_plain_text_of_at_most_80_columns_in_which_no_word_is_broken(command, width):
    lines = help_of(command, width).splitlines()
    assert max(map(len, lines)) <= 80
    assert not [
        line for line in lines if re.search(r"\w-$|…$|\.\.\.$|[\x00-\x1f\x7f\u2011]", line) and "ARGS" not in line
    ]


@EACH
def test_help_says_what_a_command_does_then_examples_the_pages_to_read_on_and_the_options(command):
    text = help_of(command)
    titles = re.findall(r"^ *(Usage|\w+(?=:$)|See(?= \S+\.md))", text, re.MULTILINE)
    assert [title for title in titles if title not in ("Arguments", "Commands")] == [
        "Usage",
        "Examples",
        "See",
        "Options",
    ]
    assert text.startswith(f"Usage: extender {command}".rstrip())
    assert 1 <= len(examples_of(command)) <= 4


@EACH
def test_every_option_says_what_it_does_and_what_it_takes(command):
    context = typer.Context(COMMANDS[command])
    for option in COMMANDS[command].get_params(context):
        shown = option.get_help_record(context)
        assert shown is not None, option.name
        names, text = shown
        assert len(re.sub(r"\[.*\]$", "", text).strip()) > 8, option.name
        is_choice = re.search(r"<\w+(\|\w+)+>", names)
        is_named = option.metavar is not None and re.fullmatch(r"[A-Z/|]+( [A-Z]+)*", option.metavar)
        assert getattr(option, "is_flag", False) or is_choice or is_named, option.name


def test_a_wrong_option_is_said_in_plain_text_with_the_exit_code_2():
    done = run("serve", "--prot", "1")
    assert done.exit_code == 2
    assert "No such option: --prot" in done.stderr
    assert "╭" not in done.stderr


@pytest.mark.parametrize(
    ("words", "completed"),
    [("extender expl", ["explain"]), ("extender explain --verb p", ["prioritize", "preempt"])],
)
def test_a_shell_can_complete_commands_options_and_values(words, completed):
    env = {"_EXTENDER_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    assert run(**env).stdout.split() == completed


# --- whether it is true -----------------------------------------------------------------------------------------------


def commands_of(text):
    """Arguments of every call of `extender` in some lines of shell."""
    for line in text.replace("\\\n", " ").replace("|\n", "| ").splitlines():
        for part in line.split("#")[0].split(" | "):
            words = shlex.split(part, posix=True)
            while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
                del words[0]
            if words and words[0] == "extender":
                yield words[1 : words.index(">")] if ">" in words else words[1:]


def examples_of(command):
    """Arguments of every example of a command, each below a comment with its purpose."""
    block = re.search(r"^  Examples:\n((?:    .*\n)+)", help_of(command), re.MULTILINE)
    assert block is not None
    purposes, lines = block[1].splitlines()[::2], block[1].splitlines()[1::2]
    assert all(re.match(r"    # [A-Z]", purpose) for purpose in purposes), purposes
    found = [list(commands_of(line)) for line in lines]
    assert all(len(one) == 1 for one in found), lines
    return [one[0] for one in found]


EXAMPLES = [arguments for command in COMMANDS for arguments in examples_of(command)]


@pytest.mark.parametrize("arguments", EXAMPLES, ids=" ".join)
def test_an_example_is_a_command_line_that_is_understood(arguments):
    names = [" ".join(arguments[:count]) for count in (2, 1)]
    name = next(name for name in names if name in COMMANDS)
    context = COMMANDS[name].make_context(name, list(arguments[len(name.split()) :]))
    assert not context.args


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Those that the examples name."""
    dump = cluster({node("n1"): [pod("a", priority=1)]}, waiting=[incoming("b")])
    (tmp_path / "cluster.json.gz").write_bytes(gzip.compress(json.dumps(dump).encode()))
    (tmp_path / "pod.yaml").write_text(json.dumps(incoming("c")))
    (tmp_path / "extender.yaml").write_text("server: {port: 1}")
    entry = {"urlPrefix": "http://127.0.0.1:8888", "preemptVerb": "preempt", "nodeCacheCapable": True}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (tmp_path / "scheduler-config.yaml").write_text(json.dumps({**kind, "extenders": [entry]}))
    (tmp_path / "openapi").mkdir()
    monkeypatch.chdir(tmp_path)


ALONE = [one for one in EXAMPLES if one[0] in ("simulate", "config", "openapi")]


@pytest.mark.parametrize("arguments", ALONE, ids=" ".join)
def test_an_example_that_needs_no_service_and_no_cluster_works(arguments, files):
    if arguments[0] == "simulate" and "--example" not in arguments:
        arguments = [*arguments, "--example"]  # instead of a live cluster
    if "--check" in arguments:
        written = ["--out" if word == "--check" else word for word in arguments]
        assert run(*written).exit_code == 0
    assert run(*arguments).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["explain", "--url", "http://127.0.0.1:1"], 2),
        (["explain", "--recording", "nowhere"], 2),
        (["simulate", "--pod", "nowhere.yaml"], 2),
        (["simulate"], 2),
        (["replay", "nowhere"], 2),
        (["openapi", "--check", "nowhere.json"], 1),
        (["openapi"], 2),
        (["cluster", "dump", "--out", "here.json", "--cluster", "nowhere.json"], 2),
        (["config", "show", "--config", "nowhere.yaml"], 2),
        (["config", "check", "--config", "nowhere.yaml"], 2),
        (["serve", "--config", "nowhere.yaml"], 2),
        (["serve", "--port", "many"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_what_is_wrong_ends_with_its_exit_code_and_a_message(arguments, code, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["extender", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    assert capsys.readouterr().err


@EACH
def test_the_pages_to_read_on_exist(command):
    pages = re.findall(r"\S+\.md", " ".join(help_of(command).split("See ")[1].split()))
    assert pages
    assert [page for page in pages if not (ROOT / page).is_file()] == []


@EACH
def test_the_variables_of_the_environment_are_documented(command):
    pages = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    for option in COMMANDS[command].get_params(typer.Context(COMMANDS[command])):
        assert option.envvar is None or (option.envvar in OTHER_VARIABLES and f"`{option.envvar}`" in pages)


def test_the_documentation_names_no_option_that_does_not_exist():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))]
    words = "|".join(sorted(filter(None, COMMANDS), key=len, reverse=True))
    found = [(match[1], option) for text in texts for match in re.finditer(rf"\bextender ({words})\b([^`\n]*)", text)
             for option in re.findall(r"(?<!\S)--[a-z][a-z-]+", match[2].split("|")[0])]  # fmt: skip
    assert len(found) > 20
    for command, option in found:
        known = {name for one in COMMANDS[command].params for name in (*one.opts, *one.secondary_opts)}
        assert option in known, f"extender {command} {option}"
