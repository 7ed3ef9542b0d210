"""The configuration file is followed while the service runs; one that is wrong takes nothing away."""

import asyncio
import logging
import os
from functools import partial

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.config import load_config
from extender.server.app import create_app
from extender.server.settings import ConfigFile, LiveSettings
from extender.utilities.file_watch import POLL_INTERVAL_SECONDS
from tests.server.conftest import client_for, filled_cache, filter_body, preempt_body

pytestmark = pytest.mark.anyio

KILL = "killSwitch: {enabled: true}"
OBSERVE = "mode: Observe"
WRONG = "preemption: {preset: x}\nmode: y"


class SleepSteps:
    """Stands in for asyncio.sleep: each sleep ends when a test says so; `now` counts the seconds slept."""

    def __init__(self):
        self.now = 0.0
        self._sleeping = asyncio.Event()
        self._goes_on = asyncio.Event()

    async def __call__(self, seconds):
        self._sleeping.set()
        await self._goes_on.wait()
        self._goes_on.clear()
        self.now += seconds

    async def asleep(self):
        await self._sleeping.wait()

    async def turn(self):
        """Let one sleep end, and wait for the next to begin."""
        await self.asleep()
        self._sleeping.clear()
        self._goes_on.set()
        await self.asleep()


def write(path, text):
    """Each write is one second later than the one before."""
    later = path.stat().st_mtime_ns + 10**9 if path.exists() else 10**18
    path.write_text(text)
    os.utime(path, ns=(later, later))


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "extender.yaml"
    write(found, "{}")
    return found


class Following:
    """A configuration file, and the settings that follow it; `env` and `overrides` as at the start."""

    def __init__(self, path, env=None, overrides=None):
        self.file = ConfigFile(path, partial(load_config, path, env or {}, overrides))
        self.live = LiveSettings(self.file.load(), self.file)

    @property
    def settings(self):
        return self.live.active

    async def look(self, times):
        """Which of the looks brought other settings."""
        return [await self.live.poll(self.file) for _ in range(times)]


# --- what takes effect ----------------------------------------------------------------------------------------------


async def test_a_file_that_does_not_change_changes_nothing(path, caplog):
    following = Following(path)
    before = following.settings
    with caplog.at_level(logging.INFO):
        assert await following.look(5) == [False] * 5
    assert following.settings is before
    assert not caplog.records


async def test_a_change_is_read_once_it_has_stood_still_for_one_look(path):
    following = Following(path)
    await following.look(2)
    write(path, KILL)
    assert await following.look(4) == [False, True, False, False]
    assert following.settings.kill_switch == "Veto"


async def test_a_change_between_the_start_and_the_first_look_is_seen(path):
    following = Following(path)
    write(path, KILL)
    assert await following.look(2) == [False, True]


async def test_a_file_that_is_still_being_written_is_read_after_three_looks_all_the_same(path):
    following = Following(path)
    await following.look(2)
    seen = []
    for number in range(6):
        write(path, f"scheduler: {{percentageOfNodesToScore: {number + 1}}}")
        seen += await following.look(1)
    assert seen == [False, False, True, False, False, True]


async def test_what_decisions_depend_on_changes_all_at_once(path):
    following = Following(path)
    plugins = "{filter: {disabled: [{name: '*'}], enabled: [{name: NodeName}]}}"
    scheduler = f"{{profiles: [{{schedulerName: a, plugins: {plugins}}}]}}"
    write(path, f"preemption: {{preset: careful}}\nmode: Observe\nscheduler: {scheduler}")
    await following.look(2)
    found = following.settings
    (profile,) = found.scheduler.profiles
    assert profile.preemption.disruption_budgets == "Strict"
    assert profile.scheduler_names == {"a"}
    assert profile.filter_plugins == ("NodeName",)
    assert (found.is_observing, found.on_preempt_failure) == (True, "Veto")


async def test_environment_and_command_line_stay_over_the_file(path):
    following = Following(path, {"EXTENDER_MODE": "Observe"}, {"--port": ("server.port", 9000)})
    write(path, "mode: Enforce\nserver: {port: 1}\npreemption: {preset: careful}")
    assert await following.look(2) == [False, True]
    assert following.settings.is_observing
    assert following.live.restart_required == []


async def test_a_configmap_s_symbolic_links_are_followed(tmp_path):
    """The kubelet makes a new directory and swaps the link `..data` to it; the file itself stays the same link."""
    for name, text in (("..1", "{}"), ("..2", KILL)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "extender.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..1")
    path = tmp_path / "extender.yaml"
    path.symlink_to("..data/extender.yaml")
    following = Following(path)
    assert await following.look(3) == [False, False, False]
    (tmp_path / "..tmp").symlink_to("..2")
    (tmp_path / "..tmp").rename(tmp_path / "..data")
    assert await following.look(2) == [False, True]
    assert following.settings.kill_switch == "Veto"


async def test_a_switch_that_is_thrown_is_logged_and_so_is_one_at_the_start(path, caplog):
    following = Following(path)
    write(path, KILL)
    await following.look(3)
    notes = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert notes == ["kill switch: on: every node is accepted, none is scored, no pod is evicted"]
    caplog.clear()
    await LiveSettings(following.file.load()).run()
    assert [record.getMessage() for record in caplog.records] == notes


# --- what waits for a restart ---------------------------------------------------------------------------------------


async def test_what_is_read_at_the_start_only_is_named_once_and_not_put_in_place(path, caplog):
    following = Following(path)
    before = following.settings
    write(path, "server: {port: 1, allowPlainHTTP: true}\ncluster: {staleAfter: 1m}\nbind: {timeout: 1s}")
    assert await following.look(5) == [False] * 5
    assert following.settings is before
    keys = "cluster.staleAfter, bind.timeout, server.port, server.allowPlainHTTP"
    warning = f"configuration: changed, restart required: {keys}"
    assert [record.getMessage() for record in caplog.records] == [warning]
    assert following.live.warnings() == [warning]
    write(path, OBSERVE)
    assert await following.look(2) == [False, True]
    assert following.live.restart_required == []


# --- what is wrong --------------------------------------------------------------------------------------------------


async def test_a_wrong_file_keeps_the_settings_and_every_mistake_is_logged_once(path, caplog):
    following = Following(path)
    before = following.settings
    write(path, WRONG)
    with caplog.at_level(logging.INFO):
        assert await following.look(6) == [False] * 6
    assert following.settings is before
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith(
        f"configuration reload failed, keeping the previous one: {path}:1: preemption.preset: must be"
    )
    assert second.startswith(f"configuration reload failed, keeping the previous one: {path}:2: mode: must be")
    assert [line.partition(": ")[0] for line in following.live.warnings()] == ["configuration"] * 2


async def test_a_mended_file_takes_effect_and_the_mistakes_are_forgotten(path):
    following = Following(path)
    write(path, WRONG)
    await following.look(2)
    write(path, OBSERVE)
    assert await following.look(2) == [False, True]
    assert following.live.failure.unread is None
    assert following.settings.is_observing


async def test_a_file_that_goes_and_comes_back_the_same_is_right_again(path, caplog):
    following = Following(path)
    await following.look(2)
    away = path.rename(path.with_suffix(".away"))
    assert await following.look(3) == [False, False, False]
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["No such file or directory"]
    away.rename(path)
    await following.look(2)
    assert following.live.failure.unread is None


async def test_not_even_a_bug_of_ours_ends_the_following(path):
    def broken():
        raise RuntimeError("a bug")

    live = LiveSettings(load_config(path, {}))
    file = ConfigFile(path, broken)
    assert [await live.poll(file) for _ in range(3)] == [False, False, False]
    assert live.failure.unread == "a bug"


# --- in the service -------------------------------------------------------------------------------------------------


class FollowingFile:
    """The application, with its lifespan, that follows a configuration file."""

    def __init__(self, path, cache=None):
        self.sleeps = SleepSteps()
        file = ConfigFile(path, partial(load_config, path, {}), self.sleeps)
        self.app = create_app(cache or filled_cache(), file.load(), file=file)

    async def __aenter__(self):
        self._lifespan = self.app.lifespan()
        await self._lifespan.__aenter__()
        await self.sleeps.asleep()
        self.client = client_for(self.app)
        return self

    async def __aexit__(self, *exc):
        await self.client.aclose()
        await self._lifespan.__aexit__(*exc)

    async def until(self, is_so):
        """Seconds until it is true."""
        began = self.sleeps.now
        while not await is_so():
            assert self.sleeps.now - began < 60
            await self.sleeps.turn()
        return self.sleeps.now - began

    async def nodes(self):
        return (await self.client.post("/filter", content=filter_body())).json()["NodeNames"]

    async def victims(self):
        return (await self.client.post("/preempt", content=preempt_body())).json()["NodeNameToMetaVictims"]

    async def gauge(self, name):
        lines = (await self.client.get("/metrics")).text.splitlines()
        return next(line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize("preempt", ["Veto", "PassThrough"])
@pytest.mark.parametrize("has_cache", [True, False], ids=["a cache", "no cache"])
async def test_R6_kill_switch_is_applied_within_10_s_without_a_restart(path, preempt, has_cache):
    async with FollowingFile(path, filled_cache() if has_cache else ClusterCache()) as service:
        for _ in range(3):
            await service.sleeps.turn()
        write(path, f"killSwitch: {{enabled: true, preempt: {preempt}}}")

        async def thrown():
            return await service.gauge("extender_kill_switch") == "1.0"

        assert await service.until(thrown) <= 10 - 2 * POLL_INTERVAL_SECONDS
        assert await service.nodes() == ["worker-1", "worker-2", "worker-3"]
        assert (await service.client.post("/prioritize", content=filter_body())).json() == []
        assert set(await service.victims()) == (set() if preempt == "Veto" else {"worker-1", "worker-2"})
        assert "[!] kill switch: on" in (await service.client.get("/readyz?verbose")).text


async def test_R6_kill_switch_is_applied_within_10_s_also_while_the_file_is_written_again_and_again(path):
    async with FollowingFile(path) as service:
        await service.sleeps.turn()

        async def thrown():
            write(path, KILL)
            return await service.gauge("extender_kill_switch") == "1.0"

        assert await service.until(thrown) <= 10 - POLL_INTERVAL_SECONDS


async def test_R6_kill_switch_is_taken_back_without_a_restart(path):
    write(path, KILL)
    async with FollowingFile(path) as service:
        assert await service.victims() == {}
        write(path, "{}")

        async def back():
            return await service.nodes() == ["worker-1"]

        assert await service.until(back) <= 10
        assert set(await service.victims()) == {"worker-1"}


async def test_a_wrong_file_is_shown_in_metrics_and_health_until_it_is_mended(path):
    async with FollowingFile(path) as service:
        write(path, WRONG)

        async def valid(is_valid="1.0"):
            return await service.gauge("extender_config_valid") == is_valid

        await service.until(partial(valid, "0.0"))
        ready = await service.client.get("/readyz?verbose")
        assert ready.status_code == 200
        assert f"[!] configuration: {path}:1: preemption.preset: must be" in ready.text
        assert await service.nodes() == ["worker-1"]
        write(path, "{}")
        await service.until(valid)
        assert "configuration" not in (await service.client.get("/readyz?verbose")).text


async def test_the_failure_rule_is_the_file_s_of_the_moment(path):
    async with FollowingFile(path, ClusterCache()) as service:
        assert (await service.client.post("/preempt", content=preempt_body())).status_code == 503
        write(path, "preemption: {onFailure: Veto}")

        async def vetoes():
            return (await service.client.post("/preempt", content=preempt_body())).status_code == 200

        assert await service.until(vetoes) <= 10


async def test_H7_a_fifo_in_place_of_the_file_is_reported_and_a_mended_file_is_read(path, caplog):
    following = Following(path)
    path.unlink()
    os.mkfifo(path)
    assert await following.look(3) == [False] * 3
    assert following.live.warnings() == [
        f"configuration: {path}: is a FIFO, not a regular file; using the previous one"
    ]
    assert len(caplog.records) == 1
    path.unlink()
    write(path, KILL)
    assert (await following.look(2)).count(True) == 1
    assert following.live.failure.unread is None
