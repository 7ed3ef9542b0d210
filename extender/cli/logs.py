"""Standard error: messages of commands, and the log of a service with one line of text or JSON per event.

Once logging is configured, nothing else writes to standard error, so that a stalled reader blocks nothing
(`server.observability.log_writer`): unhandled exceptions and warnings are logged, too.

Rule: an event is one line; the lines of a stack trace begin with a blank. Text from clients and objects is escaped, so
that it can neither forge an event nor control a terminal.
"""

import logging
import os
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer

from extender.errors import printable
from extender.k8s.time import format_time
from extender.server.observability.log_writer import STDERR, QueuedHandler, installed_handler

if TYPE_CHECKING:
    from extender.config.serving import LogSection

log = logging.getLogger(__name__)

MAX_EVENT_CHARACTERS = 16_384
"""Maximum length of an event's message, and of its stack trace; names in a call may be longer."""


def configure(config: "LogSection") -> None:
    """Log events of all threads and libraries as configured.

    Libraries log at level Info or above: at Debug the kubernetes client logs whole objects.
    """
    # If standard error is closed, the next file or socket would get its descriptor, and so the log lines.
    if sys.stderr is None:
        null = os.open(os.devnull, os.O_WRONLY)
        if null != STDERR:
            os.dup2(null, STDERR)
            os.close(null)
    level = logging.getLevelNamesMapping()[config.level.upper()]
    previous, handler = installed_handler(), QueuedHandler()
    handler.setFormatter(TextFormatter() if config.format == "Text" else JSONFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.INFO))
    logging.getLogger("extender").setLevel(level)
    logging.captureWarnings(True)
    threading.excepthook = _log_thread_exception
    sys.excepthook = _log_exception
    sys.unraisablehook = _log_unraisable
    if previous is not None:
        previous.close()


def echo(text: str) -> None:
    """Print to standard error; once logging is configured, without blocking and in the order of the log lines."""
    handler = installed_handler()
    if handler is None:
        typer.echo(text, err=True)
    else:
        handler.echo(text)


def print_message(message: str) -> None:
    """Print an error, a warning or the progress of a command as one line to standard error."""
    echo(f"extender: {printable(message)}")


def silence() -> None:
    """Discard the log lines of a replay: they would repeat the log of the recorded service."""
    logging.getLogger("extender").addHandler(logging.NullHandler())
    logging.getLogger("extender").propagate = False


def _log_thread_exception(args: threading.ExceptHookArgs) -> None:
    if not issubclass(args.exc_type, SystemExit):
        name, error = args.thread.name if args.thread else "-", args.exc_value or args.exc_type()
        log.critical("thread %s terminated by an unhandled exception", name, exc_info=error)


def _log_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, Exception):
        log.critical("terminated by an unhandled exception", exc_info=(kind, error, trace))
    else:  # KeyboardInterrupt
        sys.__excepthook__(kind, error, trace)


def _log_unraisable(args: "sys.UnraisableHookArgs") -> None:
    if args.exc_value is not None:
        message = args.err_msg or "exception ignored in"
        subject = "" if args.object is None else f": {args.object!r:.200}"  # Python 3.14 has it in the message
        log.error("%s%s", message, subject, exc_info=args.exc_value)


class TextFormatter(logging.Formatter):
    """Formats an event as one line, with the stack trace indented below it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the base's name
        return printable(_cut(super().formatMessage(record)))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return _indent_lines(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return _indent_lines(super().formatStack(stack_info))


def _indent_lines(text: str) -> str:
    return "\n".join(f"  {printable(line)}" for line in _cut(text).split("\n"))


def _cut(text: str) -> str:
    more = len(text) - MAX_EVENT_CHARACTERS
    return f"{text[:MAX_EVENT_CHARACTERS]}… ({more} more characters)" if more > 0 else text


class JSONFormatter(logging.Formatter):
    """Formats an event as a line of JSON; `exception` comes last, with the whole stack trace.

    `extra={"fields": {…}}` of a log call adds keys after `event`.
    """

    def format(self, record: logging.LogRecord) -> str:
        from extender.server.observability.audit import encode_line

        event = {
            "timestamp": format_time(round(record.created * 1e6) * 1000, 6),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _cut(record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            event["exception"] = _cut(self.formatException(record.exc_info))
        return encode_line(event).decode().rstrip("\n")
