"""Configure logging to standard error: one line of text or JSON per event.

Rule: an event is one line; the lines of a stack trace begin with a blank. Text from clients and objects is escaped, so
that it can neither forge an event nor control a terminal.
"""

import logging
import sys
import threading
from typing import TYPE_CHECKING, Any

from extender.errors import printable
from extender.k8s.time import format_time

if TYPE_CHECKING:
    from extender.config.serving import LogSection

log = logging.getLogger(__name__)


def configure(config: "LogSection") -> None:
    """Log events of all threads and libraries as configured.

    Libraries log at level Info or above: at Debug the kubernetes client logs whole objects.
    """
    level = logging.getLevelNamesMapping()[config.level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if config.format == "Text" else JSONFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.INFO))
    logging.getLogger("extender").setLevel(level)
    logging.captureWarnings(True)
    threading.excepthook = _log_thread_exception


def silence() -> None:
    """Discard the log lines of a replay: they would repeat those of the recorded service."""
    logging.getLogger("extender").addHandler(logging.NullHandler())
    logging.getLogger("extender").propagate = False


def _log_thread_exception(args: threading.ExceptHookArgs) -> None:
    if not issubclass(args.exc_type, SystemExit):
        name, error = args.thread.name if args.thread else "-", args.exc_value or args.exc_type()
        log.critical("thread %s terminated by an unhandled exception", name, exc_info=error)


class TextFormatter(logging.Formatter):
    """Formats an event as one line, with the stack trace indented below it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the base's name
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return _indent_lines(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return _indent_lines(super().formatStack(stack_info))


def _indent_lines(text: str) -> str:
    return "\n".join(f"  {printable(line)}" for line in text.split("\n"))


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
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return encode_line(event).decode().rstrip("\n")
