"""Run one soak from start to shutdown and record it as a `Course`.

Rule: a slow step does not delay others; a failed step is recorded in the course.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.service import free_port
from benchmarks.soak import schedule, watching
from benchmarks.soak.course import Course, Done, End
from benchmarks.soak.operator import Certificates, SettingsFile, until
from benchmarks.soak.processes import Load, Service, World
from benchmarks.soak.schedule import Step

START_SECONDS = 180.0
CALM_SECONDS = 10.0
"""Maximum seconds without changes before the cache is compared."""
CALLS_AFTER_SIGTERM_SHARE = 0.5
"""Share of the drain time in which schedulers still call, until they would notice that the service is not ready."""
END_SECONDS = 40.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of a soak."""

    minutes: float
    nodes: int
    rate: float
    """Scheduling cycles per second of all schedulers together."""
    events: float
    """Cluster changes per second."""
    seed: int
    directory: Path
    """Empty directory for configuration, certificates and logs."""
    schedulers: int = 4
    sample_every: float = 5.0
    steps: Sequence[Step] | None = None
    """Steps to run; None: those of the schedule."""
    drain: float = 10.0
    """server.drainTime of the service, in seconds."""
    decisions: int = 500
    """debug.decisions of the service."""
    record: bool = False
    tls: bool = True
    tenants: bool = True
    """Whether two hostile tenants have pods; see `tenants`."""


OnSample = Callable[[Course], None]


def soak(plan: Plan, on_sample: OnSample) -> Course:
    """Run the soak; `on_sample` is called after each sample."""
    course = Course(plan.nodes, plan.rate, plan.events, schedule.STALE_AFTER)
    with contextlib.ExitStack() as stack:
        Soak(plan, course, stack).run(on_sample)
    return course


class Soak:
    """Processes and threads of one soak."""

    def __init__(self, plan: Plan, course: Course, stack: contextlib.ExitStack) -> None:
        self._plan = plan
        self._course = course
        self._stack = stack
        self._port, self._admin_port = free_port(), free_port()
        self._admin = watching.Admin(self._admin_port)
        self._load: Load | None = None
        self._shared = ["--seed", str(plan.seed), "--nodes", str(plan.nodes), *(["--tenants"] if plan.tenants else [])]
        self._world = World(*self._shared, "--rate", str(plan.events))
        stack.callback(self._world.close)
        self._certificates = Certificates(plan.directory, self._renew) if plan.tls else None
        admin = watching.Admin(self._admin_port)
        stack.callback(self._admin.close)
        stack.callback(admin.close)
        self._settings = SettingsFile(plan.directory / "config", self._configuration(), admin)
        self._service = Service(plan.directory, self._settings.path)
        stack.callback(self._service.close)
        self._steps: list[Future[Done]] = []

    def _configuration(self) -> dict[str, Any]:
        kubeconfig = self._plan.directory / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(kubeconfig_of(self._world.url)))
        stale = f"{schedule.STALE_AFTER:g}s"
        cluster = {"source": "kubernetes", "kubeconfig": str(kubeconfig), "staleAfter": stale, "verifyInterval": "60s"}
        server: dict[str, Any] = {"port": self._port, "drainTime": f"{self._plan.drain:g}s"}
        if self._certificates is not None:
            server["tls"] = self._certificates.settings()
        sections: dict[str, Any] = {"cluster": cluster, "server": server, "admin": {"port": self._admin_port}}
        sections["debug"] = {"decisions": self._plan.decisions}
        if self._plan.record:
            sections["recording"] = {"directory": str(self._plan.directory / "recording")}
        return sections

    def _renew(self) -> None:
        if self._load is not None:
            self._load.renew()

    # --- the course ---

    def run(self, on_sample: OnSample) -> None:
        self._start()
        with self._watched():
            self._go(on_sample)
            self._finish()

    def _start(self) -> None:
        def is_ready() -> bool:
            if self._service.process.poll() is not None:
                raise RuntimeError(f"the service exited:\n{self._service.log.read_text()[-2000:]}")
            return self._admin.get("/readyz")[0] == 200

        if until(is_ready, START_SECONDS) is None:
            raise RuntimeError(f"the service is not ready:\n{self._service.log.read_text()[-2000:]}")
        plan = self._plan
        options = [*self._shared, "--port", str(self._port)]
        options += ["--rate", str(plan.rate), "--schedulers", str(plan.schedulers)]
        if self._certificates is not None:
            options += ["--certificates", str(self._certificates.client_directory)]
        self._load = Load(self._course.reports.append, *options)
        self._stack.callback(self._load.close)
        until(lambda: bool(self._course.reports and self._course.reports[-1].counts.get("cycles")), START_SECONDS)
        self._course.reports.clear()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        watchers = [one(self._admin_port, self._course) for one in (watching.Readiness, watching.AdminReader)]
        for watcher in watchers:
            watcher.start()
        try:
            yield
        finally:
            for watcher in watchers:
                watcher.end()

    def _go(self, on_sample: OnSample) -> None:
        """Run samples and steps until the time is over."""
        plan, course = self._plan, self._course
        steps = list(schedule.steps_of(plan.minutes) if plan.steps is None else plan.steps)
        before, cpu = self._world.do("count")["changes"], self._cpu()
        waited = watching.waited_seconds(self._service.process.pid)
        course.began = time.monotonic()
        ends, sampled = course.began + 60 * plan.minutes, 0
        with ThreadPoolExecutor(8) as pool:
            while (now := time.monotonic()) < ends:
                while steps and course.began + steps[0].second <= now:
                    self._steps.append(pool.submit(self._do, steps.pop(0)))
                if now >= course.began + sampled * plan.sample_every:
                    sampled += 1
                    self._sample()
                    on_sample(course)
                time.sleep(0.05)
            course.changes = self._world.do("count")["changes"] - before
            course.waited = watching.waited_seconds(self._service.process.pid) - waited
            course.cpu = {name: seconds - cpu[name] for name, seconds in self._cpu().items()}
            course.done += [step.result() for step in self._steps]

    def _cpu(self) -> dict[str, float]:
        load = self._load.process if self._load else 0
        processes = {"service": self._service.process.pid, "cluster": self._world.process, "load": load}
        return {name: watching.cpu_seconds(process) for name, process in processes.items()}

    def _sample(self) -> None:
        process = self._service.process.pid
        self._course.samples.append(watching.sample(process, self._service.counts, self._admin.metrics()))

    def _do(self, step: Step) -> Done:
        begin = time.monotonic()
        try:
            if step.what in schedule.IN_WORLD:
                self._world.do(step.what)
                return Done(begin, step.what, time.monotonic() - begin)
            return self._operate(step.what)
        except Exception as error:
            return Done(begin, step.what, None, f"{type(error).__name__}: {error}")

    def _operate(self, what: str) -> Done:
        certificates, settings = self._certificates, self._settings
        match what:
            case "usual":
                return settings.usual()
            case "careful" | "strict":
                return settings.preset(what)
            case "kill switch":
                return settings.kill_switch()
            case "bad file":
                return settings.bad_file()
        if certificates is None:
            return Done(time.monotonic(), what)
        match what:
            case "rotate":
                return certificates.rotate(self._port)
            case "rotate authority":
                return certificates.rotate_authority(self._port)
        return certificates.mismatch(self._port)

    # --- the end ---

    def _finish(self) -> None:
        equal, text = self._compared()
        process = self._service.process
        self._course.ended = signalled = time.monotonic()
        self._service.terminate()
        until(lambda: process.poll() is not None, CALLS_AFTER_SIGTERM_SHARE * self._plan.drain)
        if self._load is not None:
            self._load.stop()
        until(lambda: process.poll() is not None, END_SECONDS)
        code = process.poll()
        self._course.end = End(signalled, time.monotonic() - signalled, -1 if code is None else code, equal, text)

    def _compared(self) -> tuple[bool, str]:
        """Return whether the cache equals the API server after changes stopped."""
        self._world.do("quiet")
        wanted = self._world.do("count")
        expected = f"{wanted['nodes']} nodes, {wanted['running']} running pods"
        seconds = until(lambda: expected in self._admin.get("/readyz?verbose")[1].decode(), CALM_SECONDS)
        self._world.do("lively")
        if seconds is not None:
            return True, f"equal after {seconds:.1f} s: {expected}"
        return False, f"not {expected}: {self._admin.get('/readyz?verbose')[1].decode()[:200]}"


def kubeconfig_of(url: str) -> dict[str, Any]:
    """Credentials for an API server without authentication."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "soak", "cluster": {"server": url}}],
        "users": [{"name": "soak", "user": {}}],
        "contexts": [{"name": "soak", "context": {"cluster": "soak", "user": "soak"}}],
        "current-context": "soak",
    }
