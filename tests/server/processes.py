"""`extender serve` as a process of its own on loopback, with the example cluster."""

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading

LIMIT = 30.0
"""Seconds that nothing here takes."""


class Process:
    """`extender serve` with the example cluster, and its two ports."""

    def __init__(self, *arguments, prefix=(), **settings):
        """`prefix`: a command that starts the service, such as one that lowers a limit of the process first."""
        given = {"SERVER__PORT": "0", "ADMIN__PORT": "0", **settings}
        environment = os.environ | {f"EXTENDER_{key}": value for key, value in given.items()}
        command = [*prefix, sys.executable, "-m", "extender", "serve", *arguments]
        self.process = subprocess.Popen(
            command,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # tests that run under nohup ignore it
        )
        assert self.process.stderr is not None
        self._said = self.process.stderr
        self.lines: list[str] = []
        self.ports: dict[str, int] = {}
        self._are_known = threading.Event()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()
        if not self._are_known.wait(LIMIT) or len(self.ports) < 2:
            self.close()
            raise AssertionError(self.lines)

    def _read(self):
        for line in self._said:
            self.note(line)
        self._are_known.set()

    def note(self, line):
        """Keep a line of standard error; two of them name the ports."""
        self.lines.append(line)
        found = re.search(r"(admin|scheduler): listening on https?://127\.0\.0\.1:(\d+)", line)
        if found:
            self.ports[found[1]] = int(found[2])
        if len(self.ports) == 2:
            self._are_known.set()

    def connection(self, which="scheduler", timeout=LIMIT):
        return http.client.HTTPConnection("127.0.0.1", self.ports[which], timeout=timeout)

    def connect(self, which="scheduler"):
        return socket.create_connection(("127.0.0.1", self.ports[which]), timeout=LIMIT)

    def readyz(self):
        """Status; None once the port is closed."""
        with contextlib.closing(self.connection("admin")) as connection:
            try:
                return get(connection, "/readyz").status
            except ConnectionError:
                return None

    def say(self, number):
        self.process.send_signal(number)

    def ends(self):
        """The exit code."""
        code = self.process.wait(LIMIT)
        self._reading.join(LIMIT)
        return code

    def close(self):
        self.process.kill()
        self.ends()
        self._said.close()


@contextlib.contextmanager
def running(*arguments, **settings):
    with contextlib.closing(Process(*arguments, **settings)) as process:
        yield process
        assert not [line for line in process.lines if "Traceback" in line or " ERROR " in line], process.lines


def get(connection, path):
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response
