"""What nodes say of themselves: images, for containers and image volumes, and the features that they declare."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.upstream.generate.quantities import canonical_cpu
from tests.upstream.generate.scenario import Scenario
from tests.upstream.generate.wide.features import restart_rules
from tests.upstream.generate.words import JSON

IMAGES: Final = tuple(f"registry.example/m{number}:v1" for number in range(5))
SIZES: Final = (5, 23, 24, 100, 400, 800, 1000, 2500, 9000)
"""Megabytes of an image."""
FREQUENT: Final = (
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "ExtendWebSocketsToKubelet",
    "VolumeBindMountOptions",
)
"""Features that nodes declare; RARE ones less often."""
RARE: Final = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "Unknown",
)
KUBELETS: Final = ("v1.34.1", "v1.35.0", "v1.36.2", "v1.37.2", "v1.38.0")


# --- images -----------------------------------------------------------------------------------------------------------


def add_image_volumes(scenario: Scenario) -> None:
    """Put images on nodes; the incoming pod has containers, init containers and volumes of them."""
    random, spec = scenario.random, scenario.pod["spec"]
    for node in scenario.nodes:
        node["status"]["images"] = [_image(scenario, name) for name in IMAGES if scenario.chance(0.55)]
    first = dict(spec["containers"][0], image=random.choice(IMAGES))
    count = random.choice([0, 0, 1, 2])
    spec["containers"] = [first, *_containers(scenario, "x", count)]
    if scenario.chance(0.4):
        spec["initContainers"] = _containers(scenario, "i", random.choice([1, 2]))
    references = [*IMAGES, "registry.example/m0", "registry.example/none:v1"]
    volumes: list[JSON] = [
        {"name": f"iv{number}", "image": {"reference": random.choice(references), "pullPolicy": "IfNotPresent"}}
        for number in range(random.choice([0, 1, 1, 2, 4, 8]))
    ]
    if scenario.chance(0.3):
        volumes.append({"name": "e", "emptyDir": {}})
    if volumes:
        spec["volumes"] = volumes


def _image(scenario: Scenario, name: str) -> JSON:
    names = [name, f"{name}@sha256:{'0' * 64}"] if scenario.chance(0.3) else [name]
    return {"names": names, "sizeBytes": scenario.random.choice(SIZES) * 10**6}


def _containers(scenario: Scenario, stem: str, count: int) -> list[JSON]:
    return [scenario.container({}, f"{stem}{number}", image=scenario.random.choice(IMAGES)) for number in range(count)]


# --- declared features ------------------------------------------------------------------------------------------------


def declare_features(scenario: Scenario) -> None:
    """Let nodes declare features, and the incoming pod need one or two."""
    random = scenario.random
    for node in scenario.nodes:
        if scenario.chance(0.8):
            features = random.sample(FREQUENT, random.randint(1, 4)) + random.sample(RARE, random.randint(0, 2))
            node["status"]["declaredFeatures"] = sorted(features)
        if scenario.chance(0.3):
            node["status"]["nodeInfo"] = {"kubeletVersion": random.choice(KUBELETS)}
    kinds = ["restart", "userns", "level", "initrestart", "hostusers", "restart", "userns"]
    if scenario.chance(0.4):  # rarer: an API server drops bindMountOptions unless VolumeBindMountOptions is on
        kinds += ["bind", "initbind"]
    for kind in dict.fromkeys(random.sample(kinds, random.choice([1, 2, 2]))):
        scenario.tag(f"d-{kind}")
        NEEDS[kind](scenario)


def _restart(scenario: Scenario) -> None:
    container = scenario.pod["spec"]["containers"][0]
    container["restartPolicy"] = "Never"
    restart_rules(container, "RestartAllContainers")


def _init_restart(scenario: Scenario) -> None:
    restart_rules(_init_container(scenario), "RestartAllContainers")


def _init_container(scenario: Scenario) -> JSON:
    spec = scenario.pod["spec"]
    # Drawn whether or not it is the first one.
    container: JSON = spec.setdefault("initContainers", [scenario.container({}, "i0")])[0]
    return container


def _user_namespace(scenario: Scenario) -> None:
    scenario.pod["spec"] |= {"hostNetwork": True, "hostUsers": False}


def _host_users(scenario: Scenario) -> None:
    scenario.pod["spec"]["hostUsers"] = False


def _pod_level(scenario: Scenario) -> None:
    cpu = max(1, scenario.cpu_unit)
    scenario.pod["spec"]["resources"] = {"requests": {"cpu": canonical_cpu(cpu)}}


def _bind(scenario: Scenario) -> None:
    _add_directory(scenario, "bind")
    _mount(scenario, scenario.pod["spec"]["containers"][0], "bind")


def _init_bind(scenario: Scenario) -> None:
    _add_directory(scenario, "initbind")
    _mount(scenario, _init_container(scenario), "initbind")


def _add_directory(scenario: Scenario, name: str) -> None:
    scenario.pod["spec"].setdefault("volumes", []).append({"name": f"e{name}", "emptyDir": {}})


def _mount(scenario: Scenario, container: JSON, name: str) -> None:
    """Mount an empty directory, in most cases with options."""
    volume_mount: JSON = {"name": f"e{name}", "mountPath": f"/{name}"}
    if scenario.chance(0.8):
        volume_mount["bindMountOptions"] = ["noexec"]
    container.setdefault("volumeMounts", []).append(volume_mount)


NEEDS: Final[Mapping[str, Callable[[Scenario], None]]] = {
    "restart": _restart,
    "userns": _user_namespace,
    "level": _pod_level,
    "initrestart": _init_restart,
    "hostusers": _host_users,
    "bind": _bind,
    "initbind": _init_bind,
}
