"""extender explain --from: every decision that is in an audit log, and how many records are missing or may be."""

import bz2
import contextlib
import gzip
import json
import lzma
import re
import signal
import subprocess
import sys
import tracemalloc
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from extender import cli
from extender.cli.sources import audit_files
from extender.cli.sources.decision_source import DecisionListOptions
from extender.cluster.cache.cache import ClusterCache
from extender.cluster.files.manifests import example_cluster
from extender.k8s.time import MINUTE, format_time, parse_time
from extender.report.audit.schema import AuditGap, AuditProcess, BindLine, BrokenLine, PreemptLine
from extender.server.app import create_app
from extender.server.observability.audit_log import AuditLog
from tests.server.conftest import client_for, configuration
from tests.server.processes import LIMIT, Process

POD = {
    "metadata": {"name": "cart-9", "namespace": "shop", "uid": "cart-9"},
    "spec": {
        "priority": 100000,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "3", "memory": "4Gi"}}}],
    },
}
VICTIM = "51a58faf-51dd-4f2e-bab8-091e79e90057"
BODY = json.dumps(
    {"Pod": POD, "NodeNameToMetaVictims": {"worker-b1": {"Pods": [{"UID": VICTIM}], "NumPDBViolations": 0}}}
)
START = parse_time("2026-03-01T12:00:00Z")


# --- services as processes --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def service(path: Path, **given: Any):
    with contextlib.closing(Process(AUDIT__PATH=str(path), **given)) as process:
        yield process


def preempt(process: Process) -> str:
    """The ID of the decision."""
    with contextlib.closing(process.connection()) as connection:
        connection.request("POST", "/preempt", BODY, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        assert response.status == 200
        return response.headers["X-Extender-Decision"]


def dropped(process: Process) -> int:
    with contextlib.closing(process.connection("admin")) as connection:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    found = re.search(r"^extender_audit_dropped_total (\d+)", text, re.MULTILINE)
    assert found is not None
    return int(found[1])


def stop(process: Process) -> None:
    process.say(signal.SIGINT)
    assert process.ends() == 0


def run(*arguments: str, given: bytes | None = None) -> Any:
    return CliRunner().invoke(cli.app, ["explain", *arguments], input=given, env={"COLUMNS": "80", "NO_COLOR": "1"})


def explain(*arguments: str, given: bytes | None = None) -> str:
    done = run(*arguments, given=given)
    assert done.exit_code == 0, done.output
    return done.stdout


def read(*arguments: str, given: bytes | None = None) -> Any:
    """The JSON, of the documented types."""
    report = json.loads(explain(*arguments, "-o", "json", given=given))
    msgspec.convert(report["processes"], list[AuditProcess], strict=True)
    msgspec.convert(report.get("broken", []), list[BrokenLine], strict=True)
    for one in report["decisions"]:
        msgspec.convert(one["record"], BindLine if one["record"]["verb"] == "bind" else PreemptLine, strict=True)
    return report


def ids(report: Any) -> list[str]:
    """IDs of the decisions, the oldest first."""
    return [one["record"]["id"] for one in reversed(report["decisions"])]


def test_a_log_of_a_process_that_was_killed_holds_every_decision_and_its_tail_may_be_missing(tmp_path):
    log = tmp_path / "audit.log"
    with service(log) as process:
        made = [preempt(process) for _ in range(3)]
        process.say(signal.SIGKILL)
        process.ends()
    report = read("--from", str(log))
    assert ids(report) == made
    (killed,) = report["processes"]
    assert (killed["end"], killed["records"], killed.get("missing", 0)) == ("open", 4, 0)
    assert "no stop record" in (text := explain("--from", str(log)))
    assert "may be missing" in text

    # The service starts again, and stops as it should: nothing more may be missing, but of the first process.
    with service(log) as process:
        made.append(preempt(process))
        stop(process)
    report = read("--from", str(log))
    assert ids(report) == made
    assert [one["end"] for one in report["processes"]] == ["open", "stopped"]
    assert len({one["process"] for one in report["processes"]}) == 2


def test_a_log_on_a_full_disk_holds_what_fitted_and_says_how_many_are_missing_and_why(tmp_path):
    log = tmp_path / "logs" / "audit.log"
    log.parent.mkdir()
    with service(log, prefix=("bash", "-c", 'ulimit -f 4; exec "$@"', "bash")) as process:
        made = [preempt(process) for _ in range(20)]
        lost = dropped(process)
        there = len(made) - lost
        assert 0 < there < 20
        before = read("--from", str(log))
        assert ids(before) == made[:there]
        assert before["processes"][0]["end"] == "open"
        (torn,) = before["broken"]
        assert (torn["file"], torn["line"]) == (str(log), there + 2)  # after the start
        log.rename(log.with_suffix(".log.1"))  # there is room again
        made.append(preempt(process))
        assert dropped(process) == lost
        stop(process)
    report = read("--from", str(log.parent))
    assert ids(report) == [*made[:there], made[-1]]
    (one,) = report["processes"]
    assert (one["end"], one["missing"], one["records"]) == ("stopped", lost, there + 3)
    (gap,) = one["gaps"]
    assert (gap["missing"], gap["reason"]) == (lost, "File too large")
    times = [line["timestamp"] for line in map(json.loads, log.read_text().splitlines())]
    assert gap["before"] == times[0]  # of auditLost
    text = explain("--from", str(log.parent))
    assert f"{lost} records missing: {lost} between {gap['after']} and {gap['before']} (File too large)" in text
    assert f"{torn['file']}.1 line {torn['line']}" in text
    # The process's own log counts them all, too.
    assert sum(int(n) for line in process.lines for n in re.findall(r"audit: dropped (\d+) lines", line)) == lost


@pytest.mark.slow
def test_what_a_full_disk_took_until_the_stop_is_logged_in_full_and_the_tail_is_said_to_be_missing(tmp_path):
    log = tmp_path / "audit.log"
    with service(log, prefix=("bash", "-c", 'ulimit -f 4; exec "$@"', "bash")) as process:
        made = [preempt(process) for _ in range(20)]
        stop(process)
    report = read("--from", str(log))
    there = len(report["decisions"])
    assert ids(report) == made[:there]
    assert report["processes"][0]["end"] == "open"
    counted = sum(int(n) for line in process.lines for n in re.findall(r"audit: dropped (\d+) lines", line))
    assert counted == 20 - there + 1  # and the stop


def test_a_rotated_log_is_read_whole_in_any_order_and_a_file_that_was_removed_is_missing(tmp_path):
    log, old = tmp_path / "logs" / "audit.log", [tmp_path / "logs" / f"audit.log.{number}" for number in (1, 2, 3)]
    log.parent.mkdir()
    made = []
    with service(log) as process:
        for number in range(4):
            made += [preempt(process) for _ in range(number + 1)]
            if number < 3:  # as logrotate does
                for place in (1, 0):
                    if old[place].exists():
                        old[place].rename(old[place + 1])
                log.rename(old[0])
        stop(process)
    oldest = Path(f"{old[2]}.gz")
    oldest.write_bytes(gzip.compress(old[2].read_bytes()))
    old[2].unlink()
    report = read("--from", str(log.parent))
    assert (ids(report), report["files"]) == (made, 4)
    (one,) = report["processes"]
    assert (one["records"], one["end"]) == (12, "stopped")
    assert not {"missing", "earlier", "gaps"} & one.keys()
    assert "missing:" not in explain("--from", str(log.parent))
    # Newest first, as a shell lists them, and one of them twice: each record counts once.
    again = read(*(word for file in (log, old[0], old[1], old[1], oldest) for word in ("--from", str(file))))
    assert ids(again) == made
    assert (again["processes"][0]["records"], again["processes"][0]["repeated"]) == (12, 2)

    old[1].unlink()
    report = read("--from", str(log.parent))
    assert ids(report) == made[:1] + made[3:]
    (gap,) = report["processes"][0]["gaps"]
    assert (gap["missing"], gap.get("reason", "")) == (2, "")
    assert "removed or broken later" in explain("--from", str(log.parent))

    oldest.unlink()
    assert read("--from", str(log.parent))["processes"][0]["earlier"] == 4


@pytest.mark.anyio
async def test_why_a_pod_was_evicted_when_by_which_pod_on_which_node_under_which_budgets_and_policies(tmp_path):
    log, cache = tmp_path / "audit.log", ClusterCache()
    cache.replace(example_cluster())
    app = create_app(cache, configuration(audit={"path": str(log)}, preemption={"keepCandidates": "All"}))
    async with app.lifespan(), client_for(app) as client:
        made = (await client.post("/preempt", content=BODY)).headers["X-Extender-Decision"]
    record = read("--from", str(log))["decisions"][0]["record"]
    (victim,) = record["kept"][0]["victims"]
    for subject in ("batch/etl-3-4vmms", "etl-3-4vmms", VICTIM):
        text = explain(subject, "--from", str(log))
        assert text.startswith(f"{made} evicts batch/etl-3-4vmms from worker-b1 for shop/cart-9\n")
        for said in (
            record["timestamp"][:19].replace("T", " "),
            record["process"],
            "shop/cart-9, priority 100000, UID cart-9",
            f"batch/etl-3-4vmms, priority {victim['priority']}, UID {VICTIM}",
            "keepCandidates: All",
            *(f"{one['name']}, disruptions allowed: {one['before']} before" for one in record["kept"][0]["budgets"]),
        ):
            assert said in text, said
    report = read("shop/cart-9", "--from", str(log))
    assert [one["role"] for one in report["decisions"]] == ["preemptor"]
    for subject in (made, f"{record['process']}/{made}"):
        assert ids(read(subject, "--from", str(log))) == [made]


def test_a_question_to_an_audit_log_loads_neither_the_engine_nor_the_server(tmp_path):
    (tmp_path / "audit.log").write_bytes(lines(record(1)))
    script = "import sys; from extender.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script, "explain", "--from", str(tmp_path / "audit.log")],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert "preempt-1" in done.stdout
    loaded = set(done.stderr.split())
    assert not loaded & {"numpy", "fastapi", "prometheus_client", "extender.core.engine", "extender.k8s.objects"}


# --- what a log may hold ----------------------------------------------------------------------------------------------


def record(sequence: int | None, process: str = "a_1", minute: int = 0, **more: Any) -> dict[str, Any]:
    """A preemption that evicts `shop/web-N` from worker-N for shop/cart-9; without a number, of an older version."""
    number = 0 if sequence is None else sequence
    victim = {
        "namespace": "shop",
        "name": f"web-{number}",
        "uid": f"uid-{number}",
        "priority": 1,
        "budgets": ["shop/b"],
    }
    budget = {"name": "shop/b", "before": 0, "after": -1}
    node = {"node": f"worker-{number}", "victims": [victim], "numPDBViolations": 1, "budgets": [budget]}
    numbered = {} if sequence is None else {"process": process, "sequence": sequence}
    preemptor = {"namespace": "shop", "name": "cart-9", "uid": "u", "priority": 9, "schedulerName": "default-scheduler"}
    return {
        "event": "audit",
        "timestamp": format_time(START + number * 10**9 + minute * MINUTE, 6),
        **numbered,
        "id": f"preempt-{number}",
        "verb": "preempt",
        "mode": "answered",
        "status": 200,
        "answer": "decided",
        "milliseconds": 1.0,
        "preemptor": preemptor,
        "kept": [node],
        "cache": {"version": 1},
        **more,
    }


def binding(sequence: int, **more: Any) -> dict[str, Any]:
    kept = {key: one for key, one in record(sequence).items() if key not in ("answer", "preemptor", "kept", "cache")}
    pod = {"namespace": "shop", "name": "web-0", "uid": "uid-bound"}
    return {
        **kept,
        "id": f"bind-{sequence}",
        "verb": "bind",
        "pod": pod,
        "node": "worker-1",
        "outcome": "bound",
        **more,
    }


def mark(event: str, sequence: int, process: str = "a_1", minute: int = 0) -> dict[str, Any]:
    time = format_time(START + sequence * 10**9 + minute * MINUTE, 6)
    return {"event": event, "timestamp": time, "process": process, "sequence": sequence, "version": "0.1.0"}


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in records)


WHOLE = [mark("auditStarted", 0), *map(record, (1, 2, 3)), mark("auditStopped", 4)]


@pytest.fixture
def log(tmp_path):
    """Writes an audit log, and returns the options that read it."""

    def write(*records: dict[str, Any] | bytes, name: str = "audit.log") -> list[str]:
        path = tmp_path / name
        path.write_bytes(b"".join(one if isinstance(one, bytes) else lines(one) for one in records))
        return ["--from", str(path)]

    return write


def test_a_whole_log_is_listed_the_latest_first_and_nothing_is_missing(log):
    report = read(*log(*WHOLE))
    assert ids(report) == ["preempt-1", "preempt-2", "preempt-3"]
    assert [one["sentence"] for one in report["decisions"]][-1] == (
        "preempt-1 evicts shop/web-1 from worker-1 for shop/cart-9"
    )
    (one,) = report["processes"]
    assert one == {
        "process": "a_1",
        "begin": "2026-03-01T12:00:00.000000Z",
        "last": "2026-03-01T12:00:04.000000Z",
        "end": "stopped",
        "records": 5,
        "next": 5,
    }
    listed = [line.split() for line in explain(*log(*WHOLE)).splitlines()[:3]]
    assert [line[3] for line in listed] == ["preempt-3", "preempt-2", "preempt-1"]


def test_two_replicas_and_a_restart_are_told_apart(log):
    one = log(*WHOLE, name="a")
    other = log(mark("auditStarted", 0, "b_1"), record(1, "b_1", 1), name="b")
    again = log(mark("auditStarted", 0, "a_2", 2), record(2, "a_2", 2), mark("auditStopped", 3, "a_2", 2), name="c")
    report = read(*other, *one, *again)
    assert [(one["process"], one["end"], one.get("missing", 0)) for one in report["processes"]] == [
        ("a_1", "stopped", 0),
        ("b_1", "open", 0),
        ("a_2", "stopped", 1),
    ]
    # An ID is not unique: the latest is shown, and the process selects another one.
    assert [one["record"]["process"] for one in read("preempt-1", *one, *other)["decisions"]] == ["b_1", "a_1"]
    assert [one["record"]["process"] for one in read("a_1/preempt-1", *one, *other)["decisions"]] == ["a_1"]


def test_of_several_decisions_about_a_pod_its_latest_eviction_is_explained_and_the_others_listed(log):
    cart = {"namespace": "shop", "name": "web-1", "uid": "uid-other", "priority": 9, "schedulerName": "x"}
    options = log(
        record(1), binding(2, pod={"namespace": "shop", "name": "web-1", "uid": "v"}), record(3, preemptor=cart)
    )
    text = explain("shop/web-1", *options)
    assert text.startswith("preempt-1 evicts shop/web-1 from worker-1 for shop/cart-9\n")
    others = text.split("other decisions about it")[1]
    assert others.index("preempt-3") < others.index("bind-2 binds shop/web-1 to worker-1")
    report = read("shop/web-1", *options)
    assert [one["role"] for one in report["decisions"]] == ["victim", "preemptor", "bound"]


def test_a_victim_on_a_node_that_is_not_the_best_has_its_own_node(log):
    one, other = record(1)["kept"][0], record(2)["kept"][0]
    (decision,) = read("web-2", *log(record(1, kept=[one, other])))["decisions"]
    assert decision["node"] == "worker-2"
    assert decision["sentence"] == (
        "preempt-1 evicts shop/web-2 from worker-2 for shop/cart-9; kube-scheduler chooses among 2 nodes"
    )


def test_of_many_victims_the_pod_that_was_asked_for_is_named_first(log):
    victims = [record(number)["kept"][0]["victims"][0] for number in range(1, 9)]
    (decision,) = read("web-7", *log(record(1, kept=[{**record(1)["kept"][0], "victims": victims}])))["decisions"]
    assert decision["sentence"] == (
        "preempt-1 evicts shop/web-7, shop/web-1, shop/web-2 and 5 more from worker-1 for shop/cart-9"
    )


def test_an_eviction_comes_before_a_later_one_that_was_only_observed(log):
    options = log(record(1), record(2, mode="observed", kept=record(1)["kept"]))
    assert explain("web-1", *options).startswith("preempt-1 evicts shop/web-1")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"mode": "observed"}, "would evict shop/web-1 from worker-1 for shop/cart-9"),
        ({"kept": [], "vetoed": "a limit"}, "evicts no pod for shop/cart-9: a limit"),
        ({"kept": [], "dropped": {"too small": ["a", "b"]}}, "evicts no pod for shop/cart-9: too small (2 nodes)"),
        ({"kept": [], "mode": "failed", "error": "stale"}, "evicts no pod for shop/cart-9: stale"),
        (
            {"kept": [], "mode": "passthrough"},
            "evicts no pod for shop/cart-9: passthrough: nothing was decided",
        ),
        (
            {"kept": [], "mode": "failed", "error": "overload", "preemptor": None},
            "for a pod whose request was not read",
        ),
    ],
)
def test_a_sentence_says_what_became_of_a_preemption(log, more, sentence):
    given = {key: value for key, value in record(1, **more).items() if value is not None}
    (decision,) = read(*log(given))["decisions"]
    assert sentence in decision["sentence"]


def test_a_binding_that_failed_says_why(log):
    (decision,) = read("web-0", *log(binding(1, outcome="refused", error="another UID")))["decisions"]
    assert decision["sentence"] == "bind-1 does not bind shop/web-0 to worker-1: another UID"


def test_an_older_log_is_read_and_says_that_gaps_cannot_be_seen(log):
    report = read("cart-9", *log(record(None), record(None, minute=1)))
    assert len(report["decisions"]) == 2
    assert [(one["end"], one["records"]) for one in report["processes"]] == [("unknown", 2)]
    assert "missing records cannot be seen" in explain("cart-9", *log(record(None)))


PREFIXES = {
    "kubectl logs --prefix": b"[pod/extender-7d9f8-x2b1c/extender] ",
    "kubectl logs --timestamps": b"2026-03-01T12:00:00.051575000Z ",
    "kubectl logs --prefix --timestamps": b"[pod/extender-7d9f8-x2b1c/extender] 2026-03-01T12:00:00.051575000Z ",
    "containerd": b"2026-03-01T12:00:00.051575000Z stdout F ",
    "a damaged start": b"\0\0\0",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_records_are_found_behind_a_prefix(log, prefix):
    report = read(*log(*(prefix + lines(one) for one in WHOLE)))
    assert len(report["decisions"]) == 3
    assert "otherLines" not in report


def cri(text: bytes, *, tags: str = "", stream: str = "stdout") -> list[bytes]:
    """The lines of a file of containerd or CRI-O; parts of 16 kB have the tag P."""
    parts = [text[start : start + 16384] for start in range(0, len(text), 16384)]
    heads = [f"2026-03-01T12:00:00.051575000Z {stream} {tag}{tags} ".encode() for tag in "P" * (len(parts) - 1) + "F"]
    return [head + part + b"\n" for head, part in zip(heads, parts, strict=True)]


def docker(text: bytes, *, stream: str = "stdout") -> list[bytes]:
    """The lines of a file of Docker's json-file driver; the text of the last part ends with a line break."""
    text += b"\n"
    parts = [text[start : start + 16384].decode() for start in range(0, len(text), 16384)]
    time = "2026-03-01T12:00:00.051575Z"
    return [json.dumps({"log": one, "stream": stream, "time": time}).encode() + b"\n" for one in parts]


LONG: dict[str, Any] = {
    "dropped": {"another node is the better candidate": [f"worker-{number}" for number in range(5000)]}
}
"""More than 64 kB of a record."""


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("write", [cri, docker, partial(cri, tags=":x")], ids=["containerd", "json-file", "more tags"])
def test_records_that_a_container_runtime_split_are_joined_also_between_lines_of_the_other_stream(log, write, end):
    records = [WHOLE[0], record(1, **LONG), record(2), record(3, **LONG), WHOLE[-1]]
    other = write(b"I0301 klog " + b"x" * 40_000, stream="stderr")
    both = [line for one in records for line in write(lines(one)[:-1])]
    mixed = [line for pair in zip_longest(both, other * 3, fillvalue=b"") for line in pair]
    assert len(both) > 10
    report = read("shop/web-3", *log(*(line.replace(b"\n", end) for line in mixed)))
    assert [one["record"]["sequence"] for one in report["decisions"]] == [3]
    assert len(report["decisions"][0]["record"]["dropped"]["another node is the better candidate"]) == 5000
    assert [(one["records"], one["end"]) for one in report["processes"]] == [(5, "stopped")]
    assert (report["otherLines"], report.get("brokenLines", 0)) == (3, 0)


@pytest.mark.parametrize(
    "names", [("0.log.20260301-120000.gz", "0.log.20260301-130000", "0.log"), ("a.log.10", "a.log.9", "a.log")]
)
@pytest.mark.parametrize("write", [cri, docker], ids=["containerd", "json-file"])
def test_a_record_that_was_split_by_a_rotation_is_joined(log, tmp_path, write, names):
    parts = [line for one in (WHOLE[0], record(1, **LONG), *WHOLE[2:]) for line in write(lines(one)[:-1])]
    first, second, third = parts[:3], parts[3:5], parts[5:]
    log(gzip.compress(b"".join(first)) if names[0].endswith(".gz") else b"".join(first), name=names[0])
    log(*second, name=names[1])
    log(*third, name=names[2])
    report = read("--from", str(tmp_path))
    assert ids(report) == ["preempt-1", "preempt-2", "preempt-3"]
    assert (report["files"], report.get("brokenLines", 0)) == (3, 0)


@pytest.mark.parametrize("write", [cri, docker], ids=["containerd", "json-file"])
def test_a_record_whose_last_part_is_missing_is_broken_where_it_begins(log, write):
    options = log(*write(lines(record(1))[:-1]), *write(lines(record(2, **LONG))[:-1])[:-1])
    report = read(*options)
    assert [(one["file"], one["line"]) for one in report["broken"]] == [(options[1], 2)]
    assert len(report["decisions"]) == 1


@pytest.mark.parametrize("write", [cri, docker], ids=["containerd", "json-file"])
def test_parts_without_an_end_are_not_collected_for_ever(log, monkeypatch, write):
    monkeypatch.setattr(audit_files, "MAX_LINE_BYTES", 32_768)
    first, more = write(lines(record(2, **LONG))[:-1])[:2]
    report = read(*log(first, *[more] * 9, *write(b"x"), *write(lines(record(1))[:-1])))
    assert (report["brokenLines"], report["otherLines"], len(report["decisions"])) == (1, 5, 1)


def test_a_line_of_another_program_that_has_a_log_is_not_a_part(log):
    report = read(*log(b'{"log":"x","level":"info"}\n{"log":7}\n{"log":"x","stream":"a","time":""}\n', *WHOLE))
    assert (report["otherLines"], len(report["decisions"])) == (3, 3)


def test_lines_of_other_programs_are_passed_over_and_counted(log):
    own = b'{"timestamp":"2026-03-01T12:00:00Z","level":"error","logger":"x","event":"audit: dropped 1 lines"}\n'
    others = b'I0301 klog\n\n{"ts":1,"msg":"x"}\n' + own + b"2026-03-01 INFO extender: admin\n[1]\n"
    no_json = b"{'a': 1}\n{not json}\n{\n" + b'{"a":' + b"[" * 100_000 + b"\n"
    report = read(*log(*WHOLE, others, no_json))
    assert (report["otherLines"], report.get("brokenLines", 0)) == (9, 0)
    assert "5 lines of other programs" in explain(*log(*WHOLE, others))


def test_broken_lines_are_named_with_file_line_and_reason(log):
    torn = lines(record(2))[:-40]
    wrong = lines(record(3, kept=7))
    options = log(*WHOLE[:2], torn + b"\n", wrong, b'{"eve\n', lines(record(4)))
    report = read(*options)
    assert [(one["file"], one["line"]) for one in report["broken"]] == [(options[1], line) for line in (3, 4, 5)]
    assert report["brokenLines"] == 3
    assert report["processes"][0]["missing"] == 1  # of the one that says what it is, only the number is known
    assert f"3 broken lines: {options[1]} line 3" in explain(*options)


def test_a_record_behind_a_torn_one_on_the_same_line_is_read(log):
    torn = lines(record(1))[:-40]
    report = read(*log(torn + lines(mark("auditStarted", 0, "b_1"))))
    assert ([one["process"] for one in report["processes"]], report["brokenLines"]) == (["b_1"], 1)


def test_of_many_gaps_and_broken_lines_the_first_are_listed_and_all_counted(log, monkeypatch):
    monkeypatch.setattr(audit_files, "MAX_LISTED", 5)
    report = read(*log(*(record(2 * number) for number in range(1, 30)), b'{"eve\n' * 30))
    assert (report["processes"][0]["missing"], len(report["processes"][0]["gaps"])) == (28, 5)
    assert (report["brokenLines"], len(report["broken"])) == (30, 5)


def test_a_gap_has_the_reason_of_the_record_in_its_place(log):
    lost = {**mark("auditLost", 9), "first": 2, "last": 8, "reason": "the queue is full"}
    del lost["sequence"], lost["version"]
    report = read(*log(mark("auditStarted", 0), record(1), lost, record(9), record(12)))
    gaps = msgspec.convert(report["processes"][0]["gaps"], list[AuditGap])
    assert [(gap.missing, gap.reason) for gap in gaps] == [(7, "the queue is full"), (2, "")]
    killed = read(*log(mark("auditStarted", 0), record(1), lost))["processes"][0]
    assert (killed["missing"], killed["records"], killed["end"]) == (7, 2, "open")
    rotated = read(*log(lost, record(9)))["processes"][0]
    assert (rotated["earlier"], rotated["missing"]) == (2, 7)


def lost(first: int, last: int, reason: str, time: int) -> dict[str, Any]:
    given = {**mark("auditLost", time), "first": first, "last": last, "reason": reason}
    return {key: one for key, one in given.items() if key not in ("sequence", "version")}


def test_records_in_any_order_are_all_considered_and_none_is_missing(log):
    shuffled = [record(number) for number in (5, 1, 4, 2, 8, 3, 7, 6)]
    for order in (WHOLE[::-1], [WHOLE[0], *shuffled, mark("auditStopped", 9)]):
        report = read(*log(*order))
        assert len(report["decisions"]) == len(order) - 2
        (one,) = report["processes"]
        assert (one["records"], one["end"], one["next"]) == (len(order), "stopped", len(order))
        assert not {"missing", "earlier", "repeated"} & one.keys()
        assert one["begin"] == "2026-03-01T12:00:00.000000Z"
    assert read(*log(*WHOLE[::-1], *WHOLE))["processes"][0]["repeated"] == len(WHOLE)


def test_a_clock_that_was_set_back_hides_no_decision(log):
    first = log(mark("auditStarted", 0, minute=9), record(1, minute=9), record(2, minute=9), name="a")
    second = log(record(3), record(4), mark("auditStopped", 5), name="b")
    report = read(*second, *first)
    assert {one["record"]["id"] for one in report["decisions"]} == {f"preempt-{number}" for number in range(1, 5)}
    assert not {"missing", "earlier", "repeated"} & report["processes"][0].keys()


@pytest.mark.parametrize("step", [1, -1])
def test_what_auditlost_does_not_name_is_not_put_down_to_it(log, step):
    records = [mark("auditStarted", 0), lost(100, 101, "No space left", 101), record(102)]
    (one,) = read(*log(*records[::step]))["processes"]
    gaps = msgspec.convert(one["gaps"], list[AuditGap])
    assert [(gap.missing, gap.reason) for gap in gaps] == [(99, ""), (2, "No space left")]
    assert (one["missing"], one["records"], one["next"]) == (101, 2, 103)


def test_a_record_that_auditlost_names_but_that_is_there_is_not_missing(log):
    for records in ([record(5), lost(2, 8, "full", 9)], [lost(2, 8, "full", 9), record(5)]):
        report = read(*log(record(1), *records, record(9)))
        assert "preempt-5" in ids(report)
        assert [gap["missing"] for gap in report["processes"][0]["gaps"]] == [3, 3]


def test_of_too_many_gaps_the_first_are_joined_and_each_new_record_is_considered(log, monkeypatch):
    monkeypatch.setattr(audit_files, "MAX_RANGES", 5)
    for numbers in (range(0, 60, 2), range(58, -1, -2), [*range(0, 60, 2), *range(1, 60, 2)]):
        report = read(*log(*map(record, numbers)), "--limit", "100")
        assert len(report["decisions"]) == len(numbers)
    assert read(*log(*map(record, range(0, 60, 2))))["processes"][0]["missing"] == 29


DEEP = b'{"event":"audit","timestamp":"2026-03-01T12:00:00Z","process":"a","sequence":1,"a":' + b"[" * 100_000 + b"\n"


@pytest.mark.parametrize(
    "line",
    [DEEP, lines(record(-5)), lines({**record(1), "sequence": 2**70})],
    ids=["deep", "negative", "large"],
)
def test_a_hostile_line_is_a_broken_line(log, line):
    report = read(*log(line, *WHOLE))
    assert (report["brokenLines"], len(report["decisions"])) == (1, 3)


def test_standard_input_is_read_once():
    done = run("--from", "-", "--from", "-", given=lines(*WHOLE))
    assert done.exit_code != 0
    assert "standard input can be read only once" in f"{done.stderr}{done.exception}"


def test_compressed_files_directories_and_standard_input(log, tmp_path):
    packed = gzip.compress(lines(*WHOLE))
    assert len(read(*log(packed))["decisions"]) == 3
    assert len(read("--from", "-", given=packed)["decisions"]) == 3
    report = read("--from", "-", given=lines(*WHOLE))
    assert (len(report["decisions"]), report["files"]) == (3, 1)
    # What is read of a truncated file counts.
    log(gzip.compress(lines(*WHOLE[:1])) + packed[:-30], name="cut.gz")
    report = read("--from", str(tmp_path / "cut.gz"))
    assert report["brokenLines"] == 1
    assert "damaged from here on" in report["broken"][0]["reason"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("missing", "No such file"), ("empty", "has no files"), ("pipe", "a FIFO, not a regular file: --from - reads")],
)
def test_what_cannot_be_read_is_an_error_that_names_it(tmp_path, monkeypatch, capsys, name, said):
    (tmp_path / "empty").mkdir()
    subprocess.run(["mkfifo", tmp_path / "pipe"], check=True)
    with pytest.raises(SystemExit) as ended:
        cli.main(["explain", "--from", str(tmp_path / name)])
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert said in " ".join(error.split())
    assert "Errno" not in error
    assert str(tmp_path / name) in error


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lzma.compress(lines(*WHOLE)), "compressed with xz: use xz -dc"),
        (bz2.compress(lines(*WHOLE)), "compressed with bzip2"),
        (b"\x28\xb5\x2f\xfd\x24\x05", "compressed with zstd"),
        (json.dumps({"message": lines(WHOLE[1]).decode()}).encode() + b"\n", "as with jq -r .message FILE"),
    ],
    ids=["xz", "bzip2", "zstd", "collector"],
)
def test_a_shape_that_is_not_read_is_named(log, content, said):
    report = read(*log(content), *log(*WHOLE, name="b"))
    (broken,) = report["broken"]
    assert said in broken["reason"]
    assert (len(report["decisions"]), report.get("otherLines", 0)) == (3, 0)


def test_of_a_log_that_is_older_than_since_the_records_are_counted(log):
    text = explain(*log(*WHOLE), "--since", "2026-03-01T13:00:00Z")
    assert "no audit record since 2026-03-01T13:00:00Z, 5 older ones" in text
    assert "no audit record was read" not in text


def test_a_log_without_a_record_says_so(log):
    assert "no audit record was read" in explain(*log(b"hello\n"))


# --- options ----------------------------------------------------------------------------------------------------------


def test_limit_list_and_since(log):
    options = log(*WHOLE)
    assert ids(read(*options, "--limit", "2")) == ["preempt-2", "preempt-3"]
    assert read(*options, "--limit", "2")["others"] == 1
    assert "1 other decision; --limit lists more" in explain(*options, "--limit", "2")
    text = explain("cart-9", *options, "--list")
    assert [line.split()[3] for line in text.splitlines()[:3]] == ["preempt-3", "preempt-2", "preempt-1"]
    assert ids(read(*options, "--since", "2026-03-01T12:00:02Z")) == ["preempt-2", "preempt-3"]
    later = read(*options, "--since", "2026-03-01T13:00:00Z")
    assert (later["decisions"], later["processes"]) == ([], [])
    assert read(*options, "--since", "1s")["decisions"] == []  # before now


def test_since_leaves_out_what_is_missing_before_it(log):
    options = log(record(1), record(3), record(6))
    assert read(*options)["processes"][0]["missing"] == 3
    assert read(*options, "--since", "2026-03-01T12:00:05Z")["processes"][0]["missing"] == 2


def test_verb_preempt_leaves_out_bindings(log):
    options = log(record(1), binding(2))
    assert ids(read(*options)) == ["preempt-1", "bind-2"]
    assert ids(read(*options, "--verb", "preempt")) == ["preempt-1"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--recording", "x"], "choose one source"),
        (["--follow"], "an audit log is read once"),
        (["--node", "n"], "no details of nodes"),
        (["--verb", "filter"], "must be preempt with --from: /filter and /prioritize"),
        (["--url", "http://x:1"], "not with --from: no service is asked"),
        (["--ca-file", "x"], "not with --from: no service is asked"),
        (["--since", "yesterday"], "--since must be a time"),
        (["--scheduler-version", "1.36"], "requires --recording"),
    ],
)
def test_options_that_do_not_apply_are_refused(log, monkeypatch, capsys, given, said):
    with pytest.raises(SystemExit) as ended:
        cli.main(["explain", *log(*WHOLE), *given])
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_pod_that_is_not_in_it_ends_with_1_and_says_what_is_missing(log):
    done = run("shop/absent", *log(record(1), record(4)))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no decision in the audit log is about 'shop/absent'" in done.stderr
    assert "2 records missing" in done.stderr
    done = run("shop/absent", *log(record(1), record(4)), "-o", "json")
    assert (done.exit_code, json.loads(done.stdout)["decisions"]) == (1, [])


def test_a_name_cannot_control_the_terminal(log):
    evil = {"namespace": "shop", "name": "evil\x1b[31m\u202e", "uid": "u", "priority": 9, "schedulerName": "x"}
    text = explain("--from", log(record(1, preemptor=evil))[1])
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "evil" in text


def test_memory_does_not_grow_with_the_log(tmp_path, monkeypatch):
    def peak(count: int) -> int:
        path = tmp_path / f"{count}.log"
        with path.open("wb") as file:
            time = format_time(START, 6)  # parsed times are cached, up to a limit
            file.writelines(lines(record(number, timestamp=time)) for number in range(count))
        tracemalloc.start()
        try:
            audit_files.read_audit_log([str(path)], DecisionListOptions(pod="shop/cart-9", limit=20))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)
    assert peak(2000) < 1.2 * peak(500)


def test_what_the_service_writes_is_what_is_read(tmp_path):
    """The two ends meet: a log of this process, with a gap."""
    written = AuditLog(tmp_path / "audit.log")
    written.start()
    written.count_lost()
    written.stop()
    (one,) = read("--from", str(tmp_path / "audit.log"))["processes"]
    assert (one["process"], one["records"], one["missing"], one["end"]) == (written.process, 2, 1, "stopped")
    assert one["gaps"][0]["reason"] == "an internal error"
