"""What `extender serve` writes to standard error: one line per event, which text of others cannot forge."""

import json
import logging
import re
import subprocess
import sys
import threading
import warnings

import pytest

from extender.cli import logs
from extender.config.serving import LogSection
from extender.server.observability.log_writer import installed_handler

FORGED = "web\n2026-11-22 03:00:00,000 INFO extender: forged\r\x1b[2J\x9b1m\u202e"


@pytest.fixture
def set_up(capfd):
    """Set up logs as configured -> what was written since then."""

    def written():
        handler = installed_handler()
        assert handler is not None
        handler.flush()
        return capfd.readouterr().err

    def begin(**section):
        logs.configure(LogSection.model_validate(section))
        return written

    return begin


def fail(message):
    raise RuntimeError(message)


@pytest.fixture
def log():
    return logging.getLogger("extender.server.scheduler.verbs")


CLOSED = """
import logging, os, socket
from extender.cli import logs
from extender.config.serving import LogSection

logs.configure(LogSection())
first, second = socket.socketpair()
logging.getLogger("extender").error("not for a client")
logging.shutdown()
second.setblocking(False)
try:
    print(second.recv(100))
except BlockingIOError:
    print("nothing")
"""


def test_H8_log_lines_reach_no_socket_where_standard_error_is_closed():
    command = 'exec "$0" -c "$1" 2>&-'
    done = subprocess.run(["sh", "-c", command, sys.executable, CLOSED], capture_output=True, timeout=30, check=True)
    assert done.stdout == b"nothing\n"


# --- text -------------------------------------------------------------------------------------------------------------


def test_an_event_is_a_line(set_up, log):
    written = set_up()
    log.info("preempt %r: %s", "shop/web-0", "vetoed")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO extender\.server\.scheduler\.verbs: preempt 'shop/web-0': vetoed\n",
        written(),
    )


def test_what_others_wrote_forges_no_line_and_steers_no_terminal(set_up, log):
    written = set_up()
    log.info("preempt %s", FORGED)
    (line,) = written().splitlines()
    assert line.isprintable()
    assert r"web\n2026-11-22" in line


@pytest.mark.parametrize("form", ["Text", "JSON"])
def test_a_stack_forges_no_line_either(set_up, log, form):
    written = set_up(format=form)
    try:
        fail(FORGED)
    except RuntimeError:
        log.exception("filter failed")
    first, *others = written().rstrip("\n").split("\n")
    assert "filter failed" in first
    assert all(line.isprintable() for line in (first, *others))
    assert all(line.startswith("  ") for line in others)
    if form == "Text":
        assert "  Traceback (most recent call last):" in others
    else:
        assert others == []
        assert "Traceback (most recent call last):\n" in json.loads(first)["exception"]
        assert json.loads(first)["exception"].endswith(FORGED)


# --- JSON -------------------------------------------------------------------------------------------------------------


def test_an_event_is_an_object_of_one_line(set_up, log):
    written = set_up(format="JSON")
    log.warning("filter failed: %s", FORGED)
    (line,) = written().splitlines()
    assert line.isascii()
    found = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found.pop("timestamp"))
    assert found == {
        "level": "warning",
        "logger": "extender.server.scheduler.verbs",
        "event": f"filter failed: {FORGED}",
    }


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["uvicorn.error", "kubernetes.client.rest", "py.warnings"])
def test_libraries_events_come_out_the_same(set_up, name):
    written = set_up(format="JSON")
    if name == "py.warnings":
        warnings.warn("old", stacklevel=1)
    else:
        logging.getLogger(name).warning("%d things", 3)
    found = json.loads(written())
    assert list(found) == ["timestamp", "level", "logger", "event"]
    assert found["logger"] == name


# --- levels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("Debug", ["debug", "info", "warning", "error"]),
        ("Info", ["info", "warning", "error"]),
        ("Warning", ["warning", "error"]),
        ("Error", ["error"]),
    ],
)
def test_events_below_the_level_are_left_out(set_up, log, level, said):
    written = set_up(format="JSON", level=level)
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)("it")
        getattr(logging.getLogger("urllib3"), name)("theirs")
    found = [json.loads(line) for line in written().splitlines()]
    assert [one["level"] for one in found if one["event"] == "it"] == said
    assert [one["level"] for one in found if one["event"] == "theirs"] == [one for one in said if one != "debug"]


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["Text", "JSON"])
def test_a_thread_that_ends_with_an_error_is_an_event(set_up, form):
    written = set_up(format=form)
    thread = threading.Thread(target=fail, args=("a bug",), name="follow-pods")
    thread.start()
    thread.join()
    text = written()
    first = text.split("\n")[0]
    assert "thread follow-pods terminated by an unhandled exception" in first
    assert "a bug" in text
    if form == "JSON":
        assert json.loads(first)["level"] == "critical"


# --- nothing else writes to standard error ----------------------------------------------------------------------------


def test_H8_an_unhandled_exception_is_an_event_and_no_print(set_up):
    written = set_up()
    try:
        fail(FORGED)
    except RuntimeError:
        sys.excepthook(*sys.exc_info())
    text = written()
    assert "CRITICAL extender.cli.logs: terminated by an unhandled exception" in text
    assert "  Traceback (most recent call last):" in text.split("\n")


def test_H8_an_exception_that_cannot_be_raised_is_an_event(set_up):
    written = set_up()

    class Broken:
        def __del__(self):
            fail("in a destructor")

    Broken()
    text = written()
    # Python 3.14 says what it was doing, "Exception ignored while calling deallocator".
    assert re.search(r"ERROR extender\.cli\.logs: [Ee]xception ignored [\w ]+:? <function .*>$", text, re.MULTILINE)
    assert "in a destructor" in text


def test_H8_text_for_people_keeps_its_place_among_the_events(set_up, log):
    written = set_up()
    log.info("before")
    logs.echo("extender on 127.0.0.1:8888\nsecond line")
    log.info("after")
    before, *banner, after = written().splitlines()
    assert (before.endswith("before"), after.endswith("after")) == (True, True)
    assert banner == ["extender on 127.0.0.1:8888", "second line"]


def test_H8_a_log_call_that_cannot_be_formatted_is_an_event(set_up, log):
    written = set_up()
    log.info("%d pods", "many")
    log.info("goes on")
    text = written()
    assert "ERROR extender.server.scheduler.verbs: invalid log call: '%d pods'" in text
    assert "TypeError" in text
    assert text.endswith("goes on\n")


@pytest.mark.parametrize("form", ["Text", "JSON"])
def test_H4_a_long_event_is_cut(set_up, log, form):
    written = set_up(format=form)
    try:
        fail("x" * 1_000_000)
    except RuntimeError:
        log.exception("preempt %s", "y" * 1_000_000)
    text = written()
    assert len(text) < 3 * logs.MAX_EVENT_CHARACTERS
    assert text.count("more characters)") == 2
    if form == "JSON":
        assert json.loads(text)["level"] == "error"
