"""A mistake in kube-scheduler's file, or one that only another version accepts, never holds up our own settings."""

import asyncio

import pytest

from extender.cluster.cache.cache import ClusterCache
from extender.config import load_config
from extender.errors import NotReady
from extender.k8s.version.found import FoundVersion
from extender.server import settings
from extender.server.app import create_app
from extender.server.settings import ConfigFile, LiveSettings
from tests.server.conftest import configuration, filled_cache
from tests.server.test_scheduler_file import HEAD, WRONG, Files, look
from tests.server.test_settings import FollowingFile, write

pytestmark = pytest.mark.anyio

NAMED = f"{HEAD}profiles: [{{schedulerName: NAME}}]\n"
SINCE_35 = f"{HEAD}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: NodeDeclaredFeatures}}]}}}}}}]\n"


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def names(live):
    return [one.scheduler_name for one in live.active.scheduler.profiles]


async def following(files, found=None):
    live = LiveSettings(load_config(files.own, {}), files.file, found)
    await look(live, 3)
    return live


# --- mistakes -------------------------------------------------------------------------------------------------------


async def test_kube_scheduler_s_file_may_be_renamed(files, tmp_path):
    live = await following(files)
    files.scheduler.unlink()
    write(tmp_path / "other.yaml", NAMED.replace("NAME", "renamed"))
    write(files.own, f"scheduler: {{config: {tmp_path / 'other.yaml'}}}")
    await look(live, 6)
    assert (names(live), live.is_valid, live.warnings()) == (["renamed"], True, [])


async def test_a_named_file_with_a_mistake_is_followed_until_it_is_corrected(files, tmp_path):
    live, other = await following(files), tmp_path / "other.yaml"
    write(other, WRONG)
    write(files.own, f"scheduler: {{config: {other}}}")
    await look(live, 6)
    assert (live.failure.unread or "").startswith(f"{other}:4: profiles[0]")
    write(other, NAMED.replace("NAME", "corrected"))
    await look(live, 6)
    assert (names(live), live.is_valid) == (["corrected"], True)


@pytest.mark.parametrize("mistake", [WRONG, SINCE_35, None], ids=["unknown key", "of another version", "missing"])
async def test_our_own_settings_take_effect_beside_a_mistake_in_kube_scheduler_s_file(files, mistake):
    live = await following(files, FoundVersion(34, "a pod"))
    before = live.active
    if mistake is None:
        files.scheduler.unlink()
    else:
        write(files.scheduler, mistake)
    await look(live, 4)
    assert live.active is before
    assert not live.is_valid
    policies = "killSwitch: {enabled: true}\npreemption: {preset: careful}\n"
    write(files.own, f"scheduler: {{config: {files.scheduler}}}\n{policies}")
    await look(live, 4)
    assert (live.active.kill_switch, live.active.on_preempt_failure) == ("Veto", "Veto")
    assert live.active.scheduler.preemption.disruption_budgets == "Strict"
    assert live.active.scheduler.profiles[0].filter_plugins == before.scheduler.profiles[0].filter_plugins
    assert not live.is_valid
    assert str(files.scheduler) in "\n".join(live.warnings())


async def test_the_kill_switch_is_thrown_within_10_s_while_kube_scheduler_s_file_has_a_mistake(files):
    async with FollowingFile(files.own) as service:
        write(files.scheduler, WRONG)
        for _ in range(3):
            await service.sleeps.turn()
        write(files.own, f"killSwitch: {{enabled: true}}\nscheduler: {{config: {files.scheduler}}}")

        async def thrown():
            return await service.gauge("extender_kill_switch") == "1.0"

        assert await service.until(thrown) <= 6
        assert await service.gauge("extender_config_valid") == "0.0"
        assert await service.victims() == {}


# --- versions -------------------------------------------------------------------------------------------------------


async def test_a_file_that_is_written_before_an_upgrade_takes_effect_with_the_upgrade(files, caplog):
    live = await following(files, FoundVersion(34, "a pod"))
    write(files.scheduler, SINCE_35.replace("plugins", "schedulerName: new, plugins", 1))
    await look(live, 6)
    assert names(live) == ["default-scheduler"]
    (said,) = live.warnings()
    assert said.endswith(
        '"NodeDeclaredFeatures" does not exist, for kube-scheduler 1.34 (a pod); using the previous one'
    )
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert live.problem is None
    live.use_version(FoundVersion(36, "another pod"))
    assert (names(live), live.active.scheduler.minor) == (["new"], 36)
    assert (live.is_valid, live.warnings()) == (True, [])


async def test_without_any_configuration_that_fitted_the_version_found_nothing_is_decided(files):
    write(files.scheduler, SINCE_35)
    config = load_config(files.own, {}, {"--kubernetes": ("cluster.source", "kubernetes")})
    live = create_app(filled_cache(), config, file=ConfigFile(files.own, lambda: config)).server_context
    assert live.problem() is None
    live.live_settings.use_version(FoundVersion(33, "image tag v1.33.2"))
    with pytest.raises(NotReady, match=r"NodeDeclaredFeatures.*for kube-scheduler 1\.33 \(image tag v1\.33\.2\)"):
        live.snapshot()
    write(files.scheduler, NAMED.replace("NAME", "mended"))
    await look(live.live_settings, 3)
    await asyncio.sleep(0)
    assert live.problem() is None
    assert live.settings.scheduler.minor == 33
    live.live_settings.use_version(FoundVersion(34, "image tag v1.34.0"))
    write(files.scheduler, SINCE_35)
    await look(live.live_settings, 3)
    assert (live.problem(), live.live_settings.is_valid) == (None, False)


# --- preparing ------------------------------------------------------------------------------------------------------


class Preparing:
    """Settings whose cluster cache is prepared as a test says; `slept`: seconds between two attempts."""

    def __init__(self):
        self.slept = []
        self.outcomes = []
        self.config = configuration(scheduler={"version": "1.36"})
        self.live = LiveSettings(configuration(scheduler={"version": "1.33"}), ConfigFile(None, self.load, self.sleep))
        self.live.cache, self.live.adopt = filled_cache(), self.adopt
        self.live.cache.prepare_for(self.live.active.scheduler)

    def load(self):
        return self.config

    async def sleep(self, seconds):
        self.slept.append(seconds)

    async def adopt(self, scheduler, activate):
        outcome = self.outcomes.pop(0)
        if outcome == "fails":
            raise RuntimeError("a bug")
        activate()
        if outcome == "fails afterwards":
            raise RuntimeError("a bug")

    async def change(self, *outcomes):
        self.outcomes += outcomes
        await look(self.live, 3)
        for task in asyncio.all_tasks():
            if task.get_name() == "adopt":
                await task


async def test_a_preparation_that_fails_is_tried_again(caplog):
    preparing = Preparing()
    await preparing.change("fails", "fails", "works")
    assert preparing.slept == [settings.ADOPT_RETRY_SECONDS] * 2
    assert preparing.live.active.scheduler.minor == 36
    assert preparing.live.warnings() == []
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 2
    assert errors[0].endswith("keeping the previous ones")


async def test_a_failure_after_the_change_is_not_said_to_keep_the_previous_settings(caplog):
    preparing = Preparing()
    await preparing.change("fails afterwards")
    assert (preparing.slept, preparing.live.active.scheduler.minor) == ([], 36)
    (error,) = (record.getMessage() for record in caplog.records if record.levelname == "ERROR")
    assert error.startswith("new settings applied")


async def test_another_version_during_the_first_build_is_that_of_the_first_snapshot(tmp_path):
    own = tmp_path / "extender.yaml"
    write(own, "scheduler: {version: '1.36'}")
    file = ConfigFile(own, lambda: load_config(own, {}))
    cache = ClusterCache()
    live = create_app(cache, file.load(), file=file).server_context.live_settings
    await look(live, 3)
    objects = filled_cache().api_objects()
    steps = cache.build({"Node": objects.nodes, "Pod": objects.pods})
    next(steps)
    write(own, "scheduler: {version: '1.30'}")
    await look(live, 3)
    for _ in steps:
        pass
    assert live.active.scheduler.minor == 30
    assert cache.snapshot().features == live.active.scheduler.features
