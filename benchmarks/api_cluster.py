"""The fake API server with the generated cluster, in its own process."""

import subprocess
import sys
import threading

from benchmarks import cores
from benchmarks.generate import Plan
from benchmarks.serve_live import api_at
from benchmarks.service import end
from extender.cluster.watch.list_watch import list_pages


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
        self.url, _, self.ca_file = self._answer().partition(" ")
        self._done = threading.Event()

    def _answer(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError("the fake API server exited")
        return line.strip()

    def begin(self, command: str) -> None:
        """Send a command of `fake_cluster`; `is_done` reports when it has been carried out."""
        self._done.clear()
        if self._process.stdin:
            self._process.stdin.write(f"{command}\n")
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        self._answer()
        self._done.set()

    def is_done(self) -> bool:
        return self._done.is_set()

    def read_all(self) -> int:
        """List all pods, parsing only the continue token of each page; return the number of pods."""
        api = api_at(self.url, self.ca_file or None)
        read = list_pages(lambda params: api.get("/api/v1/pods", params), "Pod", 500)
        return sum(len(page.items or ()) for page in read)

    def close(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        end(self._process)
        if self._process.stdout:
            self._process.stdout.close()
