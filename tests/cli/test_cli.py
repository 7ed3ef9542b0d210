"""The command line: what it prints, where, and with which exit code. `serve` itself is not started here."""

import json
import logging
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

import extender
from extender import cli
from extender.cli import options
from extender.cli.commands.serve import EXAMPLE_REQUEST, config_file, send_example_requests, startup_banner
from extender.cli.sources import cluster as cluster_source
from extender.cli.sources.cluster import open_cluster
from extender.cluster.cache.cache import ClusterCache
from extender.config import Configuration, load_config, render
from extender.config.serving import DebugSection
from extender.errors import ClusterFileError, ConfigError
from extender.server.app import create_app


def run(*arguments, env=None):
    return CliRunner().invoke(cli.app, arguments, env=env or {})


def run_main(monkeypatch, *arguments):
    """Run as the console entry point does; the exit code."""
    monkeypatch.setattr(sys, "argv", ["extender", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    for handler in logging.getLogger().handlers:
        handler.flush()
    return ended.value.code


def test_the_version_is_the_package_s():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"extender {extender.__version__}\n")


@pytest.mark.parametrize(
    "command", [(), ("serve",), ("config",), ("config", "show"), ("config", "check"), ("openapi",)]
)
def test_every_command_has_help(command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


def test_python_m_extender_is_the_same_command():
    result = subprocess.run([sys.executable, "-m", "extender", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"extender {extender.__version__}\n"


# --- config ---------------------------------------------------------------------------------------------------------


def test_config_show_prints_the_configuration_in_effect(tmp_path):
    path = tmp_path / "extender.yaml"
    path.write_text("server: {port: 1}")
    result = run("config", "show", "--config", str(path), env={"EXTENDER_SERVER__KEEP_ALIVE": "3m"})
    assert result.stdout == render(load_config(path, {"EXTENDER_SERVER__KEEP_ALIVE": "3m"}))


def test_the_configuration_file_may_be_named_by_the_environment(tmp_path):
    path = tmp_path / "extender.yaml"
    path.write_text("server: {port: 1234}")
    assert "port: 1234" in run("config", "show", env={"EXTENDER_CONFIG": str(path)}).stdout


def test_config_check_says_that_a_file_is_valid(tmp_path):
    path = tmp_path / "extender.yaml"
    path.write_text("server: {port: 1}")
    result = run("config", "check", "--config", str(path))
    assert (result.exit_code, result.stdout.splitlines()[:2]) == (
        0,
        [f"{path}: valid", "kube-scheduler 1.37; profiles: default-scheduler"],
    )


# --- config check ---------------------------------------------------------------------------------------------------


ENTRY = {"urlPrefix": "http://127.0.0.1:8888", "preemptVerb": "preempt", "nodeCacheCapable": True, "ignorable": True}


def written(path, *extenders, **top):
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path.write_text(json.dumps({**kind, "extenders": extenders, **top}, indent=1))
    return path


def check(*arguments, env=None):
    return run("config", "check", *map(str, arguments), env=env)


def test_config_check_compares_the_entry_of_kube_scheduler_with_ours(tmp_path):
    path = written(tmp_path / "scheduler-config.yaml", {**ENTRY, "httpTimeout": "1s", "nodeCacheCapable": False})
    result = check("--scheduler-config", path, "--scheduler-version", "1.33")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "the default configuration: valid",
        f"{path}: read",
        "kube-scheduler 1.33; profiles: default-scheduler",
        (
            f"error: {path}:10: extenders[0].httpTimeout: kube-scheduler gives up after 1s, but a response may "
            "take 4s (80 % of server.httpTimeout)"
        ),
        "    set server.httpTimeout to 1s",
        (
            f"warning: {path}:8: extenders[0].nodeCacheCapable: is false: kube-scheduler sends whole Node objects and "
            "pods, up to server.maxBodyBytes (128Mi)"
        ),
        "    nodeCacheCapable: true (docs/wire.md)",
        "1 error, 1 warning",
    ]


def test_config_check_without_a_finding_is_exit_code_0(tmp_path):
    path = written(tmp_path / "scheduler-config.yaml", ENTRY)
    result = check("--scheduler-config", path)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "0 errors, 0 warnings")
    assert check(env={"EXTENDER_SCHEDULER__CONFIG": str(path)}).stdout == result.stdout


def test_config_check_says_what_is_not_evaluated_and_which_gates_change_nothing(tmp_path):
    plugins = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    path = written(tmp_path / "scheduler-config.yaml", ENTRY, profiles=[{"schedulerName": "a", "plugins": plugins}])
    gates = {"EXTENDER_SCHEDULER__FEATURE_GATES": "{PodLevelResources: false, SchedulerQueueingHints: true}"}
    result = check("--scheduler-config", path, "--scheduler-version", "1.34", env=gates)
    shown = result.stdout.splitlines()
    assert shown[2:4] == [
        "kube-scheduler 1.34, PodLevelResources=false; profiles: a",
        "note: profile a: plugins that are not evaluated: Coscheduling",
    ]
    assert shown[4].startswith("note: ")
    assert "SchedulerQueueingHints" in shown[4]
    found = json.loads(check("--scheduler-config", path, "--scheduler-version", "1.34", "-o", "json", env=gates).stdout)
    assert found["profiles"] == [{"schedulerName": "a", "notEvaluatedPlugins": ["Coscheduling"]}]
    assert (found["version"], found["featureGates"]) == ("1.34", {"PodLevelResources": False})
    assert found["findings"] == []


def test_config_check_names_gates_that_all_beta_sets_and_that_are_not_followed(tmp_path):
    path = written(tmp_path / "scheduler-config.yaml", ENTRY)
    gates = {"EXTENDER_SCHEDULER__FEATURE_GATES": "{AllBeta: false}"}
    shown = check("--scheduler-config", path, "--scheduler-version", "1.32", env=gates).stdout.splitlines()
    assert [line for line in shown if line.startswith("note: ")] == [
        "note: feature gate SidecarContainers, which AllBeta sets, is not supported: its default is assumed"
    ]


ONLY_OLDER = [{"plugins": {"multiPoint": {"enabled": [{"name": "CinderLimits"}]}}}]
"""Profiles for 1.31: 1.32 no longer has this plugin."""


def test_config_check_tries_the_versions_and_names_the_one_that_it_checked(tmp_path, monkeypatch, capsys):
    path = written(tmp_path / "scheduler-config.yaml", ENTRY, profiles=ONLY_OLDER)
    shown = check("--scheduler-config", path)
    assert shown.exit_code == 0
    version = shown.stdout.splitlines()[2].split(";")[0].removeprefix("kube-scheduler ")
    assert version != "1.37"
    assert f"note: scheduler.version is auto: {version} is checked here, as 1.37 refuses this" in shown.stdout
    assert run_main(monkeypatch, "config", "check", "--scheduler-config", path, "--scheduler-version", "1.37") == 2
    assert "CinderLimits" in capsys.readouterr().err


def test_config_check_says_that_a_patch_is_not_known():
    shown = check("--scheduler-version", "1.36.99").stdout.splitlines()
    assert "note: 1.36.99 is not verified, so 1.36.5 is assumed" in shown


def test_serve_leaves_the_version_to_the_cluster(tmp_path, monkeypatch, capfd):
    path = written(tmp_path / "scheduler-config.yaml", ENTRY, profiles=ONLY_OLDER)
    monkeypatch.setattr(cluster_source, "connect_api_server", lambda _: sys.exit(7))
    serve = ("serve", "--kubernetes", "--scheduler-config", path)
    assert run_main(monkeypatch, *serve) == 7
    assert run_main(monkeypatch, *serve, "--scheduler-version", "1.37") == 2
    assert "CinderLimits" in capfd.readouterr().err
    monkeypatch.undo()
    assert run_main(monkeypatch, "serve", "--scheduler-config", path) == 2  # the example cluster has no kube-scheduler
    assert "scheduler.version is auto: no version was found, so 1.37 is assumed; 1.3" in capfd.readouterr().err


def test_config_check_asks_which_entry_is_ours(tmp_path, monkeypatch, capsys):
    path = written(tmp_path / "scheduler-config.yaml", ENTRY, {**ENTRY, "httpTimeout": "1s"})
    assert run_main(monkeypatch, "config", "check", "--scheduler-config", path) == 2
    assert capsys.readouterr().err == (
        f"extender: {path}: extenders: which is this one? "
        "--extender 0 (http://127.0.0.1:8888), or 1 (http://127.0.0.1:8888)\n"
    )
    assert check("--scheduler-config", path, "--extender", "0").exit_code == 0
    assert check("--scheduler-config", path, "--extender", "1").exit_code == 1
    assert run_main(monkeypatch, "config", "check", "--scheduler-config", path, "--extender", "7") == 2
    assert "--extender 7: no such entry of extenders: 0 (http" in capsys.readouterr().err
    assert check("--extender", "0").exit_code == 2


def test_a_kube_scheduler_that_does_not_call_us_is_a_warning_where_it_is_meant_to(tmp_path):
    path, ours = written(tmp_path / "scheduler-config.yaml"), tmp_path / "extender.yaml"
    ours.write_text("server: {port: 8888}")
    message = "extenders: no entry calls this extender: none has server.port 8888"
    asked = check("--scheduler-config", path)
    assert (asked.exit_code, f"note: {path}:4: {message}" in asked.stdout) == (0, True), asked.stdout
    for deployed in (
        check("--scheduler-config", path, "--config", ours),
        check("--scheduler-config", path, env={"EXTENDER_PREEMPTION__PRESET": "strict"}),
    ):
        assert (deployed.exit_code, f"warning: {path}:4: {message}" in deployed.stdout) == (1, True), deployed.stdout


def test_every_mistake_of_a_file_is_a_line_on_stderr_and_the_exit_code_2(tmp_path, monkeypatch, capsys):
    path = tmp_path / "extender.yaml"
    path.write_text("server: {prot: 1}\npreemption: {keepCandidates: 0}")
    code = run_main(monkeypatch, "config", "check", "--config", path)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"extender: {path}:1: server.prot: unknown key (did you mean port?)",
        f"extender: {path}:2: preemption.keepCandidates: must be a number from 1, or All",
    ]


def test_what_goes_well_ends_with_exit_code_0(monkeypatch):
    assert run_main(monkeypatch, "config", "check") == 0


# --- serve, as far as it goes without a socket ----------------------------------------------------------------------


def test_serve_refuses_a_cluster_that_cannot_be_read(tmp_path, monkeypatch, capfd):
    path = tmp_path / "cluster.json"
    path.write_text('{"kind": "Node", "metadata": {}}')
    code = run_main(monkeypatch, "serve", "--cluster", path)
    assert code == 2
    assert capfd.readouterr().err == (
        "extender: cluster.json: document 1: Node is invalid: metadata.name: Required value: "
        "name or generateName is required\n"
    )


def test_serve_refuses_to_listen_to_everybody_without_being_told_so(monkeypatch, capsys):
    assert run_main(monkeypatch, "serve", "--host", "0.0.0.0") == 2
    assert capsys.readouterr().err.startswith("extender: --host: server: 0.0.0.0 is not a loopback address")


def test_what_is_wrong_with_a_file_does_not_act_on_the_terminal(monkeypatch, capfd, tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(
        json.dumps({"kind": "Node", "metadata": {"name": "a\x1b[2J"}, "status": {"allocatable": {"cpu": "x"}}})
    )
    assert run_main(monkeypatch, "serve", "--cluster", path) == 2
    said = capfd.readouterr().err
    assert "\\x1b[2J" in said
    assert said.replace("\n", "").isprintable()


def opened(**cluster) -> Any:
    settings = Configuration(cluster=cluster)
    cache = ClusterCache()
    return settings, cache, open_cluster(settings, cache, None), None


def test_the_banner_of_the_example_has_a_request_to_try():
    lines = startup_banner(*opened()).splitlines()
    assert lines[0] == f"extender {extender.__version__} on http://127.0.0.1:8888"
    assert lines[1] == "health and metrics: http://127.0.0.1:8889/readyz, http://127.0.0.1:8889/metrics"
    assert lines[2] == "page: http://127.0.0.1:8889/ui"
    assert lines[3].startswith("cluster: the example: 12 nodes, 45 pods, 4 disruption budgets")
    body = lines[4].split("'")[3]
    assert json.loads(body) == EXAMPLE_REQUEST
    assert lines[4].endswith("http://127.0.0.1:8888/filter")
    assert "extender explain shop/cart-9   (" in lines[5]


def test_the_banner_names_no_page_where_there_is_none():
    settings, cache, *rest = opened()
    settings = settings.model_copy(update={"debug": DebugSection(enabled=False)})
    assert "/ui" not in startup_banner(settings, cache, *rest)
    assert "explain" not in startup_banner(settings, cache, *rest)
    assert "http://127.0.0.1:8889/readyz" in startup_banner(settings, cache, *rest)


def test_the_example_has_been_asked_about_before_anybody_asks():
    """So that the page, and `extender explain`, have something to show."""
    settings, cache, *_ = opened()
    server_context = create_app(cache, settings).server_context
    send_example_requests(server_context)
    kept = server_context.decisions.newest_first()
    assert [(one.id, one.pod.identity.key, one.mode) for one in kept] == [
        ("preempt-1", "shop/cart-9", "answered"),
        ("filter-1", "shop/cart-9", "answered"),
    ]
    assert kept[0].summary.chosen == ["worker-b1"]


def test_the_request_to_try_names_nodes_of_the_example():
    _, cache, *_ = opened()
    assert set(EXAMPLE_REQUEST["NodeNames"]) <= set(cache.snapshot().node_names)


def test_the_banner_of_a_file_says_what_was_left_out_and_that_there_is_no_node(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": [{"kind": "Secret"}, {"kind": "Secret"}, {"kind": "Job"}]}))
    assert startup_banner(*opened(path=str(path))).splitlines()[3:] == [
        f"cluster: {path}: 0 nodes, 0 pods, 0 disruption budgets",
        "ignored, not used by any decision: 1 Job, 2 Secret",
        "warning: the cluster has no nodes, so every call that names a node will be refused",
    ]


def test_H7_the_banner_names_some_of_very_many_kinds(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": [{"kind": f"Kind{number:03}"} for number in range(300)]}))
    line = startup_banner(*opened(path=str(path))).splitlines()[4]
    assert line.startswith("ignored, not used by any decision: 1 Kind000, 1 Kind001, ")
    assert line.endswith(", 1 Kind049 and 250 more")


def test_an_ipv6_address_stands_in_brackets():
    settings = Configuration(server={"host": "::1"})
    _, cache, source, _ = opened()
    assert startup_banner(settings, cache, source, None).splitlines()[0].endswith("http://[::1]:8888")


TLS_FILES = {"certificate": "tls.crt", "key": "tls.key"}


def test_the_banner_says_where_https_is_spoken_and_how_to_ask_there():
    settings = Configuration(server={"tls": TLS_FILES}, admin={"port": 9443, "tls": TLS_FILES})
    _, cache, source, _ = opened()
    said = startup_banner(settings, cache, source, None)
    assert said.splitlines()[0].endswith("on https://127.0.0.1:8888")
    assert "page: https://127.0.0.1:9443/ui\n" in said
    assert "extender explain shop/cart-9 --url https://127.0.0.1:9443 " in said


@pytest.mark.parametrize(("host", "local"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("10.1.2.3", "10.1.2.3")])
def test_the_banner_names_addresses_that_can_be_asked(host, local):
    everywhere = {"host": host, "allow_plain_http": True}
    _, cache, source, _ = opened()
    said = startup_banner(Configuration(server=everywhere, admin=everywhere), cache, source, None).splitlines()
    assert said[0].endswith(f"on http://{f'[{host}]' if ':' in host else host}:8888")
    assert said[1] == f"health and metrics: http://{local}:8889/readyz, http://{local}:8889/metrics"
    assert said[4].endswith(f" http://{local}:8888/filter")


@pytest.mark.parametrize(("debug", "is_said"), [({}, True), ({"allow_remote": True}, False)], ids=["closed", "open"])
def test_the_banner_says_that_the_page_is_not_for_everybody_who_reaches_it(debug, is_said):
    settings = Configuration(admin={"host": "0.0.0.0", "allow_plain_http": True}, debug=debug)
    _, cache, source, _ = opened()
    assert ("for callers from 127.0.0.1 or ::1 only" in startup_banner(settings, cache, source, None)) == is_said


# --- the configuration file while it runs ---------------------------------------------------------------------------


def test_the_file_is_read_again_under_the_same_environment_and_options(tmp_path, monkeypatch):
    monkeypatch.setenv("EXTENDER_SCHEDULER__VERSION", "1.33")
    path = tmp_path / "extender.yaml"
    path.write_text('server: {port: 1}\nscheduler: {version: "1.30"}')
    file = config_file(path, Configuration(), {"--port": ("server.port", 2)})
    assert file is not None
    path.write_text("server: {port: 3}\nmode: Observe")
    again = file.load()
    assert (again.server.port, again.scheduler.version, again.mode) == (2, "1.33", "Observe")


def test_without_a_file_there_is_nothing_to_follow():
    assert config_file(None, Configuration(), {}) is None


def test_a_file_of_kube_scheduler_is_followed_without_one_of_ours():
    settings = Configuration.model_validate({"scheduler": {"config": "scheduler-config.yaml"}})
    file = config_file(None, settings, options.scheduler_options("scheduler-config.yaml", None))
    assert file is not None
    assert (file.path, file.load()) == (None, settings)


# --- openapi --------------------------------------------------------------------------------------------------------


def test_the_document_is_written_sorted_and_is_then_up_to_date(tmp_path):
    path = tmp_path / "openapi.json"
    assert run("openapi", "--out", str(path)).exit_code == 0
    text = path.read_text()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    assert "/filter" in json.loads(text)["paths"]
    assert run("openapi", "--check", str(path)).exit_code == 0


def test_a_document_that_differs_is_told_with_the_difference_and_exit_code_1(tmp_path):
    path = tmp_path / "openapi.json"
    run("openapi", "--out", str(path))
    path.write_text(path.read_text().replace('"/filter"', '"/sieve"'))
    result = run("openapi", "--check", str(path))
    assert result.exit_code == 1
    assert '-    "/sieve": {' in result.stderr
    assert '+    "/filter": {' in result.stderr
    assert result.stderr.endswith(f"{path} is out of date: run `extender openapi --out {path}`\n")


def test_a_document_that_does_not_exist_is_not_up_to_date(tmp_path):
    result = run("openapi", "--check", str(tmp_path / "none.json"))
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) < 25


@pytest.mark.parametrize("arguments", [(), ("--out", "a", "--check", "b")], ids=["neither", "both"])
def test_openapi_takes_one_of_out_and_check(arguments):
    assert run("openapi", *arguments).exit_code == 2


def test_a_place_that_cannot_be_written_is_one_line(tmp_path, monkeypatch, capsys):
    assert run_main(monkeypatch, "openapi", "--out", tmp_path / "no" / "such" / "folder.json") == 2
    assert capsys.readouterr().err.startswith("extender: [Errno 2] No such file or directory")


@pytest.mark.parametrize("error", [ConfigError("one\ntwo"), ClusterFileError("one\ntwo")])
def test_any_error_of_ours_is_printed_line_by_line(monkeypatch, capsys, error):
    def fail(_arguments, prog_name):
        raise error

    monkeypatch.setattr(cli, "app", fail)
    assert run_main(monkeypatch) == 2
    assert capsys.readouterr().err == "extender: one\nextender: two\n"
