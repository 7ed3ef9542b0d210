"""What a command writes to standard error while it runs: one line of text, or of JSON, for each event.

Rule: an event is one line, or lines that begin with a blank after the first: nothing that somebody else wrote can look
like an event of ours, or steer a terminal.
"""

import logging
import sys
import threading
from typing import TYPE_CHECKING, Any

from extender.errors import printable

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from extender.config.serving import LogSection

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

FIRST = ("timestamp", "level", "logger", "event")
"""Keys of a line of JSON; `exception` comes last, with the whole stack."""

log = logging.getLogger(__name__)


def set_up(config: "LogSection") -> None:
    """Write events of all threads and libraries as configured. Libraries never say more than Info: kubernetes' Debug
    holds whole objects."""
    level = logging.getLevelNamesMapping()[config.level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter(FORMAT) if config.format == "Text" else json_formatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.INFO))
    logging.getLogger("extender").setLevel(level)
    logging.captureWarnings(True)
    threading.excepthook = _log_end_of_thread


def _log_end_of_thread(args: threading.ExceptHookArgs) -> None:
    if not issubclass(args.exc_type, SystemExit):
        error = args.exc_value or args.exc_type()
        log.critical("thread %s has ended", args.thread.name if args.thread else "-", exc_info=error)


class TextFormatter(logging.Formatter):
    """A line for the event; those of a stack below it, indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the base's name
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(f"  {printable(line)}" for line in text.split("\n"))


def json_formatter() -> logging.Formatter:
    """An object with the keys of FIRST, and `exception` where there is one."""
    import structlog

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name, _stamped],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_serialized, sort_keys=False),
        ],
    )


def _stamped(_: Any, __: str, event: "MutableMapping[str, Any]") -> "MutableMapping[str, Any]":
    from extender.k8s.time import format_time

    event["timestamp"] = format_time(round(event["_record"].created * 1e6) * 1000, 6)
    return event


def _serialized(event: "MutableMapping[str, Any]", **_: Any) -> str:
    from extender.server.observability.audit import encoded

    ordered = {key: event[key] for key in FIRST} | {key: value for key, value in event.items() if key not in FIRST}
    return encoded(ordered).decode().rstrip("\n")
