"""Run the schedulers and the misbehaving clients of the soak in their own process.

The output is a line of JSON every few seconds: `caller.Tally.take` and the time of the system's monotonic clock. An
input line is `renew` (reload the certificates) or `stop`, after which the process reports the rest and ends.

Rule: keep it light, since it shares the machine with the service, which is what is measured.
"""

import argparse
import json
import ssl
import sys
import threading
import time
from pathlib import Path

from benchmarks.generate import Plan
from benchmarks.soak import nuisance
from benchmarks.soak.caller import Caller, Tally
from benchmarks.soak.questions import Common, CycleGenerator

REPORT_INTERVAL_SECONDS = 2.0
"""Interval between two reports."""

SERVER_CA = "server-ca.crt"
CLIENT_CERTIFICATE = "kube-scheduler.crt"
CLIENT_KEY = "kube-scheduler.key"
"""Files in the directory of certificates."""


def main() -> None:
    """Make calls until the input says `stop`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.load", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="scheduling cycles a second, of all schedulers")
    parser.add_argument("--schedulers", type=int, required=True)
    parser.add_argument("--certificates", type=Path, help="directory; without one, plain HTTP")
    parser.add_argument("--tenants", action="store_true", help="with the waiting pods of a hostile tenant")
    given = parser.parse_args()
    credentials, tally, stopped = Credentials(given.certificates), Tally(), threading.Event()
    common = Common(Plan(given.seed, given.nodes))
    rate = given.rate / given.schedulers
    callers = [
        Caller(given.port, credentials, CycleGenerator(common, number), rate, tally)
        for number in range(given.schedulers)
    ]
    clients: list[nuisance.Client] = [*nuisance.ALL, *([nuisance.WaitingPods(common.plan)] if given.tenants else [])]
    others = [
        threading.Thread(target=one, args=(given.port, credentials, tally, stopped), daemon=True) for one in clients
    ]
    for thread in (*callers, *others):
        thread.start()
    threading.Thread(target=report, args=(tally, stopped), daemon=True).start()
    for line in sys.stdin:
        if line.strip() == "stop":
            break
        credentials.renew()
    for caller in callers:
        caller.stop()
    for caller in callers:
        caller.join()
    stopped.set()
    write_report(tally)


class Credentials:
    """Client certificate of the schedulers, and the CA that they trust."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self.renew()

    def __call__(self) -> ssl.SSLContext | None:
        return self._context

    def renew(self) -> None:
        """Reload the files; later connections use them."""
        self._context = None if self._directory is None else client_context(self._directory)


def client_context(directory: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=directory / SERVER_CA)
    context.load_cert_chain(directory / CLIENT_CERTIFICATE, directory / CLIENT_KEY)
    return context


def report(tally: Tally, stopped: threading.Event) -> None:
    while not stopped.wait(REPORT_INTERVAL_SECONDS):
        write_report(tally)


_OUTPUT_LOCK = threading.Lock()


def write_report(tally: Tally) -> None:
    with _OUTPUT_LOCK:
        line = tally.take() | {"time": time.monotonic()}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
