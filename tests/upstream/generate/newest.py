"""Random scenarios for the oracle of what Kubernetes 1.37 changed or gen.py and gen_wide.py leave out (stdlib only, seedable).

    gen_137.py --category resize --count 100 --seed 1 > scenarios.jsonl

Same shape of scenarios as gen_wide.py, quantities canonical; category config37 has "config", of which some are refused.
After the judge: gen_137.py --merge SCENARIOS VERDICTS prints each scenario with "expected" or, where refused, "error".
"""

import random
from datetime import timedelta

from tests.upstream.generate import old_basic as gen
from tests.upstream.generate.old_basic import GI, HOST, MI, T0, ZONE, ts
from tests.upstream.generate.old_wide import (
    GPU,
    amounts,
    device_class,
    f_devices,
    merge_args,
    node_names,
    obj,
    on,
)

CATEGORIES = [
    "resize",
    "unstarted",
    "budgets37",
    "gated",
    "namespaces",
    "taintrules",
    "capacity",
    "constraints",
    "counters",
    "extended",
    "imagevols",
    "declared",
    "volumes37",
    "config37",
]
DRV = "gpu.example.com"


# --------------------------------------------------------------------------------------------------------- resize
def milli(v):
    return amounts({"cpu": max(1, int(v))})["cpu"]


def mem(v):
    return amounts({"memory": max(1, int(v)) // MI * MI or MI})["memory"]


def asked(s, f):
    r, out = s.r, {}
    if s.p(0.9):
        out["cpu"] = milli(s.unit_c * f * r.choice([0.25, 0.5, 1, 1, 2]))
    if s.p(0.7):
        out["memory"] = mem(s.unit_m * f * r.choice([0.25, 0.5, 1, 1]))
    return out


def moved(s, req):
    """The same names, each larger, smaller or as before."""
    out = {}
    for k, v in req.items():
        n = int(v[:-1]) if v.endswith("m") else None
        if k == "cpu":
            base = n if n is not None else int(v) * 1000
            out[k] = milli(base * s.r.choice([0.5, 0.5, 1, 1, 2, 3]))
        else:
            unit = {"Gi": GI, "Mi": MI}[v[-2:]]
            out[k] = mem(int(v[:-2]) * unit * s.r.choice([0.5, 1, 1, 2]))
    return out


def status_of(s, c, mode):
    """A container's status: mode is which of allocatedResources and resources the kubelet has written."""
    req = c["resources"].get("requests", {})
    o = {
        "name": c["name"],
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": "i",
        "imageID": "",
        "state": {"running": {}},
    }
    if mode in ("both", "allocated"):
        o["allocatedResources"] = moved(s, req)
    if mode in ("both", "actual"):
        o["resources"] = {"requests": moved(s, req)}
    if mode == "settled":
        o["allocatedResources"] = dict(req)
        o["resources"] = {"requests": dict(req)}
    if mode == "empty":
        o["resources"] = {}
    return o


def c_resize(s):
    r = s.r
    s.base(roomy=0.5, fancy=False, pressure="both", nodes=r.choice([1, 2, 2, 3, 4, 5]))
    s.incoming(share=r.choice([0.1, 0.25, 0.4]))
    s.add_pdbs(0, 2, 0.8)
    for p in s.running():
        if not s.p(0.75):
            continue
        f = r.choice([0.5, 1, 1])
        cs = []
        for i in range(r.choice([1, 2, 2, 3])):
            c = s.container({}, "c%d" % i)
            c["resources"] = {"requests": asked(s, f / 2)}
            cs.append(c)
        p["spec"]["containers"] = cs
        inits = []
        for i in range(r.choice([0, 0, 1, 1, 2])):
            c = s.container({}, "i%d" % i)
            c["resources"] = {"requests": asked(s, f * r.choice([0.5, 1]))}
            if s.p(0.5):
                c["restartPolicy"] = "Always"
            inits.append(c)
        if inits:
            p["spec"]["initContainers"] = inits
        if s.p(0.3):
            p["spec"]["overhead"] = {"cpu": "50m", "memory": "64Mi"}
        st = p["status"]
        mode = r.choice(["both", "both", "both", "allocated", "actual", "settled", "mixed", "none", "empty"])
        pick = lambda: r.choice(["both", "allocated", "actual", "settled", "none"]) if mode == "mixed" else mode
        if mode != "none":
            st["containerStatuses"] = [status_of(s, c, pick()) for c in cs]
            if inits:
                st["initContainerStatuses"] = [status_of(s, c, pick()) for c in inits]
                if s.p(0.3):
                    for o in st["initContainerStatuses"]:
                        o["state"] = {"terminated": {"exitCode": 0, "reason": "Completed"}}
            s.tag("st-" + mode)
        if s.p(0.4):  # at pod level
            want = {}
            if s.p(0.8):
                want["cpu"] = milli(s.unit_c * f * r.choice([1, 1.5, 2]))
            if s.p(0.5) or not want:
                want["memory"] = mem(s.unit_m * f * r.choice([1, 1.5, 2]))
            if s.p(0.8):
                p["spec"]["resources"] = {"requests": want}
            level = r.choice(["both", "both", "allocated", "actual", "none"])
            if level in ("both", "actual"):
                st["resources"] = {"requests": moved(s, want)}
            if level in ("both", "allocated"):
                st["allocatedResources"] = moved(s, want)
            if s.p(0.25) and "resources" in st:  # a name that the spec's pod level lacks
                st["resources"]["requests"].setdefault("memory", mem(s.unit_m))
                st["resources"]["requests"].setdefault("cpu", milli(s.unit_c))
                if "allocatedResources" in st and s.p(0.7):
                    st["allocatedResources"].update(
                        {k: v for k, v in st["resources"]["requests"].items() if k not in st["allocatedResources"]}
                    )
            s.tag("level-" + level)
        x = r.random()
        if x < 0.45:
            one = {
                "type": "PodResizePending",
                "status": "True",
                "reason": r.choice(["Infeasible", "Infeasible", "Deferred"]),
            }
            st.setdefault("conditions", []).append(one)
            if s.p(0.15):
                st["conditions"].append(
                    {
                        "type": "PodResizePending",
                        "status": "True",
                        "reason": "Deferred" if one["reason"] == "Infeasible" else "Infeasible",
                    }
                )
            s.tag(one["reason"])
        if s.p(0.3):
            st.setdefault("conditions", []).append({"type": "PodResizeInProgress", "status": "True"})
    if s.p(0.3):  # the incoming pod asks at pod level, too
        s.pod["spec"]["resources"] = {"requests": {"cpu": milli(s.unit_c * r.choice([1, 2])), "memory": mem(s.unit_m)}}


# ------------------------------------------------------------------------------------------------------ unstarted
def c_unstarted(s):
    r = s.r
    s.base(roomy=0.15, fancy=False, nodes=r.choice([1, 1, 2, 3, 4, 6]))
    s.incoming(share=r.choice([0.2, 0.3, 0.5]))
    s.add_pdbs(0, 3, 0.7)
    same = r.choice(s.low) if s.low else 0
    share, alike = r.choice([0.3, 0.6, 1.0]), r.choice([0.5, 0.8, 1.0])
    for p in s.running():
        if s.p(alike) and (p["spec"].get("priority") or 0) < s.P:
            if same is None:
                p["spec"].pop("priority", None)
            else:
                p["spec"]["priority"] = same
        if s.p(share):
            p["status"].pop("startTime", None)
            p["status"]["phase"] = "Pending"
        elif s.p(0.5):
            p["status"]["startTime"] = ts(T0 + timedelta(seconds=r.choice([0, 0, 1, 3600])))


# ------------------------------------------------------------------------------------------------------ budgets37
def c_budgets37(s):
    """Budgets that overlap: by empty selector, by several labels, with disrupted pods; pods without labels."""
    r = s.r
    s.base(roomy=0.2, fancy=False, nodes=r.choice([1, 2, 2, 3, 4, 6]))
    s.incoming(share=r.choice([0.2, 0.3, 0.5, 0.75]))
    crowd = s.p(0.5)  # most pods under several budgets, of which one allows nothing
    for p in s.running():
        if s.p(0.1):
            p["metadata"].pop("labels", None)
        if s.p(0.95 if crowd else 0.6):
            p["metadata"]["namespace"] = "default"

    def some():
        return r.choice(
            [
                {},
                {"matchLabels": {"app": r.choice(s.apps)}},
                {"matchLabels": {"app": r.choice(s.apps)}},
                {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "tier", "operator": r.choice(["In", "NotIn"]), "values": ["back"]}]},
                {"matchExpressions": [{"key": "nolabel", "operator": "DoesNotExist"}]},
                None,
            ]
        )

    if crowd:
        wide = [
            {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "nolabel", "operator": "DoesNotExist"}]},
            {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]},
        ]
        specs = [({"matchLabels": {"app": r.choice(s.apps)}}, 0), (r.choice(wide), r.choice([1, 1, 2, 3]))] + [
            (r.choice(wide), r.choice([0, 1, 2])) for _ in range(r.choice([0, 1, 2]))
        ]
        r.shuffle(specs)
        for sel, allowed in specs:
            s.mkpdb("default", sel, allowed)
        s.tag("crowd")
    for _ in range(r.choice([0, 1]) if crowd else r.choice([1, 2, 3, 4])):
        gone = [p["metadata"]["name"] for p in s.running() if s.p(0.15)]
        s.mkpdb(
            r.choice(["default"] * 6 + ["prod"]),
            some(),
            r.choice([0, 0, 1, 1, 2, 3]),
            {n: ts(T0) for n in gone} if s.p(0.25) and gone else None,
        )


# ---------------------------------------------------------------------------------------------------------- gated
def c_gated(s):
    """Pods with scheduling gates and a nominated node."""
    r = s.r
    s.base(roomy=0.5, fancy=False, nodes=r.choice([1, 2, 3, 4, 6]))
    s.incoming(share=r.choice([0.1, 0.2, 0.4]))
    s.add_pdbs(0, 2, 0.8)
    for i in range(r.choice([1, 1, 2, 3])):
        p = s.mkpod(
            "nom",
            r.choice(["default", "prod"]),
            None,
            r.choice([s.P, s.P, s.P + 1 if s.P < 2000000000 else s.P, max(s.P - 1, -5)]),
            s.pick_labels(),
            [s.container({"cpu": max(1, int(s.unit_c * r.choice([0.5, 1, 2]))), "memory": s.unit_m // 2})],
        )
        p["status"]["nominatedNodeName"] = r.choice(node_names(s))
        if s.p(0.75):
            p["spec"]["schedulingGates"] = [{"name": "example.com/g"}]
            s.tag("gated")
        if s.p(0.1):
            p["spec"]["schedulerName"] = "other"
        x = r.random()
        if x < 0.15:
            p["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
            s.pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
        elif x < 0.35:
            p["spec"]["affinity"] = {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": r.choice([HOST, ZONE]),
                            "labelSelector": {"matchLabels": {"app": s.pod["metadata"]["labels"]["app"]}},
                            "namespaces": ["default"],
                        }
                    ]
                }
            }
        elif x < 0.45:
            p["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": "absent"}]
        s.pods.append(p)
    if s.p(0.15):
        s.pod["spec"]["schedulingGates"] = [] if s.p(0.5) else [{"name": "example.com/h"}]
    if s.p(0.2):
        s.pod["status"]["nominatedNodeName"] = r.choice(node_names(s))


# ----------------------------------------------------------------------------------------------------- namespaces
def c_namespaces(s):
    """InterPodAffinity by namespaceSelector, of incoming and running pods."""
    r = s.r
    s.base(tight=s.p(0.4), roomy=0.5, fancy=False, nodes=r.choice([2, 3, 4, 6]))
    s.incoming(share=r.choice([0.1, 0.3]), ns=r.choice(["default", "prod"]))
    s.add_pdbs(0, 2, 0.8)
    for n in s.namespaces:
        s.nslabels[n] = {
            k: v for k, v in {"team": r.choice(["a", "b"]), "env": r.choice(["x", "y"])}.items() if s.p(0.7)
        }

    def term(target):
        t = {
            "topologyKey": r.choice([HOST, ZONE]),
            "labelSelector": {"matchLabels": {"app": target}} if s.p(0.9) else {},
        }
        x = r.random()
        if x < 0.85:
            t["namespaceSelector"] = r.choice(
                [
                    {},
                    {"matchLabels": {"team": "a"}},
                    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]},
                    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a", "b"]}]},
                    {"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]},
                    {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
                    {
                        "matchExpressions": [
                            {"key": "team", "operator": "In", "values": ["a"]},
                            {"key": "env", "operator": "NotIn", "values": ["x"]},
                        ]
                    },
                    {"matchLabels": {"team": "nobody"}},
                ]
            )
        if s.p(0.3):
            t["namespaces"] = r.sample(s.namespaces + ["nowhere"], r.randint(1, 2))
        return t

    def affinity(target):
        out = {}
        for side in r.sample(["podAffinity", "podAntiAffinity", "podAntiAffinity"], r.choice([1, 1, 2])):
            if s.p(0.6):
                out[side] = {
                    "requiredDuringSchedulingIgnoredDuringExecution": [term(target) for _ in range(r.choice([1, 1, 2]))]
                }
            else:
                out[side] = {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": r.choice([1, 50, 100]), "podAffinityTerm": term(target)}
                        for _ in range(r.choice([1, 2]))
                    ]
                }
        return out

    s.pod["spec"]["affinity"] = affinity(r.choice(s.apps))
    for p in s.running():
        if s.p(0.12):
            p["spec"]["affinity"] = affinity(s.pod["metadata"]["labels"]["app"])


# ------------------------------------------------------------------------------------- devices: common to what follows
class Devices:
    """Slices, classes and claims of one scenario."""

    def __init__(self, s):
        self.s, self.i = s, 0
        self.pools = {}  # (driver, pool) -> (node, devices)

    def n(self):
        self.i += 1
        return self.i

    def slice(self, node, devices, driver=DRV, pool=None, count=1, generation=1, name=None, **kw):
        where = {} if kw.pop("anywhere", False) else {"nodeName": node}
        pool = pool or node
        self.pools.setdefault((driver, pool), (node, []))[1].extend(devices)
        return obj(
            self.s,
            "resource.k8s.io/v1",
            "ResourceSlice",
            name or "%s-%s-%d" % (node, driver.split(".")[0], self.n()),
            spec={
                "driver": driver,
                **where,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
                **({"devices": devices} if devices else {}),
                **kw,
            },
        )

    def request(self, name="r0", count=1, cls="gpu", mode=None, **kw):
        q = {"deviceClassName": cls, "allocationMode": mode or "ExactCount"}
        if q["allocationMode"] == "ExactCount":
            q["count"] = count
        q.update(kw)
        return {"name": name, "exactly": q}

    def claim(self, name, ns, requests, constraints=(), results=None, node=None, users=()):
        o = obj(
            self.s,
            "resource.k8s.io/v1",
            "ResourceClaim",
            name,
            ns,
            spec={"devices": {"requests": requests, **({"constraints": list(constraints)} if constraints else {})}},
            status={},
        )
        if results is not None:
            o["status"]["allocation"] = {"devices": {"results": results}}
            if node:
                o["status"]["allocation"]["nodeSelector"] = {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
                    ]
                }
            o["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        if users:
            o["status"]["reservedFor"] = [
                {"resource": "pods", "name": u["metadata"]["name"], "uid": u["metadata"]["uid"]} for u in users
            ]
        return o

    def result(self, device, pool, driver=DRV, request="r0", **kw):
        return {"request": request, "driver": driver, "pool": pool, "device": device, **kw}

    def use(self, pod, *names):
        pod["spec"]["resourceClaims"] = [{"name": "g%d" % i, "resourceClaimName": n} for i, n in enumerate(names)]
        pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "g%d" % i} for i in range(len(names))]


def device_base(s, share=(0.05, 0.1, 0.3)):
    r = s.r
    s.base(tight=s.p(0.3), roomy=0.6, fancy=False, nodes=r.choice([1, 2, 3, 3, 4, 5]))
    s.incoming(share=r.choice(share))
    s.add_pdbs(0, 2, 0.8)
    device_class(s, "gpu", DRV)
    device_class(s, "any")
    return Devices(s)


def hold(s, d, p=0.4):
    """Running pods hold some of the devices of their nodes."""
    for (driver, pool), (node, devices) in sorted(d.pools.items()):
        free = [x["name"] for x in devices]
        s.r.shuffle(free)
        for pod in on(s, node):
            if free and s.p(p) and "resourceClaims" not in pod["spec"]:
                name = "held-%s" % pod["metadata"]["name"]
                d.claim(
                    name,
                    pod["metadata"]["namespace"],
                    [d.request()],
                    results=[d.result(free.pop(), pool, driver)],
                    node=node,
                    users=[pod],
                )
                d.use(pod, name)


# ----------------------------------------------------------------------------------------------------- taintrules
def c_taintrules(s):
    r = s.r
    d = device_base(s)
    drivers = [DRV] if s.p(0.6) else [DRV, "nic.example.com"]
    for n in node_names(s):
        for drv in drivers:
            if s.p(0.85):
                ds = [
                    {"name": "d%d" % i, "attributes": {"model": {"string": r.choice(["a", "b"])}}}
                    for i in range(r.randint(1, 3))
                ]
                for x in ds:
                    if s.p(0.1):
                        x["taints"] = [
                            {
                                "key": r.choice(["bad", "worn"]),
                                "value": "x",
                                "effect": r.choice(["NoSchedule", "NoExecute", "None"]),
                                "timeAdded": ts(T0),
                            }
                        ]
                d.slice(n, ds, drv)
    hold(s, d, 0.3)
    for i in range(r.choice([1, 1, 1, 2])):
        sel = {}
        if s.p(0.6):
            sel["driver"] = r.choice(drivers + ["other.example.com"])
        if s.p(0.5):
            sel["pool"] = r.choice(node_names(s))
        if s.p(0.4):
            sel["device"] = r.choice(["d0", "d1"])
        spec = {
            "taint": {
                "key": r.choice(["bad", "bad", "worn"]),
                "value": r.choice(["x", "y"]),
                "effect": r.choice(["NoSchedule", "NoSchedule", "NoExecute", "None"]),
                "timeAdded": ts(T0),
            }
        }
        x = r.random()
        if x < 0.8:
            spec["deviceSelector"] = sel
        elif x < 0.9:
            spec["deviceSelector"] = {}
        else:
            s.tag("no-selector")
        obj(
            s, "resource.k8s.io/" + r.choice(["v1", "v1", "v1", "v1beta2"]), "DeviceTaintRule", "rule-%d" % i, spec=spec
        )
    names = []
    for i in range(r.choice([1, 1, 1, 2])):
        kw = {}
        if s.p(0.45):
            kw["tolerations"] = [
                r.choice(
                    [
                        {"key": "bad", "operator": "Exists"},
                        {"key": "bad", "operator": "Exists", "effect": "NoSchedule"},
                        {"key": "bad", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
                        {"operator": "Exists"},
                        {"key": "worn", "operator": "Exists"},
                    ]
                )
            ]
            s.tag("tolerates")
        q = d.request(
            cls=r.choice(["gpu", "gpu", "any"]),
            count=r.choice([1, 1, 1, 2]),
            mode=r.choice(["ExactCount"] * 4 + ["All"]),
            **kw,
        )
        if s.p(0.15):
            sub = {"name": "s0", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
            q = {"name": "r0", "firstAvailable": [sub, {**sub, "name": "s1", "tolerations": [{"operator": "Exists"}]}]}
        o = d.claim("mine-%d" % i, "default", [q])
        if s.p(0.15) and d.pools:
            (drv, pool), (node, ds) = r.choice(sorted(d.pools.items()))
            o["status"]["allocation"] = {
                "devices": {"results": [d.result(ds[0]["name"], pool, drv)]},
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
                    ]
                },
            }
            s.tag("allocated")
        names.append("mine-%d" % i)
    d.use(s.pod, *names)


# ------------------------------------------------------------------------------------------------------- capacity
def c_capacity(s):
    r = s.r
    d = device_base(s)
    fractional = s.p(0.35)
    for n in node_names(s):
        if not s.p(0.9):
            continue
        ds = []
        for i in range(r.randint(1, 3)):
            total = r.choice(["1", "2"]) if fractional else r.choice(["10Gi", "20Gi", "40Gi"])
            cap = {"value": total}
            x = r.random()
            if x < 0.55:
                lo, hi, step = (
                    (("200m", "1", "100m") if s.p(0.7) else ("250m", "2", "250m"))
                    if fractional
                    else r.choice([("1Gi", "8Gi", "1Gi"), ("2Gi", "10Gi", "4Gi"), ("1Gi", "40Gi", "512Mi")])
                )
                rng = {"min": lo}
                if s.p(0.7):
                    rng["max"] = hi
                if s.p(0.75):
                    rng["step"] = step
                cap["requestPolicy"] = {"default": lo, "validRange": rng}
            elif x < 0.75:
                values = ["250m", "500m", "1"] if fractional else ["1Gi", "4Gi", "10Gi"]
                cap["requestPolicy"] = {"default": r.choice(values), "validValues": values}
            name = r.choice(["memory"] * 9 + [DRV + "/memory"])
            one = {
                "name": "d%d" % i,
                "capacity": {name: cap},
                "attributes": {"model": {"string": r.choice(["a", "b"])}},
            }
            if s.p(0.25):
                one["capacity"]["bandwidth"] = {"value": r.choice(["10", "100"])}
            if s.p(0.9):
                one["allowMultipleAllocations"] = True
            ds.append(one)
        d.slice(n, ds)
        for p in on(s, n):
            if s.p(0.4):
                dev = r.choice(ds)
                (key,) = [k for k in dev["capacity"] if k.endswith("memory")]
                used = r.choice(["300m", "500m", "1"]) if fractional else r.choice(["1Gi", "4Gi", "8Gi", "10Gi"])
                kw = (
                    {"shareID": s.uid(), "consumedCapacity": {key: used}} if dev.get("allowMultipleAllocations") else {}
                )
                name = "held-" + p["metadata"]["name"]
                d.claim(
                    name,
                    p["metadata"]["namespace"],
                    [d.request(capacity={"requests": {key: used}})],
                    results=[d.result(dev["name"], n, **kw)],
                    node=n,
                    users=[p],
                )
                d.use(p, name)
    names = []
    for i in range(r.choice([1, 1, 2])):
        qs = []
        for j in range(r.choice([1, 1, 1, 2])):
            kw = {}
            if s.p(0.85):
                key = r.choice(
                    ["memory"] * 16 + [DRV + "/memory", DRV + "/memory", "other.example.com/memory", "nosuch"]
                )
                kw["capacity"] = {
                    "requests": {
                        key: r.choice(["100m", "250m", "250m", "500m", "600m", "1"])
                        if fractional
                        else r.choice(["512Mi", "1Gi", "1500Mi", "2Gi", "3Gi", "4Gi", "9Gi"])
                    }
                }
                if s.p(0.1):
                    kw["capacity"]["requests"]["bandwidth"] = "20"
            if s.p(0.15):
                kw["selectors"] = [
                    {
                        "cel": {
                            "expression": r.choice(
                                [
                                    "device.allowMultipleAllocations == true",
                                    'device.attributes["gpu.example.com"].model == "a"',
                                ]
                            )
                        }
                    }
                ]
            qs.append(d.request("r%d" % j, r.choice([1, 1, 1, 2]), mode=r.choice(["ExactCount"] * 5 + ["All"]), **kw))
        cons = []
        if len(qs) > 1 and s.p(0.4):
            cons.append({r.choice(["distinctAttribute", "matchAttribute"]): DRV + "/model"})
        d.claim("mine-%d" % i, "default", qs, cons)
        names.append("mine-%d" % i)
    d.use(s.pod, *names)


# ---------------------------------------------------------------------------------------------------- constraints
def c_constraints(s):
    r = s.r
    d = device_base(s)
    kind = r.choice(["string", "int", "bool", "version"])
    values = {
        "string": ["A", "B", "C"],
        "int": [1, 2, 3],
        "bool": [True, False],
        "version": ["1.0.0", "1.1.0", "2.0.0"],
    }[kind]
    for n in node_names(s):
        if s.p(0.9):
            ds = []
            for i in range(r.randint(3, 6)):
                a = {"group": {kind: r.choice(values)}} if s.p(0.93) else {}
                if s.p(0.75):
                    a["numa"] = {"int": r.choice([0, 1])}
                if s.p(0.05):
                    a["group"] = {"string": "odd"}
                one = {"name": "d%d" % i, "attributes": a}
                if s.p(0.25):
                    one["allowMultipleAllocations"] = True
                    one["capacity"] = {"memory": {"value": "10Gi"}}
                ds.append(one)
            d.slice(n, ds)
    hold(s, d, 0.2)
    names = []
    for i in range(r.choice([1, 1, 1, 2])):
        qs = []
        for j in range(r.choice([1, 1, 1, 2])):
            kw = {}
            if s.p(0.15):
                kw["selectors"] = [
                    {
                        "cel": {
                            "expression": r.choice(
                                [
                                    '"numa" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"].numa == 0',
                                    'device.attributes["gpu.example.com"].numa == 1',
                                    'device.attributes["gpu.example.com"].?numa.orValue(1) == 1',
                                ]
                            )
                        }
                    }
                ]
            if s.p(0.2):
                qs.append(
                    {
                        "name": "r%d" % j,
                        "firstAvailable": [
                            {
                                "name": "s0",
                                "deviceClassName": "gpu",
                                "allocationMode": "ExactCount",
                                "count": r.choice([2, 3]),
                            },
                            {"name": "s1", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                        ],
                    }
                )
            else:
                qs.append(
                    d.request("r%d" % j, r.choice([1, 1, 2, 3]), mode=r.choice(["ExactCount"] * 6 + ["All"]), **kw)
                )
        cons = []
        for _ in range(r.choice([0, 1, 1, 2])):
            c = {
                r.choice(["distinctAttribute", "distinctAttribute", "matchAttribute"]): DRV
                + "/"
                + r.choice(["group", "group", "numa"])
            }
            if s.p(0.5):
                c["requests"] = [
                    q["name"] + ("/s0" if "firstAvailable" in q and s.p(0.3) else "") for q in qs if s.p(0.7)
                ] or [qs[0]["name"]]
            cons.append(c)
            s.tag(*(k for k in c if k != "requests"))
        d.claim("mine-%d" % i, "default", qs, cons)
        names.append("mine-%d" % i)
    d.use(s.pod, *names)


# ------------------------------------------------------------------------------------------------------- counters
def c_counters(s):
    """Partitionable devices: slices with counters and slices with devices of a pool, pools of two drivers with one name."""
    r = s.r
    d = device_base(s)
    drivers = [DRV] if s.p(0.4) else [DRV, "nic.example.com"]
    for n in node_names(s):
        for drv in drivers:
            if not s.p(0.85):
                continue
            sets = [
                {
                    "name": "set-%d" % k,
                    "counters": {
                        "memory": {"value": r.choice(["20Gi", "40Gi", "40Gi"])},
                        "slices": {"value": str(r.choice([2, 4]))},
                    },
                }
                for k in range(r.choice([1, 1, 2]))
            ]
            ds = []
            for i in range(r.randint(2, 5)):
                k = r.choice(sets)["name"]
                one = {"name": "d%d" % i, "attributes": {"profile": {"string": r.choice(["small", "big"])}}}
                if s.p(0.9):
                    use = {"memory": {"value": r.choice(["5Gi", "10Gi", "20Gi", "30Gi"])}}
                    if s.p(0.6):
                        use["slices"] = {"value": str(r.choice([1, 2, 3]))}
                    one["consumesCounters"] = [{"counterSet": k, "counters": use}]
                if s.p(0.1):
                    one["allowMultipleAllocations"] = True
                ds.append(one)
            count = 2 if s.p(0.97) else 3  # a pool that is not complete
            d.slice(n, [], drv, count=count, sharedCounters=sets)
            d.slice(n, ds, drv, count=count)
    hold(s, d, 0.3)
    names = []
    for i in range(r.choice([1, 1, 1, 2])):
        qs = []
        for j in range(r.choice([1, 1, 1, 2])):
            kw = {}
            if s.p(0.2):
                kw["selectors"] = [
                    {
                        "cel": {
                            "expression": 'device.attributes["%s"].profile == "%s"' % (DRV, r.choice(["small", "big"]))
                        }
                    }
                ]
            qs.append(
                d.request(
                    "r%d" % j,
                    r.choice([1, 1, 1, 2]),
                    cls="gpu" if kw or s.p(0.7) else "any",
                    mode=r.choice(["ExactCount"] * 7 + ["All"]),
                    **kw,
                )
            )
        d.claim("mine-%d" % i, "default", qs)
        names.append("mine-%d" % i)
    d.use(s.pod, *names)


# ------------------------------------------------------------------------------------------------------- extended
def c_extended(s):
    """Extended resources, by device plugins and by DeviceClasses on the same cluster."""
    r = s.r
    s.base(tight=s.p(0.3), roomy=0.7, fancy=False, nodes=r.choice([2, 3, 4, 5]))
    s.incoming(share=r.choice([0.05, 0.1, 0.25]))
    s.add_pdbs(0, 2, 0.8)
    f_devices(s)
    d = Devices(s)
    for o in s.extra:
        if o["kind"] == "ResourceSlice":
            for x in o["spec"]["devices"]:
                if s.p(0.15):
                    x["taints"] = [{"key": "bad", "value": "x", "effect": "NoSchedule", "timeAdded": ts(T0)}]
                if s.p(0.15):
                    x["allowMultipleAllocations"] = True
                    x["capacity"] = {"memory": {"value": "10Gi"}}
            d.pools[(o["spec"]["driver"], o["spec"]["pool"]["name"])] = (o["spec"]["nodeName"], o["spec"]["devices"])
    hold(s, d, 0.25)
    spec = s.pod["spec"]
    if s.p(0.25):
        more = s.container({}, "c1")
        more["resources"] = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
        spec["containers"].append(more)
    if s.p(0.15) and any(o["kind"] == "DeviceClass" for o in s.extra):
        d.claim(
            "mine-0",
            "default",
            [d.request(cls=next(o["metadata"]["name"] for o in s.extra if o["kind"] == "DeviceClass"))],
        )
        d.use(s.pod, "mine-0")
    if s.p(0.2):
        obj(
            s,
            "resource.k8s.io/v1",
            "DeviceTaintRule",
            "rule",
            spec={
                "deviceSelector": {"driver": DRV, "device": "d0"},
                "taint": {"key": "bad", "effect": "NoSchedule", "timeAdded": ts(T0)},
            },
        )


# ------------------------------------------------------------------------------------------------------ imagevols
def c_imagevols(s):
    r = s.r
    s.base(tight=s.p(0.5), roomy=0.4, fancy=False, nodes=r.choice([2, 3, 4, 6]))
    s.incoming(share=r.choice([0.05, 0.2, 0.5]))
    s.add_pdbs(0, 1, 0.8)
    pool = ["registry.example/m%d:v1" % i for i in range(5)]
    for n in s.nodes:
        n["status"]["images"] = [
            {
                "names": [x] + ([x + "@sha256:" + "0" * 64] if s.p(0.3) else []),
                "sizeBytes": r.choice([5, 23, 24, 100, 400, 800, 1000, 2500, 9000]) * 10**6,
            }
            for x in pool
            if s.p(0.55)
        ]
    spec = s.pod["spec"]
    spec["containers"] = [dict(spec["containers"][0], image=r.choice(pool))] + [
        s.container({}, "x%d" % i, image=r.choice(pool)) for i in range(r.choice([0, 0, 1, 2]))
    ]
    if s.p(0.4):
        spec["initContainers"] = [s.container({}, "i%d" % i, image=r.choice(pool)) for i in range(r.choice([1, 2]))]
    vols = [
        {
            "name": "iv%d" % i,
            "image": {
                "reference": r.choice(pool + ["registry.example/m0", "registry.example/none:v1"]),
                "pullPolicy": "IfNotPresent",
            },
        }
        for i in range(r.choice([0, 1, 1, 2, 4, 8]))
    ]
    if s.p(0.3):
        vols.append({"name": "e", "emptyDir": {}})
    if vols:
        spec["volumes"] = vols


# ------------------------------------------------------------------------------------------------------- declared
FEATURES = [
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "ExtendWebSocketsToKubelet",
    "VolumeBindMountOptions",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "Unknown",
]


def c_declared(s):
    r = s.r
    s.base(tight=s.p(0.5), roomy=0.6, fancy=False, nodes=r.choice([2, 3, 4, 5]))
    s.incoming(share=r.choice([0.1, 0.3]))
    s.add_pdbs(0, 2, 0.8)
    for n in s.nodes:
        if s.p(0.8):
            n["status"]["declaredFeatures"] = sorted(
                r.sample(FEATURES[:4], r.randint(1, 4)) + r.sample(FEATURES[4:], r.randint(0, 2))
            )
        if s.p(0.3):
            n["status"]["nodeInfo"] = {
                "kubeletVersion": r.choice(["v1.34.1", "v1.35.0", "v1.36.2", "v1.37.2", "v1.38.0"])
            }
    spec = s.pod["spec"]
    c = spec["containers"][0]
    kinds = ["restart", "userns", "level", "initrestart", "hostusers", "restart", "userns"] + (
        ["bind", "initbind"] if s.p(0.4) else []
    )  # an API server drops bindMountOptions unless VolumeBindMountOptions is on
    for f in dict.fromkeys(r.sample(kinds, r.choice([1, 2, 2]))):
        s.tag("d-" + f)
        rule = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
        if f == "restart":
            c["restartPolicy"], c["restartPolicyRules"] = "Never", rule
        elif f == "userns":
            spec["hostNetwork"], spec["hostUsers"] = True, False
        elif f == "hostusers":
            spec["hostUsers"] = False
        elif f in ("bind", "initbind"):
            spec.setdefault("volumes", []).append({"name": "e" + f, "emptyDir": {}})
            at = c if f == "bind" else spec.setdefault("initContainers", [s.container({}, "i0")])[0]
            at.setdefault("volumeMounts", []).append(
                {"name": "e" + f, "mountPath": "/" + f, **({"bindMountOptions": ["noexec"]} if s.p(0.8) else {})}
            )
        elif f == "level":
            spec["resources"] = {"requests": {"cpu": milli(s.unit_c)}}
        else:
            one = spec.setdefault("initContainers", [s.container({}, "i0")])[0]
            one["restartPolicyRules"], one["restartPolicy"] = rule, "Never"


# ------------------------------------------------------------------------------------------------------ volumes37
def c_volumes37(s):
    """Drivers that must be on the node, storage capacity that scores, volume limits."""
    r = s.r
    s.base(tight=s.p(0.35), roomy=0.6, fancy=False, nodes=r.choice([2, 3, 4, 5]))
    s.incoming(share=r.choice([0.05, 0.2]))
    s.add_pdbs(0, 1, 0.8)
    drivers = ["csi.a", "csi.b"]
    must = r.choice(
        [["csi.a"], ["csi.b"], []]
    )  # of several missing drivers upstream names any: by the order of a Go map
    for drv in drivers:
        if s.p(0.9):
            spec = {
                "attachRequired": s.p(0.9),
                "podInfoOnMount": False,
                "storageCapacity": s.p(0.75),
                "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            }
            if drv in must or s.p(0.3):
                spec["preventPodSchedulingIfMissing"] = drv in must
            obj(s, "storage.k8s.io/v1", "CSIDriver", drv, spec=spec)
    for n in s.nodes:
        if s.p(0.85):
            one = obj(s, "storage.k8s.io/v1", "CSINode", n["metadata"]["name"], spec={"drivers": []})
            one["metadata"]["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "Node", "name": n["metadata"]["name"], "uid": n["metadata"]["uid"]}
            ]
            for drv in drivers:
                if s.p(0.65):
                    e = {"name": drv, "nodeID": n["metadata"]["name"], "topologyKeys": []}
                    if s.p(0.6):
                        e["allocatable"] = {"count": r.choice([0, 1, 2, 5])}
                    one["spec"]["drivers"].append(e)
    for drv in drivers:
        obj(
            s,
            "storage.k8s.io/v1",
            "StorageClass",
            "dyn-" + drv,
            provisioner=drv,
            reclaimPolicy="Delete",
            volumeBindingMode="WaitForFirstConsumer",
        )
        for k, n in enumerate(s.nodes):
            if s.p(0.8):
                obj(
                    s,
                    "storage.k8s.io/v1",
                    "CSIStorageCapacity",
                    "cap-%s-%d" % (drv, k),
                    "kube-system",
                    storageClassName="dyn-" + drv,
                    capacity="%dGi" % r.choice([5, 10, 20, 50, 100]),
                    nodeTopology={"matchLabels": {HOST: n["metadata"]["name"]}},
                    **({"maximumVolumeSize": "%dGi" % r.choice([5, 50])} if s.p(0.2) else {}),
                )
    spec = s.pod["spec"]
    for i in range(r.choice([1, 1, 2, 3])):
        drv = r.choice(drivers)
        x = r.random()
        if x < 0.65:
            obj(
                s,
                "v1",
                "PersistentVolumeClaim",
                "dyn-%d" % i,
                "default",
                spec={
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "dyn-" + drv,
                    "volumeMode": "Filesystem",
                    "resources": {"requests": {"storage": "%dGi" % r.choice([1, 5, 10, 20])}},
                },
                status={"phase": "Pending"},
            )
            spec.setdefault("volumes", []).append(
                {"name": "v%d" % i, "persistentVolumeClaim": {"claimName": "dyn-%d" % i}}
            )
        elif x < 0.85:
            spec.setdefault("volumes", []).append(
                {"name": "v%d" % i, "csi": {"driver": drv, "volumeAttributes": {"a": "b"}}}
            )
            s.tag("inline-csi")
        else:
            c = obj(
                s,
                "v1",
                "PersistentVolumeClaim",
                "st-%d" % i,
                "default",
                spec={
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "fast",
                    "volumeName": "pv-%d" % i,
                    "volumeMode": "Filesystem",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
                status={"phase": "Bound"},
                meta={"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            )
            obj(
                s,
                "v1",
                "PersistentVolume",
                "pv-%d" % i,
                spec={
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Delete",
                    "storageClassName": "fast",
                    "volumeMode": "Filesystem",
                    "csi": {"driver": drv, "volumeHandle": "h%d" % i},
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "namespace": "default",
                        "name": c["metadata"]["name"],
                        "uid": c["metadata"]["uid"],
                    },
                },
                status={"phase": "Bound"},
            )
            spec.setdefault("volumes", []).append(
                {"name": "v%d" % i, "persistentVolumeClaim": {"claimName": "st-%d" % i}}
            )
            s.tag("bound")


# ------------------------------------------------------------------------------------------------------- config37
POINTS = [
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "placementGenerate",
    "placementScore",
    "placementFeasible",
    "podGroupPostFilter",
    "nosuchPoint",
]


def c_config37(s):
    r = s.r
    s.base(tight=s.p(0.5), roomy=0.6, fancy=False, nodes=r.choice([2, 3, 4]))
    s.incoming(share=r.choice([0.1, 0.3]))
    s.add_pdbs(0, 2, 0.8)
    if s.p(0.5):
        gen.FEATURES[r.choice(["images", "taints", "interpod", "spread"])](s)
    if s.p(0.4):
        obj(
            s,
            "storage.k8s.io/v1",
            "CSIDriver",
            "csi.a",
            spec={
                "attachRequired": True,
                "podInfoOnMount": False,
                "storageCapacity": True,
                "volumeLifecycleModes": ["Persistent"],
            },
        )
        obj(
            s,
            "storage.k8s.io/v1",
            "StorageClass",
            "dyn",
            provisioner="csi.a",
            reclaimPolicy="Delete",
            volumeBindingMode="WaitForFirstConsumer",
        )
        obj(
            s,
            "v1",
            "PersistentVolumeClaim",
            "dyn-0",
            "default",
            spec={
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "dyn",
                "volumeMode": "Filesystem",
                "resources": {"requests": {"storage": "10Gi"}},
            },
            status={"phase": "Pending"},
        )
        for k, n in enumerate(s.nodes):
            obj(
                s,
                "storage.k8s.io/v1",
                "CSIStorageCapacity",
                "cap-%d" % k,
                "kube-system",
                storageClassName="dyn",
                capacity="%dGi" % r.choice([10, 20, 50, 100]),
                nodeTopology={"matchLabels": {HOST: n["metadata"]["name"]}},
            )
        s.pod["spec"].setdefault("volumes", []).append({"name": "v0", "persistentVolumeClaim": {"claimName": "dyn-0"}})


def kube_config(s):
    r = s.r
    plugins, args, top = {}, [], {}
    for f in r.sample(
        [
            "group",
            "placement",
            "shape",
            "timeout",
            "weights",
            "top",
            "dra",
            "deferred",
            "gang",
            "fit",
            "refused",
            "declared",
            "min",
        ],
        r.randint(1, 3),
    ):
        s.tag("cfg-" + f)
        if f == "group":
            plugins["podGroupPostFilter"] = r.choice(
                [
                    {"enabled": [{"name": "DefaultPreemption"}]},
                    {"disabled": [{"name": "*"}]},
                    {"disabled": [{"name": "DefaultPreemption"}]},
                    {},
                ]
            )
        elif f == "placement":
            plugins[
                r.choice(["placementGenerate", "placementScore", "placementScore", "placementFeasible", "nosuchPoint"])
            ] = {"disabled": [{"name": "*"}]}
        elif f == "shape":
            merge_args(
                args,
                "VolumeBinding",
                bindTimeoutSeconds=r.choice([0, 600]),
                shape=[
                    {"utilization": 0, "score": r.choice([0, 10])},
                    {"utilization": 100, "score": r.choice([0, 10])},
                ],
            )
        elif f == "timeout":
            merge_args(args, "DynamicResources", filterTimeout=r.choice(["0s", "10s", "1m", "-1s"]))
        elif f == "weights":
            plugins.setdefault("score", {}).update(
                {
                    "enabled": [
                        {"name": n, "weight": r.choice([1, 5, 0])}
                        for n in r.sample(
                            ["VolumeBinding", "ImageLocality", "DynamicResources", "NodeDeclaredFeatures"],
                            r.choice([1, 2]),
                        )
                    ],
                    "disabled": [{"name": "*"}] if s.p(0.3) else [],
                }
            )
        elif f == "top":
            top.update(
                r.choice(
                    [
                        {"percentageOfNodesToScore": r.choice([0, 50, 100, 101])},
                        {"parallelism": r.choice([1, 16, 0])},
                        {"delayCacheUntilActive": True},
                        {"podMaxBackoffSeconds": 20},
                        {"podInitialBackoffSeconds": 30, "podMaxBackoffSeconds": 20},
                        {"nodeInfoSnapshot": True},
                        {"leaderElection": {"leaderElect": False, "resourceLock": r.choice(["leases", "endpoints"])}},
                    ]
                )
            )
        elif f == "dra":
            plugins.setdefault("multiPoint", {}).setdefault("disabled", []).append({"name": "DynamicResources"})
        elif f == "deferred":
            plugins.setdefault("filter", {}).setdefault("enabled", []).append({"name": "DeferredPodScheduling"})
        elif f == "gang":
            plugins.setdefault("permit", {})["disabled"] = [{"name": r.choice(["GangScheduling", "*", "NoSuchPlugin"])}]
        elif f == "fit":
            merge_args(
                args,
                "NodeResourcesFit",
                scoringStrategy={
                    "type": r.choice(["LeastAllocated", "MostAllocated", "Balanced"]),
                    "resources": [{"name": n, "weight": r.choice([1, 2])} for n in r.sample(["cpu", "memory", GPU], 2)],
                },
            )
        elif f == "refused":
            x = r.choice(["DefaultPreemption", "InterPodAffinity", "NodeAffinity", "PodTopologySpread"])
            merge_args(
                args,
                x,
                **{
                    "DefaultPreemption": {"minCandidateNodesPercentage": r.choice([101, -1, 50])},
                    "InterPodAffinity": {"hardPodAffinityWeight": r.choice([101, 100])},
                    "NodeAffinity": {
                        "addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
                    },
                    "PodTopologySpread": {
                        "defaultingType": r.choice(["List", "System"]),
                        "defaultConstraints": [
                            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
                        ],
                    },
                }[x],
            )
        elif f == "declared":
            plugins.setdefault("multiPoint", {}).setdefault("disabled", []).append({"name": "NodeDeclaredFeatures"})
        else:
            merge_args(
                args,
                "DefaultPreemption",
                minCandidateNodesPercentage=r.choice([0, 10]),
                minCandidateNodesAbsolute=r.choice([0, 1, 100]),
            )
    profile = {"schedulerName": "default-scheduler"}
    if plugins:
        profile["plugins"] = plugins
    if args:
        profile["pluginConfig"] = args
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **top,
        "profiles": [profile],
    }


BUILD = {name: globals()["c_" + name] for name in CATEGORIES}


def build(cat, seed, i):
    s = gen.Scenario(random.Random("own/137/%s/%s/%s" % (cat, seed, i)), cat, "%s-%s-%04d" % (cat, seed, i))
    BUILD[cat](s)
    out = s.dump()
    if cat == "config37":
        out["config"] = kube_config(s)
        out["tags"] = sorted(s.tags)
    return out
