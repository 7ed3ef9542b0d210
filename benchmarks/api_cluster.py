"""The fake API server with the generated cluster, in its own process."""

import subprocess
import sys
import threading
from functools import partial

from benchmarks import cores
from benchmarks.generate import Plan
from benchmarks.serve_live import api_at
from benchmarks.service import end
from extender.cluster.watch.list_watch import RESOURCES, WatchSettings, decode_page, list_pages


class ApiCluster:
    """Client of the `fake_cluster` process; with `tls`, the server uses certificates made for this run.

    `gpu_nodes`: ResourceSlices of eight devices each, three quarters of which claims have.
    """

    def __init__(self, plan: Plan, *, tls: bool = False, gpu_nodes: int = 0) -> None:
        options = ["--seed", str(plan.seed), "--nodes", str(plan.nodes), "--gpu-nodes", str(gpu_nodes)]
        options += ["--tls"] if tls else []
        command = [sys.executable, "-m", "benchmarks.fake_cluster", *options]
        with cores.on(cores.ALLOWED):
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        count, self.url, self.ca_file = self._answer().split(" ")
        self.pods = int(count)
        """Number of pods that were loaded."""
        self._done = threading.Event()

    def _answer(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError("the fake API server exited")
        return line.rstrip("\n")

    def begin(self, command: str) -> None:
        """Send a command of `fake_cluster`; `is_done` reports when it has been carried out."""
        self._done.clear()
        self._send(command)
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        self._answer()
        self._done.set()

    def is_done(self) -> bool:
        return self._done.is_set()

    def carry_out(self, command: str) -> None:
        """Send a command of `fake_cluster` and wait until it has been carried out."""
        self._send(command)
        self._answer()

    def _send(self, command: str) -> None:
        if self._process.stdin:
            self._process.stdin.write(f"{command}\n")

    def read_all(self) -> int:
        """List all kinds that the service follows, parsing only what a page is; return the number of objects."""
        api = api_at(self.url, self.ca_file or None)
        size, found = WatchSettings().page_size, 0
        for one in RESOURCES:
            pages = list_pages(partial(api.get, one.path), partial(decode_page, kind=one.kind), size)
            found += sum(len(page.items or ()) for page in pages)
        return found

    def close(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        end(self._process)
        if self._process.stdout:
            self._process.stdout.close()
