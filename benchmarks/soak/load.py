"""The schedulers of the soak and the clients that nobody wants, in a process of their own.

Its output is a line of JSON each few seconds: `caller.Tally.take`, and the time by the system's monotonic clock. A line
of its input is `renew` (read the certificates again) or `stop`, after which it says the rest
and ends.

Rule: it is light. The machine is the service's too, and what is measured must not be this.
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
from benchmarks.soak.questions import Asking, Common

EVERY = 2.0
"""Seconds between two lines."""

SERVER_CA = "server-ca.crt"
CLIENT_CERTIFICATE = "kube-scheduler.crt"
CLIENT_KEY = "kube-scheduler.key"
"""Files in the directory of certificates."""


def main() -> None:
    """Ask until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.load", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="scheduling cycles a second, of all schedulers")
    parser.add_argument("--schedulers", type=int, required=True)
    parser.add_argument("--certificates", type=Path, help="directory; without one, plain HTTP")
    given = parser.parse_args()
    credentials, tally, stopped = Credentials(given.certificates), Tally(), threading.Event()
    common = Common(Plan(given.seed, given.nodes))
    rate = given.rate / given.schedulers
    callers = [
        Caller(given.port, credentials, Asking(common, number), rate, tally) for number in range(given.schedulers)
    ]
    others = [
        threading.Thread(target=one, args=(given.port, credentials, tally, stopped), daemon=True)
        for one in nuisance.ALL
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
    say(tally)


class Credentials:
    """The certificate that schedulers show, and the authority that they trust."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self.renew()

    def __call__(self) -> ssl.SSLContext | None:
        return self._context

    def renew(self) -> None:
        """Connections made from now on are made with what the files hold now."""
        self._context = None if self._directory is None else client_context(self._directory)


def client_context(directory: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=directory / SERVER_CA)
    context.load_cert_chain(directory / CLIENT_CERTIFICATE, directory / CLIENT_KEY)
    return context


def report(tally: Tally, stopped: threading.Event) -> None:
    while not stopped.wait(EVERY):
        say(tally)


_SAYING = threading.Lock()


def say(tally: Tally) -> None:
    with _SAYING:
        line = tally.take() | {"time": time.monotonic()}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
