"""Progress of a long run: a bar on a terminal; in a log, a line for every tenth of the work."""

from dataclasses import dataclass, field
from time import monotonic
from typing import Final, TextIO

WIDTH: Final = 30
CLEAR: Final = "\r\x1b[K"


@dataclass(slots=True)
class Progress:
    """Share of `total` scenarios that are done, shown on a stream."""

    total: int
    stream: TextIO
    started: float = field(default_factory=monotonic)
    _tenths: int = 0

    @property
    def seconds(self) -> float:
        return monotonic() - self.started

    def show(self, done: int, text: str) -> None:
        rate = done / max(self.seconds, 1e-3)
        if self.stream.isatty():
            bar = "#" * (WIDTH * done // self.total)
            self.stream.write(f"{CLEAR}[{bar:-<{WIDTH}}] {done:,} of {self.total:,}, {rate:.0f} a second, {text}")
            self.stream.flush()
        elif (tenths := 10 * done // self.total) > self._tenths:
            self._tenths = tenths
            print(
                f"{10 * tenths} %: {done:,} of {self.total:,}, {rate:.0f} a second, {text}",
                file=self.stream,
                flush=True,
            )

    def clear(self) -> None:
        """Leave the line to other output."""
        if self.stream.isatty():
            self.stream.write(CLEAR)
            self.stream.flush()
