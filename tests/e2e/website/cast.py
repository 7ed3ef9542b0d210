"""Record docs/casts/why.cast, the terminal session of the home page: `python -m tests.e2e.website.cast`.

The commands are real and run on the example cluster, in a terminal; typing and pauses are made up, so that the same
outputs give the same file (asciicast v2).
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.docs.example_service import example_service

CAST = Path(__file__).parents[3] / "docs" / "casts" / "why.cast"
WIDTH, HEIGHT = 132, 30

POD = """\
kind: Pod
metadata: {name: cart-9, namespace: shop}
spec:
  priorityClassName: shop-critical
  containers:
  - name: main
    resources: {requests: {cpu: 3, memory: 4Gi}}
"""

SESSION: Mapping[str, str] = {
    "Would this pod fit?": "extender why --example --pod cart-9.yaml",
    "What would happen then?": "extender simulate --example --pod cart-9.yaml",
    "Beside kube-scheduler: why was that pod evicted?": "extender explain batch/etl-3-4vmms",
}
"""Comment -> the command below it, on a screen of their own."""

KEY_SECONDS, ANSWER_SECONDS, READING_SECONDS = 0.04, 0.4, 5.0
PROMPT = "\x1b[1;32m$\x1b[0m "
CLEAR = "\x1b[H\x1b[2J"

MEASURED = re.compile(r"\S+ \S+ UTC, decided in \S+ ms")
"""What differs from run to run."""
ALWAYS = "2026-03-02 09:00:00 UTC, decided in 0.4 ms"


def recorded() -> str:
    """Return the text of the cast."""
    with tempfile.TemporaryDirectory() as folder, example_service() as url:
        (Path(folder) / "cart-9.yaml").write_text(POD, encoding="utf-8")
        header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "extender why"}
        lines = [header, *events(Path(folder), url)]
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


def events(folder: Path, url: str) -> Iterator[list[object]]:
    """Yield [seconds, code, data]: o is output, m a marker of the player."""
    now = 0.0
    for comment, command in SESSION.items():
        yield [round(now, 2), "m", comment]
        yield [round(now, 2), "o", CLEAR]
        for typed, answer in ((f"# {comment}", ""), (command, output(command, folder, url))):
            yield [round(now, 2), "o", PROMPT]
            for key in typed:
                now += KEY_SECONDS
                yield [round(now, 2), "o", key]
            now += ANSWER_SECONDS
            yield [round(now, 2), "o", f"\r\n{answer}"]
        yield [round(now, 2), "o", PROMPT]
        now += READING_SECONDS
    yield [round(now, 2), "o", ""]


def output(command: str, folder: Path, url: str) -> str:
    """Return what the command writes to a terminal."""
    program, *arguments = shlex.split(command)
    assert program == "extender"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "TZ": "UTC",
        "EXTENDER_ADMIN_URL": url,
    }
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "extender", *arguments],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, cwd=folder, env=environment,
    )  # fmt: skip
    os.close(theirs)
    written = b""
    with contextlib.suppress(OSError):  # Linux: EIO once the command has closed its side
        while part := os.read(ours, 1 << 16):
            written += part
    os.close(ours)
    assert process.wait() in (0, 3), written.decode()  # 3: it fits after a preemption
    return MEASURED.sub(ALWAYS, written.decode())


if __name__ == "__main__":
    CAST.parent.mkdir(exist_ok=True)
    CAST.write_text(recorded(), encoding="utf-8")
