"""Names in kube-scheduler's configuration that are nearly those of in-tree plugins.

kube-scheduler refuses an enabled plugin that it does not have, but not one that is disabled or only has arguments: then
nothing is disabled, and the arguments are read by no plugin. Here, a name that is not in-tree may be a plugin that
kube-scheduler was built with.

Rule: only a name that one slip of the keyboard explains is reported.
"""

from collections.abc import Iterator
from typing import Final

from extender.config.document import KeyPath
from extender.config.scheduler.check import Finding
from extender.config.scheduler.plugins import IN_TREE
from extender.config.scheduler.schema import KubeSchedulerConfiguration, PluginsSection, ProfileSection
from extender.config.values import closest

MIN_SIMILARITY: Final = 0.9
"""Ratio of difflib from which a name counts as misspelt: one letter in ten."""


def find_misspelt_plugins(config: KubeSchedulerConfiguration) -> Iterator[Finding]:
    """Yield a warning for each name that is nearly that of an in-tree plugin."""
    for number, profile in enumerate(config.profiles):
        for path, name, effect in _names(profile, ("profiles", number)):
            meant = None if name in IN_TREE else closest(name, IN_TREE, MIN_SIMILARITY)
            if meant is not None:
                advice = f"if {meant} is meant, correct the name"
                yield Finding("warning", path, f"{name} is not an in-tree plugin{effect}", advice)


def _names(profile: ProfileSection, path: KeyPath) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield (path, name, what follows if the plugin is unknown)."""
    plugins = profile.plugins or PluginsSection()
    for field, info in PluginsSection.model_fields.items():
        point, one = str(info.alias), getattr(plugins, field)
        for index, plugin in enumerate(one.enabled):
            yield (*path, "plugins", point, "enabled", index), plugin.name, ": it is not evaluated here"
        for index, plugin in enumerate(one.disabled):
            yield (*path, "plugins", point, "disabled", index), plugin.name, ": nothing is disabled"
    for index, config in enumerate(profile.plugin_config):
        yield (*path, "pluginConfig", index), config.name, ": its arguments have no effect here"
