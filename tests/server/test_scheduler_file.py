"""kube-scheduler's own file is followed as ours is; a change of version waits for the cluster cache."""

import asyncio
import json
import logging
from functools import partial

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.cluster.files.source import FileSource
from extender.config import load_config
from extender.server.app import create_app
from extender.server.settings import ConfigFile, LiveSettings
from tests.k8s.version.test_found import scheduler_pod
from tests.server.conftest import CLUSTER, client_for, configuration, filled_cache, filter_body
from tests.server.test_settings import FollowingFile, write

pytestmark = pytest.mark.anyio

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ANYWHERE = f"{HEAD}profiles:\n- plugins: {{filter: {{disabled: [{{name: '*'}}]}}}}\n"
WRONG = f"{HEAD}profiles:\n- plugins: {{filter: {{enabled: [{{nam: x}}]}}}}\n"


class Files:
    """Our file and kube-scheduler's."""

    def __init__(self, directory, more=""):
        self.own, self.scheduler = directory / "extender.yaml", directory / "scheduler.yaml"
        write(self.own, f"scheduler: {{config: {self.scheduler}{more}}}")
        write(self.scheduler, HEAD)

    @property
    def file(self):
        return ConfigFile(self.own, partial(load_config, self.own, {}))

    def live(self):
        return LiveSettings(load_config(self.own, {}), self.file)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def filters(live):
    return live.active.scheduler.profiles[0].filter_plugins


async def look(live, times):
    return [await live.poll(live._file) for _ in range(times)]


async def test_a_change_of_kube_scheduler_s_file_takes_effect_without_a_restart(files):
    live = files.live()
    assert await look(live, 3) == [False] * 3
    write(files.scheduler, ANYWHERE)
    assert await look(live, 3) == [False, True, False]
    assert filters(live) == ()
    assert live.restart_required == []


async def test_it_is_followed_without_a_file_of_ours(files):
    overrides = {"--scheduler-config": ("scheduler.config", str(files.scheduler))}
    file = ConfigFile(None, partial(load_config, None, {}, overrides))
    live = LiveSettings(file.load(), file)
    write(files.scheduler, ANYWHERE)
    assert await look(live, 2) == [False, True]
    assert filters(live) == ()


async def test_another_file_may_be_named(files, tmp_path):
    live = files.live()
    await look(live, 2)
    write(tmp_path / "other.yaml", ANYWHERE)
    write(files.own, f"scheduler: {{config: {tmp_path / 'other.yaml'}}}")
    assert await look(live, 2) == [False, True]
    write(tmp_path / "other.yaml", HEAD)
    assert (await look(live, 4)).count(True) == 1
    assert filters(live) != ()


async def test_a_configmap_s_symbolic_links_are_followed(tmp_path):
    for name, text in (("..1", HEAD), ("..2", ANYWHERE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scheduler.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..1")
    path = tmp_path / "scheduler.yaml"
    path.symlink_to("..data/scheduler.yaml")
    file = ConfigFile(None, lambda: configuration(scheduler={"config": str(path)}))
    live = LiveSettings(file.load(), file)
    await look(live, 2)
    (tmp_path / "..tmp").symlink_to("..2")
    (tmp_path / "..tmp").rename(tmp_path / "..data")
    assert await look(live, 2) == [False, True]


async def test_a_wrong_file_keeps_the_settings_and_is_said_with_its_place(files, caplog):
    live = files.live()
    await look(live, 2)
    before = live.active
    write(files.scheduler, WRONG)
    with caplog.at_level(logging.INFO):
        assert await look(live, 5) == [False] * 5
    assert live.active is before
    record = caplog.records[0]  # each mistake has a line of its own
    place = f"{files.scheduler}:4: profiles[0].plugins.filter.enabled[0].nam: unknown"
    assert record.getMessage().startswith(f"configuration reload failed, keeping the previous one: {place}")
    assert live.warnings()[0].startswith(f"configuration: {place}")
    write(files.scheduler, ANYWHERE)
    assert (await look(live, 2)).count(True) == 1
    assert live.warnings() == []


async def test_a_file_that_goes_is_said_and_one_that_comes_back_the_same_is_right_again(files):
    live = files.live()
    await look(live, 2)
    away = files.scheduler.rename(files.scheduler.with_suffix(".away"))
    assert await look(live, 3) == [False] * 3
    assert live.failure.unread == f"{files.scheduler}: No such file or directory"
    away.rename(files.scheduler)
    await look(live, 2)
    assert live.failure.unread is None


# --- in the service ---------------------------------------------------------------------------------------------------


async def test_other_profiles_judge_the_next_call(tmp_path):
    files = Files(tmp_path)
    async with FollowingFile(files.own) as service:
        assert await service.nodes() == ["worker-1"]
        write(files.scheduler, ANYWHERE)

        async def anywhere():
            return await service.nodes() == ["worker-1", "worker-2", "worker-3"]

        assert await service.until(anywhere) <= 6


async def test_another_version_is_said_and_rebuilds_the_snapshot(tmp_path):
    files = Files(tmp_path, ", version: '1.33'")
    async with FollowingFile(files.own) as service:
        snapshot = service.app.server_context.cache.snapshot()
        assert not snapshot.features.read_write_once_pod_reason_of_1_34
        write(files.own, f"scheduler: {{config: {files.scheduler}, version: '1.36'}}")

        async def newer():
            return "[+] kube-scheduler 1.36 (configured)" in (await service.client.get("/readyz?verbose")).text

        assert await service.until(newer) <= 6
        assert service.app.server_context.cache.snapshot().features.read_write_once_pod_reason_of_1_34
        assert await service.nodes() == ["worker-1"]


class Slow(FileSource):
    """A source whose preparation waits for the test."""

    def __init__(self, path, cache):
        super().__init__(path, cache)
        self.may_go_on = asyncio.Event()
        self.load()

    async def adopt(self, scheduler, activate):
        await self.may_go_on.wait()
        await super().adopt(scheduler, activate)


def cluster_file(directory, *pods):
    path = directory / "cluster.json"
    path.write_text(json.dumps({**CLUSTER, "items": [*CLUSTER["items"], *pods]}))
    return path


async def test_calls_are_judged_by_the_old_version_as_a_whole_until_the_new_snapshot_is_there(tmp_path):
    cache = ClusterCache()
    source = Slow(cluster_file(tmp_path), cache)
    wanted = [configuration(scheduler={"version": "1.33"})]
    file = ConfigFile(None, lambda: wanted[-1])
    app = create_app(cache, wanted[0], source, file=file)
    live, context = app.server_context.live_settings, app.server_context
    before = context.settings
    every = {"filter": {"disabled": [{"name": "*"}]}}
    wanted.append(configuration(scheduler={"version": "1.36", "profiles": [{"plugins": every}]}, mode="Observe"))
    live._set_target(live._loaded.from_config(wanted[-1]).settings())
    await asyncio.sleep(0)
    assert context.settings.scheduler is before.scheduler
    assert context.settings.is_observing
    assert not cache.snapshot().features.read_write_once_pod_reason_of_1_34
    assert "configuration: changed, takes effect once the cluster cache is prepared" in live.warnings()
    source.may_go_on.set()
    async with asyncio.timeout(10):
        while context.settings.scheduler is before.scheduler:
            assert not cache.snapshot().features.read_write_once_pod_reason_of_1_34
            await asyncio.sleep(0)
    assert cache.snapshot().features.read_write_once_pod_reason_of_1_34
    assert context.settings.scheduler.minor == 36
    assert context.settings.scheduler.profiles[0].filter_plugins == ()


async def test_a_change_that_is_taken_back_while_it_is_prepared_never_happens(tmp_path):
    cache = ClusterCache()
    source = Slow(cluster_file(tmp_path), cache)
    first, second = (configuration(scheduler={"version": version}) for version in ("1.33", "1.36"))
    live = create_app(cache, first, source).server_context.live_settings
    before, snapshot = live.active, cache.snapshot()
    live._set_target(live._loaded.from_config(second).settings())
    await asyncio.sleep(0)
    live._set_target(live._loaded.from_config(first).settings())
    source.may_go_on.set()
    await asyncio.sleep(0.05)
    assert live.active == before
    assert cache.snapshot() is snapshot
    assert live.warnings() == []


async def test_the_version_is_that_of_the_pods_in_a_cluster_file(tmp_path):
    path, cache = cluster_file(tmp_path, scheduler_pod()), ClusterCache()
    source = FileSource(path, cache)
    source.load()
    app = create_app(cache, configuration(), source)
    assert app.server_context.settings.scheduler.minor == 33
    assert not cache.snapshot().features.read_write_once_pod_reason_of_1_34
    cluster_file(tmp_path, scheduler_pod(image="kube-scheduler:v1.36.0"))
    async with asyncio.timeout(10):
        while app.server_context.settings.scheduler.minor != 36:
            await source.poll()
            await asyncio.sleep(0)
    assert cache.snapshot().features.read_write_once_pod_reason_of_1_34
    async with client_for(app) as client:
        assert (await client.post("/filter", content=filter_body())).json()["NodeNames"] == ["worker-1"]


async def test_what_is_not_evaluated_is_logged_once_at_the_start(caplog):
    plugins = {"filter": {"enabled": [{"name": "Labels"}]}}
    gates = {"SchedulerPopFromBackoffQ": True}
    scheduler = {"profiles": [{"plugins": plugins}], "featureGates": gates}
    app = create_app(filled_cache(), configuration(scheduler=scheduler))
    with caplog.at_level(logging.INFO):
        async with app.lifespan(), client_for(app) as client:
            await asyncio.sleep(0)
            for _ in range(3):
                await client.post("/filter", content=filter_body())
            metrics = (await client.get("/metrics")).text
    said = [one.getMessage() for one in caplog.records if "not evaluated" in one.getMessage()]
    assert said == ["profile default-scheduler: not evaluated, left to kube-scheduler: Labels"]
    assert 'extender_not_evaluated_total{plugin="Labels"} 3.0' in metrics
    messages = [one.getMessage() for one in caplog.records]
    assert "kube-scheduler 1.37 (assumed: its version is not known); profiles: default-scheduler" in messages
    assert "feature gate SchedulerPopFromBackoffQ changes no verdict" in messages
