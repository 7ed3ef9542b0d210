"""Configure logging to standard error: one line of text or JSON per event.

Rule: an event is one line; the lines of a stack trace begin with a blank. Text from clients and objects is escaped, so
that it can neither forge an event nor control a terminal.
"""

import logging
import sys
import threading
from typing import TYPE_CHECKING, Any

from extender.errors import printable

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from extender.config.serving import LogSection

TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

LEADING_KEYS = ("timestamp", "level", "logger", "event")
"""Keys that every JSON line begins with; `exception` comes last, with the whole stack trace."""

log = logging.getLogger(__name__)


def configure(config: "LogSection") -> None:
    """Log events of all threads and libraries as configured.

    Libraries log at level Info or above: at Debug the kubernetes client logs whole objects.
    """
    level = logging.getLevelNamesMapping()[config.level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter(TEXT_FORMAT) if config.format == "Text" else json_formatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.INFO))
    logging.getLogger("extender").setLevel(level)
    logging.captureWarnings(True)
    threading.excepthook = _log_thread_exception


def _log_thread_exception(args: threading.ExceptHookArgs) -> None:
    if not issubclass(args.exc_type, SystemExit):
        error = args.exc_value or args.exc_type()
        log.critical(
            "thread %s terminated by an unhandled exception", args.thread.name if args.thread else "-", exc_info=error
        )


class TextFormatter(logging.Formatter):
    """Formats an event as one line, with the stack trace indented below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the base's name
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return _indent_lines(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return _indent_lines(super().formatStack(stack_info))


def _indent_lines(text: str) -> str:
    return "\n".join(f"  {printable(line)}" for line in text.split("\n"))


def json_formatter() -> logging.Formatter:
    """Return a formatter for JSON lines: the keys of LEADING_KEYS, then `exception` if the event has one."""
    import structlog

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name, _add_timestamp],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_serialize, sort_keys=False),
        ],
    )


def _add_timestamp(_: Any, __: str, event: "MutableMapping[str, Any]") -> "MutableMapping[str, Any]":
    from extender.k8s.time import format_time

    event["timestamp"] = format_time(round(event["_record"].created * 1e6) * 1000, 6)
    return event


def _serialize(event: "MutableMapping[str, Any]", **_: Any) -> str:
    from extender.server.observability.audit import encode_line

    ordered = {key: event[key] for key in LEADING_KEYS} | {
        key: value for key, value in event.items() if key not in LEADING_KEYS
    }
    return encode_line(ordered).decode().rstrip("\n")
