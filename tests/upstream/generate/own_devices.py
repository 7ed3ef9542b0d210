"""Random small clusters with devices, claims and a pod that wants some: what dynamic resource allocation may meet.

A scenario is about a few `TOPICS`, which are its tags: what a topic names is frequent in it, and absent or rare
elsewhere, so that both outcomes of most features come about, and failures for one reason at a time.

Rule: the same seed and number give the same scenario; every object is one that kube-scheduler can be shown, though an
API server would refuse a few of them, such as selectors that do not compile.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

JSON = dict[str, Any]

TOPICS: Final = (
    "selectors",
    "first available",
    "constraints",
    "admin access",
    "allocated",
    "binding",
    "templates",
    "extended resources",
    "counters",
    "capacity",
    "taints",
    "placement",
    "pools",
    "several claims",
    "failing",
    "limits",
    "preemption",
    "nominated",
    "configured",
)
WEIGHTS: Final = (4, 8, 6, 3, 4, 3, 2, 6, 5, 6, 4, 5, 4, 3, 4, 2, 5, 2, 2)
"""How often a scenario is about each topic."""
DRIVERS: Final = ("gpu.example.com", "nic.example.com", "tpu.example.org")
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
PAST, LONG_AGO, FAR_AHEAD = "2025-01-01T00:00:00Z", "2024-06-01T08:00:00Z", "2099-01-01T00:00:00Z"
SELECTORS: Final = (
    'device.driver == "{driver}"',
    'device.attributes["{driver}"].model == "h100"',
    'device.attributes["{driver}"].model != "h100"',
    'device.attributes["{driver}"].model in ["a100", "h100"] && device.attributes["{driver}"].index < 2',
    'device.attributes["{driver}"].model.startsWith("h")',
    'device.attributes["{driver}"].model.matches("^[ab]1")',
    'device.attributes["{driver}"].index >= 1',
    'device.attributes["{driver}"].index % 2 == 0',
    'device.attributes["{driver}"].ok',
    '!device.attributes["{driver}"].ok || device.attributes["{driver}"].index == 0',
    'device.attributes["{driver}"].version.isGreaterThan(semver("1.2.0"))',
    'device.attributes["{driver}"].version.major() == 2',
    'device.attributes["{driver}"].version.compareTo(semver("v1.4", true)) <= 0',
    'device.capacity["{driver}"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.capacity["{driver}"].memory.isLessThan(quantity("50Gi"))',
    'device.capacity["{driver}"].memory == quantity("81920Mi")',
    'device.capacity["{driver}"].memory.asInteger() > 25000000000',
    '"{driver}" in device.attributes',
    '"rack" in device.attributes["site.example.com"]',
    'device.attributes["site.example.com"].rack == "r1"',
    'has(device.attributes["{driver}"].link) && device.attributes["{driver}"].link == 1',
    'device.attributes["{driver}"].?link.orValue(0) == 0',
    'device.attributes["{driver}"][?"link"].hasValue()',
    'cel.bind(d, device.attributes["{driver}"], d.model == "h100" || d.index > 0)',
    '["a100", "b100"].exists(m, m == device.attributes["{driver}"].model)',
    'device.attributes["{driver}"].model == "h100" ? device.attributes["{driver}"].ok : true',
    'string(device.attributes["{driver}"].index) == "1"',
    'size(device.attributes["other.example.com"]) == 0',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    'device.attributes["{driver}"].model.lowerAscii().contains("100")',
    'device.attributes["{driver}"].index + 1 == 2',
    'false && device.attributes["{driver}"].none == "x"',
    'device.attributes["{driver}"].none == "x" || device.driver.endsWith("example.com")',
)
FAILING_SELECTORS: Final = (
    'device.attributes["{driver}"].none == "x"',
    'device.attributes["other.example.com"].x == "x"',
    'device.attributes["{driver}"].link == 1',
    'device.capacity["{driver}"].none.compareTo(quantity("1")) >= 0',
    'device.attributes["{driver}"].model < 3',
    'device.attributes["{driver}"].index.startsWith("h")',
    '!device.attributes["{driver}"].model',
    '1 / (device.attributes["{driver}"].index - device.attributes["{driver}"].index) == 1',
    '[1, 2][device.attributes["{driver}"].index + 2] == 1',
    'int(device.attributes["{driver}"].model) == 1',
    'device.attributes["{driver}"].model',
    'device.attributes["{driver}"].index',
    'device.attributes["{driver}"].model.matches(device.attributes["{driver}"].model + "(")',
    'device.attributes["{driver}"].model ==',
    "device.size == 1",
    "unknown",
    "1",
    'device.capacity["{driver}"].memory > quantity("40Gi")',
    'quantity("z").sign() == 1',
)
MEMORY: Final = ("20Gi", "40Gi", "80Gi", "81920Mi")


def random_scenario(seed: str, number: int) -> JSON:
    """Return a scenario of random topics: its id, tags, cluster and incoming pod."""
    return _Cluster(Random(f"{seed} {number}"), f"dra-own-{seed}-{number:04}").scenario()


class _Cluster:
    """A cluster in the making."""

    def __init__(self, random: Random, name: str) -> None:
        self.random = random
        self.name = name
        count = random.choice((1, 1, 2, 2, 3))
        self.topics = sorted({random.choices(TOPICS, WEIGHTS)[0] for _ in range(count)})
        self.items: list[JSON] = []
        self.uids = 0
        self.zones = [f"z{1 + n % random.choice((1, 2))}" for n in range(random.choice((1, 2, 3, 3, 4, 5)))]
        self.nodes = [f"node-{n}" for n in range(len(self.zones))]
        self.drivers = random.sample(DRIVERS, random.choice((1, 1, 1, 2, 3)))
        self.free: list[tuple[str, str, str | None, JSON]] = []
        """Devices that no claim has: driver, pool, the node if it is of one, device."""
        self.classes: list[JSON] = []
        self.rarely = 0.0 if self.about("counters") else 0.03
        """Where devices are rejected otherwise, v1.36.2 does not give back the counters that it took for them."""
        self.extended: list[str] = []
        """Names of extended resources that classes back, or seem to."""

    def scenario(self) -> JSON:
        for name, zone in zip(self.nodes, self.zones, strict=True):
            self.node(name, zone)
        self.device_classes()
        for driver in self.drivers:
            self.slices(driver)
        if self.often("taints", 0.3):
            self.taint_rule()
        self.random.shuffle(self.free)
        for name in self.nodes:
            self.running(name)
        pod = self.incoming()
        if self.about("nominated"):
            self.nominated()
        listed = {"apiVersion": "v1", "kind": "List", "items": self.items}
        scenario: JSON = {"id": self.name, "category": "dra", "tags": self.topics, "cluster": listed, "pod": pod}
        return scenario | ({"config": self.configuration()} if self.about("configured") else {})

    def configuration(self) -> JSON:
        """Return a KubeSchedulerConfiguration that has something to say about devices."""
        arguments: JSON = {"bindingTimeout": self.one_of(("1s", "876000h"))}
        profile: JSON = {
            "schedulerName": "default-scheduler",
            "pluginConfig": [{"name": "DynamicResources", "args": arguments}],
            "plugins": self.one_of(
                (
                    {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}},
                    {"score": {"disabled": [{"name": "DynamicResources"}]}},
                    {"postFilter": {"disabled": [{"name": "DynamicResources"}]}},
                    {"filter": {"disabled": [{"name": "DynamicResources"}]}},
                    {"preFilter": {"disabled": [{"name": "DynamicResources"}]}},
                    {"multiPoint": {"enabled": [{"name": "DynamicResources", "weight": 7}]}},
                    {},
                )
            ),
        }
        version = "kubescheduler.config.k8s.io/v1"
        return {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}

    # --- chance -------------------------------------------------------------------------------------------------------

    def about(self, topic: str) -> bool:
        return topic in self.topics

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def often(self, topic: str, probability: float, elsewhere: float = 0.0) -> bool:
        """Draw with this probability in scenarios of the topic."""
        return self.chance(probability if self.about(topic) else elsewhere)

    def one_of(self, choices: Sequence[Any]) -> Any:
        return self.random.choice(choices)

    def add(self, api_version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> JSON:
        self.uids += 1
        metadata = {"name": name, "uid": f"uid-{self.uids}", "creationTimestamp": PAST} | rest.pop("metadata", {})
        if namespace:
            metadata["namespace"] = namespace
        item = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}
        self.items.append(item)
        return item

    # --- nodes and slices ---------------------------------------------------------------------------------------------

    def node(self, name: str, zone: str) -> None:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "20"}
        if self.often("extended resources", 0.3):
            amounts["example.com/gpu"] = self.one_of(("0", "1", "2"))
        if self.often("extended resources", 0.15):
            amounts["example.com/plain"] = "2"
        labels = {HOST: name, ZONE: zone, "gen": self.one_of(("1", "2"))}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        self.add("v1", "Node", name, metadata={"labels": labels}, spec={}, status=status)

    def slices(self, driver: str) -> None:
        """Publish the pools of a driver: one of each node, of a zone, of the cluster, or with a node per device."""
        style = self.one_of(("node", "node", "zone", "all", "device")) if self.about("placement") else "node"
        if self.chance(0.05):
            style = self.one_of(("zone", "all", "device"))
        if style == "node":
            for name in self.nodes:
                if self.chance(0.9):
                    self.pool(driver, self.one_of((name, name, f"pool-{name}")), {"nodeName": name}, name)
        elif style == "zone":
            for zone in sorted({*self.zones}):
                expression = {"key": ZONE, "operator": "In", "values": [zone]}
                selector = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
                self.pool(driver, f"of-{zone}", {"nodeSelector": selector}, None)
        elif style == "all":
            self.pool(driver, "everywhere", {"allNodes": True}, None)
        else:
            self.pool(driver, "spread", {"perDeviceNodeSelection": True}, None)

    def pool(self, driver: str, pool: str, where: JSON, node: str | None) -> None:
        count = self.random.randint(31, 36) if self.often("limits", 0.7) else self.one_of((1, 2, 2, 3, 3, 4))
        kind = self.kind_of_devices(driver)
        if driver != self.drivers[0] and self.about("constraints"):
            kind["aligned"] = True
        every = [self.device(driver, f"d{n}", n, kind) for n in range(count)]
        if "perDeviceNodeSelection" in where:
            for device in every:
                device |= self.where_a_device_is()
        parts = [every] if count < 2 or self.chance(0.6) else [every[: count // 2], every[count // 2 :]]
        specs: list[JSON] = [where | {"devices": part} for part in parts]
        if kind.get("counters"):
            specs.append((where if node else {"allNodes": True}) | {"sharedCounters": self.shared_counters()})
        generation = self.one_of((1, 1, 2))
        expected = len(specs)
        usable = self.publish_flaws(driver, pool, where, specs, generation)
        if self.often("pools", 0.15):
            expected, usable = expected + 1, False
        for n, spec in enumerate(specs):
            described = {"name": pool, "generation": generation, "resourceSliceCount": expected}
            name = f"{self.one_of('abc')}-{driver.partition('.')[0]}-{pool}-{n}"
            self.add("resource.k8s.io/v1", "ResourceSlice", name, spec={"driver": driver, "pool": described, **spec})
        if usable or self.chance(0.3):
            self.free += [(driver, pool, node, device) for device in every]

    def publish_flaws(self, driver: str, pool: str, where: JSON, specs: list[JSON], generation: int) -> bool:
        """Give the pool older or newer slices, equal device names or counters that it lacks; False: it is useless."""
        if self.often("pools", 0.25):  # an older generation, to be ignored, or a newer one for another node
            older = self.chance(0.6)
            elsewhere = where if older or "nodeName" not in where else {"nodeName": "node-elsewhere"}
            described = {"name": pool, "generation": generation + (-1 if older else 1), "resourceSliceCount": 1}
            kept = [self.device(driver, "d9", 9, {})]
            spec = {"driver": driver, "pool": described, "devices": kept, **elsewhere}
            self.add("resource.k8s.io/v1", "ResourceSlice", f"{self.one_of('ax')}-old-{driver}-{pool}", spec=spec)
            return older
        devices = [device for spec in specs for device in spec.get("devices", ())]
        if self.often("pools", 0.2) and len(devices) > 1:
            devices[-1]["name"] = devices[0]["name"]
            return False
        if self.often("pools", 0.1) and devices:
            devices[0]["consumesCounters"] = [{"counterSet": "none", "counters": {"memory": {"value": "1Gi"}}}]
            return False
        return True

    def where_a_device_is(self) -> JSON:
        style = self.one_of(("node", "node", "zone", "all"))
        if style == "node":
            return {"nodeName": self.one_of(self.nodes)}
        if style == "zone":
            expression = {"key": ZONE, "operator": self.one_of(("In", "NotIn")), "values": [self.one_of(self.zones)]}
            return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        return {"allNodes": True}

    def kind_of_devices(self, driver: str) -> JSON:
        """Choose what the devices of a pool have beyond attributes."""
        return {
            "counters": self.often("counters", 0.8, 0.02),
            "shared": self.often("capacity", 0.75, self.rarely),
            "policy": self.one_of((None, "range", "range", "values", "default")),
            "binding": self.often("binding", 0.6),
        }

    def shared_counters(self) -> list[JSON]:
        """Return counters; with room where devices may be rejected for something else, see `rarely`."""
        room = any(map(self.about, ("taints", "constraints", "capacity")))
        memory = self.one_of(("900Gi", "990Gi", "999Gi") if room else ("60Gi", "80Gi", "120Gi"))
        cores = self.one_of(("90", "98", "99") if room else ("2", "4", "8"))
        sets: list[JSON] = [{"name": "set-0", "counters": {"memory": {"value": memory}, "cores": {"value": cores}}}]
        if self.chance(0.4):
            sets.append({"name": "set-1", "counters": {"links": {"value": self.one_of(("1", "2"))}}})
        return sets

    def device(self, driver: str, name: str, index: int, kind: JSON) -> JSON:
        """Return a device of a kind, see `kind_of_devices`."""
        model = "h100" if kind.get("aligned") else self.one_of(("a100", "h100", "h100", "b100"))
        attributes: JSON = {
            "model": {"string": model},
            "index": {"int": index},
            "ok": {"bool": self.chance(0.6)},
            f"{driver}/version": {"version": self.one_of(("1.1.0", "1.2.3", "1.4.0", "2.0.0-rc.1", "2.1.0"))},
        }
        if self.often("constraints", 0.9, 0.5):
            attributes["link"] = {"int": index // 2}
        if self.often("constraints", 0.9, 0.5):
            attributes["site.example.com/rack"] = {"string": self.one_of(("r1", "r1", "r2"))}
        memory: JSON = {"value": self.one_of(MEMORY)}
        device: JSON = {"name": name, "attributes": attributes, "capacity": {"memory": memory}}
        if kind.get("shared") and self.chance(0.85):
            self.shared_capacity(device, kind)
        if kind.get("counters") and self.chance(0.9):
            wanted = {"memory": {"value": self.one_of(("20Gi", "40Gi", "60Gi"))}}
            if self.chance(0.5):
                wanted["cores"] = {"value": self.one_of(("1", "2", "4"))}
            device["consumesCounters"] = [{"counterSet": "set-0", "counters": wanted}]
        if self.often("taints", 0.5, self.rarely):
            taint = {"key": self.one_of(("bad", "busy")), "effect": self.one_of(("NoSchedule", "NoExecute", "None"))}
            device["taints"] = [taint | ({"value": "x"} if self.chance(0.5) else {}) | {"timeAdded": PAST}]
        if kind.get("binding"):
            device |= {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]}
            device["bindsToNode"] = self.chance(0.5)
        return device

    def taint_rule(self) -> None:
        """Add a rule that taints devices, which nobody heeds by default."""
        chosen = {"driver": self.one_of(self.drivers)} | ({"device": "d0"} if self.chance(0.5) else {})
        taint = {"key": "ruled", "value": "x", "effect": self.one_of(("NoSchedule", "NoExecute", "None"))}
        spec = {"deviceSelector": chosen, "taint": taint | {"timeAdded": PAST}}
        self.add("resource.k8s.io/v1beta2", "DeviceTaintRule", "rule", spec=spec)

    def shared_capacity(self, device: JSON, kind: JSON) -> None:
        """Let the device be allocated several times, by what claims want of its capacity."""
        device["allowMultipleAllocations"] = self.chance(0.9)
        memory: JSON = {"value": self.one_of(("40Gi", "80Gi", "80G"))}
        device["capacity"]["memory"] = memory
        default = {"default": self.one_of(("10Gi", "10G", "1Gi"))}
        if kind["policy"] == "range":
            limits = {"min": self.one_of(("5Gi", "10Gi"))}
            if self.chance(0.6):
                limits["max"] = self.one_of(("20Gi", "40Gi"))
            if self.chance(0.5):
                limits["step"] = self.one_of(("5Gi", "3Gi"))
            memory["requestPolicy"] = default | {"validRange": limits}
        elif kind["policy"] == "values":
            memory["requestPolicy"] = default | {"validValues": ["10Gi", "20Gi", "40Gi"]}
        elif kind["policy"] == "default":
            memory["requestPolicy"] = default
        if self.chance(0.4):
            device["capacity"]["slots"] = {"value": "4", "requestPolicy": {"default": "1"}}

    # --- classes ------------------------------------------------------------------------------------------------------

    def device_classes(self) -> None:
        for driver in self.drivers:
            stem = driver.partition(".")[0]
            spec: JSON = {"selectors": self.selector(f'device.driver == "{driver}"')}
            if self.often("failing", 0.3):
                spec["selectors"] += self.selector(self.one_of(FAILING_SELECTORS).format(driver=driver))
            elif self.often("selectors", 0.4):
                spec["selectors"] += self.selector(self.one_of(SELECTORS).format(driver=driver))
            if self.about("extended resources"):
                spec["extendedResourceName"] = f"example.com/{stem}"
                self.extended += [f"example.com/{stem}"] * 2 + [f"deviceclass.resource.kubernetes.io/{stem}"]
            self.classes.append(self.add("resource.k8s.io/v1", "DeviceClass", stem, spec=spec))
        self.classes.append(self.add("resource.k8s.io/v1", "DeviceClass", "any", spec={}))
        if self.often("extended resources", 0.2):
            name = f"example.com/{self.drivers[0].partition('.')[0]}"  # the newer one of two classes gives it
            spec = {"extendedResourceName": name, "selectors": self.selector("device.driver != ''")}
            later = {"creationTimestamp": "2025-02-01T00:00:00Z"}
            self.add("resource.k8s.io/v1", "DeviceClass", "newer", metadata=later, spec=spec)

    def selector(self, expression: str) -> list[JSON]:
        return [{"cel": {"expression": expression}}]

    # --- claims -------------------------------------------------------------------------------------------------------

    def claim(self, name: str, namespace: str = "default", requests: int = 0, **rest: Any) -> JSON:
        """Add a claim with random requests and constraints."""
        count = requests or self.one_of((1, 2, 2, 3) if self.about("constraints") else (1, 1, 1, 2))
        driver = self.one_of(self.drivers)
        wanted = [
            self.request(f"r{n}", driver if self.chance(0.8) else self.one_of(self.drivers)) for n in range(count)
        ]
        devices: JSON = {"requests": wanted}
        if self.often("constraints", 0.85, self.rarely):
            devices["constraints"] = [self.constraint(driver, wanted) for _ in range(self.one_of((1, 1, 1, 2)))]
        return self.add("resource.k8s.io/v1", "ResourceClaim", name, namespace, spec={"devices": devices}, **rest)

    def constraint(self, driver: str, wanted: Sequence[JSON]) -> JSON:
        domain = driver if self.chance(0.7) else self.one_of((*self.drivers, "site.example.com"))
        attribute = "rack" if domain == "site.example.com" else self.one_of(("model", "index", "ok", "link", "version"))
        constraint: JSON = {
            self.one_of(("matchAttribute", "matchAttribute", "distinctAttribute")): f"{domain}/{attribute}"
        }
        names = [one["name"] for one in wanted]
        names += [f"{one['name']}/{sub['name']}" for one in wanted for sub in one.get("firstAvailable", ())]
        if self.chance(0.4):
            constraint["requests"] = self.random.sample(names, self.random.randint(1, min(2, len(names))))
        if self.often("failing", 0.2):
            return {}
        return constraint

    def request(self, name: str, driver: str) -> JSON:
        if self.often("first available", 0.8, 0.04):
            names = [f"s{n}" for n in range(self.one_of((2, 2, 3)))]
            return {"name": name, "firstAvailable": [self.device_request({"name": one}, driver) for one in names]}
        if self.often("failing", 0.05):
            return {"name": name}
        exactly = self.device_request({}, driver)
        if self.often("admin access", 0.7):
            exactly["adminAccess"] = self.chance(0.85)
        return {"name": name, "exactly": exactly}

    def device_request(self, request: JSON, driver: str) -> JSON:
        """Fill in which devices a request or subrequest wants, and how many; first subrequests want much."""
        first = request.get("name") == "s0"
        request["deviceClassName"] = self.one_of((driver.partition(".")[0],) * 6 + ("any",))
        if self.often("failing", 0.08):
            request["deviceClassName"] = self.one_of(("", "absent", "absent"))
        if self.chance(0.82) or self.about("limits"):
            counts = (1, 2, 2, 3) if first else (1, 1, 1, 1, 1, 2, 2, 3)
            request |= {"allocationMode": "ExactCount", "count": self.one_of(counts)}
        else:
            request |= {"allocationMode": "All"}
        if self.often("limits", 0.6):
            request |= {"count": self.one_of((31, 32, 33))} if self.chance(0.5) else {"allocationMode": "All"}
        if self.often("selectors", 0.8, 0.4 if first else 0.12):
            expressions = self.random.sample(SELECTORS, self.one_of((1, 1, 2)))
            request["selectors"] = [one for text in expressions for one in self.selector(text.format(driver=driver))]
        if self.often("failing", 0.25):
            request["selectors"] = self.selector(self.one_of(FAILING_SELECTORS).format(driver=driver))
        if self.often("taints", 0.5):
            request["tolerations"] = [self.toleration()]
        if self.often("capacity", 0.7):
            amounts = ("1Gi", "5Gi", "8Gi", "10Gi", "12Gi", "20Gi", "40Gi", "64Gi", "10G", "10000M")
            request["capacity"] = {"requests": {"memory": self.one_of(amounts)}}
            if self.chance(0.3):
                request["capacity"]["requests"]["slots" if self.chance(0.8) else "none"] = self.one_of(("1", "2", "3"))
        return request

    def toleration(self) -> JSON:
        toleration = {"operator": self.one_of(("Exists", "Equal"))}
        if self.chance(0.9) or toleration["operator"] == "Equal":
            toleration["key"] = self.one_of(("bad", "busy"))
        if toleration["operator"] == "Equal" and self.chance(0.6):
            toleration["value"] = "x"
        if self.chance(0.6):
            toleration["effect"] = self.one_of(("NoSchedule", "NoExecute"))
        return toleration

    def allocate(self, claim: JSON, node: str | None, devices: Sequence[tuple[str, str, str | None, JSON]]) -> None:
        """Give the claim these devices; with a node, the allocation is for it alone."""
        request = claim["spec"]["devices"]["requests"][0]
        name = "/".join([request["name"], *(one["name"] for one in request.get("firstAvailable", ())[:1])])
        results: list[JSON] = []
        for driver, pool, _, device in devices:
            result: JSON = {"request": name, "driver": driver, "pool": pool, "device": device["name"]}
            if device.get("allowMultipleAllocations"):
                result["shareID"] = f"00000000-0000-0000-0000-{len(self.items):012}"
                result["consumedCapacity"] = {"memory": self.one_of(("10Gi", "20Gi", "40Gi"))}
            if device.get("bindingConditions"):
                result |= {key: device[key] for key in ("bindingConditions", "bindingFailureConditions")}
            if request.get("exactly", {}).get("adminAccess"):
                result["adminAccess"] = True
            results.append(result)
        status: JSON = {"allocation": {"devices": {"results": results}}}
        if node:
            field = {"key": "metadata.name", "operator": "In", "values": [node]}
            status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        claim["status"] = status

    def running(self, node: str) -> None:
        """Add the pods of a node; some have devices, and some nodes are full."""
        full = self.often("preemption", 0.7, 0.1)
        for n in range(self.one_of((2, 3) if full else (0, 1, 2))):
            name = f"{node}-pod-{n}"
            pod = self.pod(name, "1900m" if full else "500m", self.one_of((0, 5, 10)))
            pod["spec"]["nodeName"] = node
            pod["status"] = {"phase": "Running", "startTime": f"2025-01-01T0{n}:00:00Z"}
            taken = next((one for one in self.free if one[2] in (node, None)), None)
            if taken and self.chance(0.6):
                if not taken[3].get("allowMultipleAllocations"):
                    self.free.remove(taken)
                claim = self.claim(f"of-{name}", requests=1)
                self.allocate(claim, node if self.chance(0.8) else None, [taken])
                claim["status"]["reservedFor"] = [self.reference(pod)]
                self.use(pod, [{"name": "c", "resourceClaimName": claim["metadata"]["name"]}])

    def pod(self, name: str, cpu: str, priority: int) -> JSON:
        container = {"name": "c", "image": "registry.example/a:v1", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], "priority": priority, "schedulerName": "default-scheduler"}
        return self.add("v1", "Pod", name, "default", spec=spec, status={"phase": "Pending"})

    def use(self, pod: JSON, references: list[JSON]) -> None:
        pod["spec"]["resourceClaims"] = references
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": one["name"]} for one in references]

    def reference(self, pod: JSON) -> JSON:
        return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}

    # --- the incoming pod ---------------------------------------------------------------------------------------------

    def incoming(self) -> JSON:
        pod = self.pod("incoming", self.one_of(("100m", "1")), 100)
        self.items.remove(pod)
        extended = self.about("extended resources")
        if extended:
            self.request_extended(pod)
        references: list[JSON] = []
        least = 2 if self.about("several claims") else 0 if extended and self.chance(0.8) else 1
        for n in range(max(least, self.one_of((0, 0, 0, 1) if extended else (1, 1, 1, 2)) if least else 0)):
            references += self.claim_of(pod, n)
        if references:
            self.use(pod, references)
        return pod

    def claim_of(self, pod: JSON, number: int) -> list[JSON]:
        """Return the pod's reference to one claim, of random state."""
        name, reference = f"mine-{number}", {"name": f"c{number}"}
        if self.often("templates", 0.7, 0.05):
            return [reference | self.claim_of_template(pod, name, reference["name"])]
        if self.often("failing", 0.15):
            return [reference | self.one_of(({"resourceClaimName": "absent"}, {}))]
        claim = self.claim(name)
        if self.often("failing", 0.1):
            claim["metadata"] |= {"deletionTimestamp": PAST, "finalizers": ["resource.kubernetes.io/delete-protection"]}
        if (self.about("allocated") or self.about("binding")) and self.free and self.chance(0.6):
            self.allocated_claim(claim, pod)
        return [reference | {"resourceClaimName": name}]

    def claim_of_template(self, pod: JSON, name: str, reference: str) -> JSON:
        """Add the claim of a template, or not; owned by the pod, or not."""
        uid = pod["metadata"]["uid"] if self.chance(0.85) else "uid-of-another"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "incoming", "uid": uid, "controller": True}
        if self.chance(0.9):
            self.claim(name, metadata={"ownerReferences": [owner]})
        if self.chance(0.9):
            made = {"resourceClaimName": name} if self.chance(0.9) else {}
            pod["status"].setdefault("resourceClaimStatuses", []).append({"name": reference, **made})
        return {"resourceClaimTemplateName": "template"}

    def allocated_claim(self, claim: JSON, pod: JSON) -> None:
        first = self.free[0]
        together = [one for one in self.free if one[1] == first[1] and one[0] == first[0]][: self.one_of((1, 1, 2))]
        self.allocate(claim, first[2] if self.chance(0.8) else None, together)
        status = claim["status"]
        if self.chance(0.2):
            expression = {"key": ZONE, "operator": "In", "values": [self.one_of(self.zones)]}
            status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        others = [{"resource": "pods", "name": f"other-{n}", "uid": f"uid-other-{n}"} for n in range(256)]
        users = (others[:0], others[:0], others[:1], others[:3], others, [self.reference(pod)])
        status["reservedFor"] = self.one_of(users)
        if any("bindingConditions" in one[3] for one in together):
            self.binding(status, together)

    def binding(self, status: JSON, devices: Sequence[tuple[str, str, str | None, JSON]]) -> None:
        """Say how far binding of the allocated devices came."""
        if self.chance(0.8):
            status["allocation"]["allocationTimestamp"] = self.one_of((LONG_AGO, FAR_AHEAD))
        state = self.one_of((None, (), (("Attached", "True"),), (("Attached", "False"),), (("Failed", "True"),)))
        if state is not None:
            conditions = [
                {"type": kind, "status": value, "lastTransitionTime": PAST, "reason": "A", "message": ""}
                for kind, value in state
            ]
            status["devices"] = [
                {"driver": driver, "pool": pool, "device": device["name"], "conditions": conditions}
                for driver, pool, _, device in devices
            ]

    def request_extended(self, pod: JSON) -> None:
        """Let containers, init containers and sidecars request extended resources."""
        names = self.random.sample([*self.extended, "example.com/plain"], self.one_of((1, 1, 2)))
        containers = pod["spec"]["containers"]
        if self.chance(0.3):
            containers.append({"name": "second", "image": "registry.example/a:v1", "resources": {}})
        starting = [
            {"name": f"i{n}", "image": "registry.example/a:v1", "resources": {}}
            for n in range(self.one_of((0, 0, 1, 2)))
        ]
        for one in starting:
            one |= {"restartPolicy": "Always"} if self.chance(0.5) else {}
        pod["spec"] |= {"initContainers": starting} if starting else {}
        for n, container in enumerate([*containers, *starting]):
            for name in dict.fromkeys(names):
                if n == 0 or self.chance(0.6):
                    amount = self.one_of(("1", "1", "1", "2", "3", "0"))
                    for kind in ("requests", "limits"):
                        container["resources"].setdefault(kind, {})[name] = amount
        if self.chance(0.08):
            self.earlier_extended_claim(pod)

    def earlier_extended_claim(self, pod: JSON) -> None:
        """Add the claim that an earlier cycle made for the extended resources."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "incoming", "uid": pod["metadata"]["uid"]}
        metadata = {
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [owner | {"controller": True}],
        }
        claim = self.claim("incoming-extended-resources-x", requests=1, metadata=metadata)
        if self.free and self.chance(0.5):
            self.allocate(claim, self.free[0][2], self.free[:1])

    def nominated(self) -> None:
        """Add pods that wait for a node which they are nominated to; without its claim, one counts nowhere.

        None has a claim that exists: in the judge, that may come too late for the pod to be queued.
        """
        for n in range(self.one_of((1, 2))):
            pod = self.pod(f"waiting-{n}", self.one_of(("1", "3")), self.one_of((50, 100, 200)))
            pod["status"]["nominatedNodeName"] = self.one_of(self.nodes)
            if self.chance(0.3):
                self.use(pod, [{"name": "c", "resourceClaimName": "absent"}])
