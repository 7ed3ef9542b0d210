"""Wider random scenarios for the oracle: what gen.py's 13 categories do not cover (stdlib only, seedable).

    gen_wide.py --category podlevel --count 400 --seed 1 > scenarios.jsonl

Same shape of scenarios as gen.py; category config has "config", a KubeSchedulerConfiguration. Quantities are canonical,
as an API server writes them, except in category `quantities`.
"""

import json
import random
from datetime import timedelta

from tests.upstream.generate import old_basic as gen
from tests.upstream.generate.old_basic import GI, HOST, MI, REGION, T0, ZONE, ts

CATEGORIES = ["podlevel", "volumes2", "owners", "devices", "dra", "features", "config", "everything"]
GPU, FPGA, HUGE, EPH = "example.com/gpu", "example.org/fpga", "hugepages-2Mi", "ephemeral-storage"


def obj(s, api, kind, name, ns=None, **rest):
    """An object of the cluster, added to the List."""
    o = {"apiVersion": api, "kind": kind, "metadata": {"name": name, "uid": s.uid(), "creationTimestamp": ts(T0)}}
    if ns:
        o["metadata"]["namespace"] = ns
    meta = rest.pop("meta", None)
    if meta:
        o["metadata"].update(meta)
    o.update(rest)
    s.extra.append(o)
    return o


def amount(name, v):
    """Canonical text."""
    if name == "cpu":
        return "%d" % (v // 1000) if v % 1000 == 0 else "%dm" % v
    if name in ("memory", EPH) or name.startswith("hugepages-"):
        for suf, m in (("Gi", GI), ("Mi", MI), ("Ki", 1024)):
            if v and v % m == 0:
                return "%d%s" % (v // m, suf)
    return "%d" % v


def amounts(req):
    return {k: amount(k, v) for k, v in req.items()}


def node_names(s):
    return [n["metadata"]["name"] for n in s.nodes]


def on(s, name):
    return [p for p in s.running() if p["spec"]["nodeName"] == name]


def give(s, node, name, v):
    for k in ("capacity", "allocatable"):
        node["status"][k][name] = amount(name, v)


# ------------------------------------------------------------------------------------------------------- podlevel
def some_request(s, small=1.0, extra=0.3):
    r = s.r
    out = {}
    if s.p(0.85):
        out["cpu"] = max(1, int(s.unit_c * r.choice([0.1, 0.25, 0.5, 1, 1.5]) * small))
    if s.p(0.85):
        out["memory"] = max(1, int(s.unit_m * r.choice([0.1, 0.25, 0.5, 1, 1.5]) * small)) // 1024 * 1024
    if s.p(extra * 0.5):
        out[EPH] = r.choice([1, 2, 4]) * GI
    if s.p(extra * 0.4):
        out[GPU] = r.choice([1, 1, 2])
    if s.p(extra * 0.4):
        out[HUGE] = r.choice([2, 32, 64]) * MI
    return out


def resources(s, req):
    """requests and limits as the API server leaves them: extended and huge pages alike in both."""
    out = {"requests": amounts(req)} if req else {}
    lim = {k: v for k, v in req.items() if "/" in k or k.startswith("hugepages-")}
    for k in ("cpu", "memory"):
        if k in req and s.p(0.3):
            lim[k] = req[k] * s.r.choice([1, 1, 2])
    if lim:
        out["limits"] = amounts(lim)
    return out


def change(s, req):
    """What a status says of the same container: some other amounts, some names missing, some more."""
    r = s.r
    out = {k: int(v * r.choice([0.5, 1, 1, 2, 3])) or 1 for k, v in req.items() if s.p(0.9)}
    if s.p(0.15):
        out.update(some_request(s, 0.5))
    return out


def shape(s, p, f, status):
    """Gives a pod containers, init containers, sidecars, overhead, pod-level resources; and a resize in progress."""
    r, spec = s.r, p["spec"]
    cs, plain = [], {}
    for i in range(r.choice([1, 1, 2, 3])):
        req = some_request(s, f)
        plain["c%d" % i] = req
        c = s.container({}, "c%d" % i)
        c["resources"] = resources(s, req)
        cs.append(c)
    spec["containers"] = cs
    inits, sides = [], {}
    if s.p(0.5):
        for i in range(r.randint(1, 3)):
            req = some_request(s, f * r.choice([0.5, 1, 2]), 0.15)
            c = s.container({}, "i%d" % i)
            c["resources"] = resources(s, req)
            if s.p(0.55):
                c["restartPolicy"] = "Always"
            sides["i%d" % i] = req
            inits.append(c)
        spec["initContainers"] = inits
    if s.p(0.35):
        spec["overhead"] = amounts(
            {
                k: v
                for k, v in {
                    "cpu": r.choice([10, 50, 100, s.unit_c // 2]),
                    "memory": r.choice([16, 64, 120]) * MI,
                    EPH: GI,
                }.items()
                if s.p(0.7)
            }
        )
        spec["runtimeClassName"] = "kata"
    level = {}
    if s.p(0.6):
        for k, v in (
            ("cpu", int(s.unit_c * f * r.choice([0.5, 1, 1.5, 2, 3]))),
            ("memory", int(s.unit_m * f * r.choice([0.5, 1, 1.5, 2, 3])) // 1024 * 1024),
            (HUGE, r.choice([2, 32, 64, 128]) * MI),
        ):
            if s.p(0.6 if k != HUGE else 0.2):
                level[k] = max(1, v)
        if level:
            x = r.random()
            res = spec["resources"] = {}
            if x < 0.8:
                res["requests"] = amounts(level)
            if x > 0.6:
                res["limits"] = amounts(
                    {k: v * r.choice([1, 1, 2]) if k != HUGE else v for k, v in level.items() if s.p(0.8)} or level
                )
            if s.p(0.85):
                default_pod_level(spec)
    if not status:
        return
    st = p["status"]
    if s.p(0.75):
        sts = []
        for name, req in plain.items():
            if s.p(0.9):
                sts.append(container_status(s, name, req))
        if s.p(0.08):
            sts.append(container_status(s, "gone", some_request(s)))
        st["containerStatuses"] = sts
        if inits and s.p(0.8):
            st["initContainerStatuses"] = [container_status(s, n, q) for n, q in sides.items() if s.p(0.85)]
        s.tag("resize")
    if (level and s.p(0.6)) or s.p(0.05):
        if s.p(0.85):
            st["resources"] = {"requests": amounts(change(s, level))} if s.p(0.9) else {}
        if s.p(0.75):
            st["allocatedResources"] = amounts(change(s, level))
        s.tag("podlevel-resize")
    conds = []
    if s.p(0.5):
        conds.append(
            {
                "type": "PodResizePending",
                "status": "True" if s.p(0.9) else "False",
                "reason": r.choice(["Infeasible", "Infeasible", "Deferred"]),
            }
        )
    if s.p(0.3):
        conds.append({"type": "PodResizeInProgress", "status": "True", "reason": r.choice(["", "Error"])})
    if s.p(0.05):
        conds.append({"type": "PodResizePending", "status": "True", "reason": "Deferred"})
    r.shuffle(conds)
    if conds:
        st.setdefault("conditions", []).extend(conds)


def container_status(s, name, req):
    o = {
        "name": name,
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": "i",
        "imageID": "",
        "state": {"running": {}},
    }
    if s.p(0.85):
        o["resources"] = {"requests": amounts(change(s, req))} if s.p(0.93) else {}
    if s.p(0.8):
        o["allocatedResources"] = amounts(change(s, req))
    return o


def default_pod_level(spec):
    """pkg/apis/core/v1 setDefaultPodRequests: what containers ask for, else the limit."""
    res = spec["resources"]
    req = dict(res.get("requests") or {})
    total = {}
    for c in spec["containers"]:
        for k, v in (c["resources"].get("requests") or {}).items():
            if k in ("cpu", "memory"):
                total[k] = total.get(k, 0) + number(v)
    for k, v in total.items():
        req.setdefault(k, amount(k, v))
    for k, v in (res.get("limits") or {}).items():
        req.setdefault(k, v)
    if req:
        res["requests"] = req


def number(text):
    for suf, m in (("Gi", GI), ("Mi", MI), ("Ki", 1024)):
        if text.endswith(suf):
            return int(text[:-2]) * m
    return int(text[:-1]) if text.endswith("m") else int(text) * (1000 if len(text) < 4 else 1)


def c_podlevel(s):
    r = s.r
    s.base(roomy=0.5, fancy=False, pressure="both", nodes=r.choice([2, 3, 4, 5, 6, 8]))
    s.incoming(share=0.4)
    s.add_pdbs(0, 3, 0.8)
    f_podlevel(s)


def f_podlevel(s):
    r = s.r
    for n in s.nodes:
        give(s, n, EPH, r.choice([4, 10, 20]) * GI)
        if s.p(0.7):
            give(s, n, GPU, r.choice([1, 2, 4]))
        if s.p(0.7):
            give(s, n, HUGE, r.choice([64, 128, 256]) * MI)
    share = r.choice([0.3, 0.6, 1.0])
    for p in s.running():
        if s.p(share):
            shape(s, p, r.choice([0.25, 0.5, 1]), s.p(0.7))
    shape(s, s.pod, r.choice([1, 2, 3]), s.p(0.35))


# ------------------------------------------------------------------------------------------------------- volumes2
MIGRATED = {
    "gce": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    "aws": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    "azure": ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    "azurefile": ("kubernetes.io/azure-file", "file.csi.azure.com"),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    "vsphere": ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    "portworx": ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
}
DRIVERS = ["csi.a", "csi.a", "csi.b"] + [d for _, d in MIGRATED.values()]


def pv_source(s, kind, i):
    r = s.r
    ro = s.p(0.3)
    if kind.startswith("csi"):
        return {"csi": {"driver": kind, "volumeHandle": "h%d" % i}}
    return {
        "gce": {"gcePersistentDisk": {"pdName": "pd-%d" % i, "fsType": "ext4", "readOnly": ro}},
        "aws": {"awsElasticBlockStore": {"volumeID": r.choice(["aws://us-east-1a/vol-%d" % i, "vol-%d" % i])}},
        "azure": {
            "azureDisk": {
                "diskName": "d%d" % i,
                "diskURI": "/subscriptions/s/disks/d%d" % i,
                "cachingMode": "None",
                "kind": "Managed",
                "fsType": "ext4",
                "readOnly": ro,
            }
        },
        "azurefile": {"azureFile": {"secretName": "sec", "shareName": "sh%d" % i, "secretNamespace": "default"}},
        "cinder": {"cinder": {"volumeID": "cv-%d" % i}},
        "vsphere": {"vsphereVolume": {"volumePath": "[ds] vol/%d.vmdk" % i}},
        "portworx": {"portworxVolume": {"volumeID": "px-%d" % i}},
        "local": {"local": {"path": "/mnt/%d" % i}},
        "hostPath": {"hostPath": {"path": "/data"}},
        "nfs": {"nfs": {"server": "10.0.0.9", "path": "/x"}},
        "rbd": {"rbd": {"monitors": ["m1"], "image": "im%d" % i, "pool": "rbd"}},
        "iscsi": {"iscsi": {"targetPortal": "10.0.0.9", "iqn": "iqn.x:%d" % i, "lun": 0}},
    }[kind]


def inline_disk(s, n=3):
    r = s.r
    i, ro = r.randint(1, n), s.p(0.5)
    return r.choice(
        [
            {"gcePersistentDisk": {"pdName": "pd-%d" % i, "readOnly": ro}},
            {"gcePersistentDisk": {"pdName": "pd-%d" % i, "readOnly": ro}},
            {"awsElasticBlockStore": {"volumeID": "vol-%d" % i, "readOnly": ro}},
            {"awsElasticBlockStore": {"volumeID": "vol-%d" % i, "readOnly": ro}},
            {
                "rbd": {
                    "monitors": r.sample(["m1", "m2", "m3"], r.randint(1, 2)),
                    "image": "im%d" % i,
                    "pool": r.choice(["rbd", "rbd", "p2"]),
                    "readOnly": ro,
                }
            },
            {"rbd": {"monitors": ["m1"], "image": "im%d" % i, "pool": "rbd", "readOnly": ro}},
            {
                "iscsi": {
                    "targetPortal": r.choice(["10.0.0.9", "10.0.0.8"]),
                    "iqn": "iqn.x:%d" % i,
                    "lun": r.choice([0, 0, 1]),
                    "readOnly": ro,
                }
            },
            {
                "azureDisk": {
                    "diskName": "d%d" % i,
                    "diskURI": "/subscriptions/s/disks/d%d" % i,
                    "cachingMode": "None",
                    "kind": "Managed",
                    "fsType": "ext4",
                    "readOnly": ro,
                }
            },
            {"cinder": {"volumeID": "cv-%d" % i, "readOnly": ro}},
            {"azureFile": {"secretName": "sec", "shareName": "sh%d" % i}},
            {"vsphereVolume": {"volumePath": "[ds] vol/%d.vmdk" % i}},
            {"portworxVolume": {"volumeID": "px-%d" % i}},
            {"csi": {"driver": "csi.a", "volumeAttributes": {"a": "b"}}},
            {"emptyDir": {}},
            {"configMap": {"name": "cm"}},
        ]
    )


class Volumes:
    def __init__(self, s):
        self.s, self.i = s, 0
        self.classes = {}
        self.users = {}  # (ns, claim)

    def n(self):
        self.i += 1
        return self.i

    def klass(self, name, wffc, prov, topo=None, default=False):
        o = obj(
            self.s,
            "storage.k8s.io/v1",
            "StorageClass",
            name,
            provisioner=prov,
            reclaimPolicy="Delete",
            volumeBindingMode="WaitForFirstConsumer" if wffc else "Immediate",
        )
        if topo is not None:
            o["allowedTopologies"] = topo
        self.classes[name] = o
        return o

    def claim(self, name, ns, sc, vol=None, modes=("ReadWriteOnce",), size="1Gi", mode="Filesystem", phase=None, **kw):
        o = obj(
            self.s,
            "v1",
            "PersistentVolumeClaim",
            name,
            ns,
            spec={"accessModes": list(modes), "resources": {"requests": {"storage": size}}, "volumeMode": mode},
            status={"phase": phase or ("Bound" if vol else "Pending")},
        )
        if sc is not None:
            o["spec"]["storageClassName"] = sc
        if vol:
            o["spec"]["volumeName"] = vol
            o["metadata"]["annotations"] = {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
            }
        o["spec"].update(kw)
        return o

    def volume(
        self,
        name,
        sc,
        kind,
        claim=None,
        size="1Gi",
        modes=("ReadWriteOnce",),
        mode="Filesystem",
        labels=None,
        terms=None,
        **kw,
    ):
        o = obj(
            self.s,
            "v1",
            "PersistentVolume",
            name,
            meta={"labels": labels} if labels else None,
            spec={
                "capacity": {"storage": size},
                "accessModes": list(modes),
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": sc,
                "volumeMode": mode,
                **pv_source(self.s, kind, self.n()),
            },
            status={"phase": "Bound" if claim else "Available"},
        )
        if terms:
            o["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        if claim:
            o["spec"]["claimRef"] = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim["metadata"]["namespace"],
                "name": claim["metadata"]["name"],
                "uid": claim["metadata"]["uid"],
            }
        o["spec"].update(kw)
        return o

    def mount(self, pod, source, name=None):
        vs = pod["spec"].setdefault("volumes", [])
        vs.append({"name": name or "v%d" % len(vs), **source})

    def mount_claim(self, pod, name):
        self.mount(pod, {"persistentVolumeClaim": {"claimName": name, **({"readOnly": True} if self.s.p(0.1) else {})}})

    def terms(self):
        s, r = self.s, self.s.r
        x = r.random()
        names = node_names(s)
        if x < 0.4:
            return [
                {
                    "matchExpressions": [
                        {"key": HOST, "operator": "In", "values": r.sample(names, max(1, len(names) * 2 // 3))}
                    ]
                }
            ]
        if x < 0.8:
            return [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": r.sample(["z1", "z2", "z3", "z4"], 2)}]}
            ]
        if x < 0.9:
            return [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [z]}]}
                for z in r.sample(["z1", "z2", "z3"], 2)
            ]
        return [
            {
                "matchExpressions": [
                    {"key": "topology.%s/zone" % r.choice(DRIVERS), "operator": "In", "values": ["z1", "z2"]}
                ]
            }
        ]

    def bound(self, ns, kind=None, **kw):
        s, r = self.s, self.s.r
        kind = kind or r.choice(
            [
                "csi.a",
                "csi.a",
                "csi.b",
                "gce",
                "aws",
                "azure",
                "azurefile",
                "cinder",
                "vsphere",
                "portworx",
                "local",
                "hostPath",
                "nfs",
                "rbd",
                "iscsi",
            ]
        )
        name = "data-%d" % self.n()
        modes = kw.pop("modes", None) or [
            r.choice(["ReadWriteOnce", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"])
        ]
        mode = r.choice(["Filesystem", "Filesystem", "Block"])
        c = self.claim(name, ns, "fast", "pv-" + name, modes=modes, mode=mode)
        labels = None
        if s.p(0.3):
            labels = r.choice(
                [
                    {ZONE: "z1"},
                    {ZONE: "z1__z2"},
                    {ZONE: "z1__z4"},
                    {ZONE: "z1", REGION: "r1"},
                    {REGION: "r1"},
                    {REGION: "r2"},
                    {"failure-domain.beta.kubernetes.io/zone": "z2"},
                    {
                        "failure-domain.beta.kubernetes.io/region": "r1",
                        "failure-domain.beta.kubernetes.io/zone": "z1__z3",
                    },
                    {"other": "x"},
                ]
            )
        if s.p(0.03):
            return c  # no such volume
        self.volume(
            "pv-" + name,
            "fast",
            kind,
            claim=c,
            modes=modes,
            mode=mode,
            labels=labels,
            terms=self.terms() if s.p(0.35) else None,
            **kw,
        )
        return c


def c_volumes2(s):
    r = s.r
    s.base(tight=s.p(0.5), roomy=0.4, fancy=False, nodes=r.choice([2, 3, 4, 5, 6, 8]))
    s.incoming(share=r.choice([0.1, 0.1, 0.3]))
    s.add_pdbs(0, 3, 0.8)
    f_volumes2(s)


def f_volumes2(s):
    r = s.r
    v, ns = Volumes(s), s.pod["metadata"]["namespace"]
    v.klass("fast", False, "csi.a")
    for n in s.nodes:
        for k in (ZONE, REGION):
            if s.p(0.06):
                n["metadata"]["labels"].pop(k, None)
        if s.p(0.15):
            n["metadata"]["labels"]["failure-domain.beta.kubernetes.io/zone"] = r.choice(["z1", "z2"])
            n["metadata"]["labels"]["failure-domain.beta.kubernetes.io/region"] = "r1"
        if s.p(0.3):
            n["metadata"]["labels"]["topology.csi.a/zone"] = r.choice(["z1", "z2", "z3"])
    # running pods' volumes
    modes_of_day = r.sample(["claims", "disks", "rwop", "limits", "ephemeral"], r.randint(1, 3))
    run = s.running()
    if "claims" in modes_of_day or "limits" in modes_of_day:
        for p in r.sample(run, min(len(run), r.choice([4, 8, 14]))):
            v.mount_claim(p, v.bound(p["metadata"]["namespace"])["metadata"]["name"])
    if "disks" in modes_of_day:
        for p in run:
            for _ in range(r.choice([0, 0, 1, 1, 2])):
                v.mount(p, inline_disk(s))
    if "ephemeral" in modes_of_day:
        for p in r.sample(run, min(len(run), 6)):
            ephemeral(s, v, p, running=True)
    if "limits" in modes_of_day:
        for n in s.nodes:
            if s.p(0.92):
                csinode(s, n)
        s.tag("limits")
    # the incoming pod's
    for _ in range(r.choice([1, 1, 2, 3])):
        incoming_volume(s, v, ns, modes_of_day)
    for _ in range(r.choice([0, 0, 1, 3])):
        bound = [o for o in s.extra if o["kind"] == "PersistentVolume"]
        if bound:
            pv = r.choice(bound)
            obj(
                s,
                "storage.k8s.io/v1",
                "VolumeAttachment",
                "va-%d" % v.n(),
                spec={
                    "attacher": (pv["spec"].get("csi") or {}).get("driver") or r.choice(DRIVERS),
                    "nodeName": r.choice(node_names(s)),
                    "source": {"persistentVolumeName": pv["metadata"]["name"]}
                    if s.p(0.95)
                    else {
                        "inlineVolumeSpec": {
                            "accessModes": ["ReadWriteOnce"],
                            "csi": {"driver": "csi.a", "volumeHandle": "h"},
                        }
                    },
                },
                status={"attached": s.p(0.9)},
            )
            s.tag("attachment")
    for d in ("csi.a", "csi.b", "pd.csi.storage.gke.io"):
        if s.p(0.6):
            obj(
                s,
                "storage.k8s.io/v1",
                "CSIDriver",
                d,
                spec={
                    "attachRequired": s.p(0.9),
                    "podInfoOnMount": False,
                    "storageCapacity": s.p(0.6),
                    "volumeLifecycleModes": ["Persistent"],
                    **({"nodeAllocatableUpdatePeriodSeconds": 60} if s.p(0.2) else {}),
                },
            )


def csinode(s, n):
    r = s.r
    o = obj(s, "storage.k8s.io/v1", "CSINode", n["metadata"]["name"], spec={"drivers": []})
    o["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Node", "name": n["metadata"]["name"], "uid": n["metadata"]["uid"]}
    ]
    for d in dict.fromkeys(DRIVERS):
        if s.p(0.6):
            one = {"name": d, "nodeID": n["metadata"]["name"], "topologyKeys": ["topology.%s/zone" % d]}
            if s.p(0.85):
                one["allocatable"] = {"count": r.choice([0, 1, 1, 2, 2, 3])} if s.p(0.95) else {}
            o["spec"]["drivers"].append(one)
    x = r.random()
    if x < 0.75:
        names = [k for k, _ in MIGRATED.values()]
        o["metadata"]["annotations"] = {
            "storage.alpha.kubernetes.io/migrated-plugins": ",".join(
                sorted(names if x < 0.5 else r.sample(names, r.randint(0, 4)))
            )
        }


def ephemeral(s, v, pod, running=False, sc=None):
    r = s.r
    name = "e%d" % v.n()
    ns = pod["metadata"]["namespace"]
    sc = sc or r.choice(["fast", "lazy"])
    if "lazy" not in v.classes:
        v.klass("lazy", True, "csi.a")
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": sc,
        "volumeMode": "Filesystem",
    }
    v.mount(pod, {"ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": spec}}}, name)
    s.tag("ephemeral")
    claim = "%s-%s" % (pod["metadata"]["name"], name)
    x = r.random()
    if x < 0.15:
        return  # not created yet
    isbound = running or sc == "fast" or s.p(0.3)
    c = v.claim(claim, ns, sc, "pv-" + claim if isbound else None)
    if x < 0.85:
        c["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    elif x < 0.93:
        c["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": s.uid(), "controller": True}
        ]
        s.tag("ephemeral-foreign")
    else:
        s.tag("ephemeral-foreign")
    if isbound:
        v.volume("pv-" + claim, sc, r.choice(["csi.a", "csi.b"]), claim=c)


def incoming_volume(s, v, ns, day):
    r = s.r
    kind = r.choice(
        [
            "bound",
            "bound",
            "wffc-dynamic",
            "wffc-dynamic",
            "wffc-static",
            "wffc-static",
            "ephemeral",
            "disk",
            "disk",
            "rwop",
            "odd",
            "shared",
        ]
    )
    s.tag("v-" + kind)
    i = v.n()
    if kind == "bound":
        v.mount_claim(s.pod, v.bound(ns)["metadata"]["name"])
    elif kind == "disk":
        v.mount(s.pod, inline_disk(s))
        for p in s.running():
            if s.p(0.15):
                v.mount(p, inline_disk(s))
    elif kind == "shared":
        mine = [p for p in s.running() if p["metadata"]["namespace"] == ns]
        c = v.bound(ns)
        v.mount_claim(s.pod, c["metadata"]["name"])
        for p in r.sample(mine, min(len(mine), 3)):
            v.mount_claim(p, c["metadata"]["name"])
    elif kind == "rwop":
        c = v.bound(ns, modes=["ReadWriteOncePod"])
        v.mount_claim(s.pod, c["metadata"]["name"])
        mine = [p for p in s.running() if p["metadata"]["namespace"] == ns]
        for p in r.sample(mine, min(len(mine), r.choice([0, 1, 1, 2]))):
            v.mount_claim(p, c["metadata"]["name"])
            if s.p(0.1):
                p["metadata"]["deletionTimestamp"] = ts(T0 + timedelta(days=2))
    elif kind == "ephemeral":
        ephemeral(s, v, s.pod)
    elif kind == "odd":
        x = r.random()
        if x < 0.2:
            v.mount_claim(s.pod, "absent")
        elif x < 0.4:
            c = v.claim("odd-%d" % i, ns, r.choice(["fast", "", None, "nosuch"]))
            v.mount_claim(s.pod, "odd-%d" % i)
        elif x < 0.55:
            c = v.claim("odd-%d" % i, ns, "fast", "pv-lost", phase="Lost")
            v.mount_claim(s.pod, "odd-%d" % i)
        elif x < 0.7:
            c = v.bound(ns)
            c["metadata"]["deletionTimestamp"] = ts(T0 + timedelta(days=1))
            v.mount_claim(s.pod, c["metadata"]["name"])
        elif x < 0.85:  # bound, but not completely
            c = v.bound(ns)
            c["metadata"]["annotations"].pop("pv.kubernetes.io/bind-completed", None)
            v.mount_claim(s.pod, c["metadata"]["name"])
        else:  # volumeName of the user's choice, not bound yet
            c = v.claim("odd-%d" % i, ns, "lazy-odd", "pv-odd-%d" % i, phase="Pending")
            c["metadata"].pop("annotations")
            v.klass("lazy-odd-%d" % i, True, "csi.a")
            c["spec"]["storageClassName"] = "lazy-odd-%d" % i
            if s.p(0.7):
                v.volume("pv-odd-%d" % i, "lazy-odd-%d" % i, "csi.a", terms=v.terms() if s.p(0.5) else None)
            v.mount_claim(s.pod, "odd-%d" % i)
    elif kind == "wffc-dynamic":
        sc = "dyn-%d" % i
        topo = None
        if s.p(0.5):
            topo = [
                {
                    "matchLabelExpressions": [{"key": ZONE, "values": r.sample(["z1", "z2", "z3"], r.randint(1, 2))}]
                    + ([{"key": REGION, "values": ["r1"]}] if s.p(0.3) else [])
                }
                for _ in range(r.choice([1, 1, 2]))
            ]
        prov = r.choice(["csi.a", "csi.a", "csi.b", "kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"])
        v.klass(sc, True, prov, topo)
        size = r.choice([1, 5, 10])
        vac = {"volumeAttributesClassName": "gold"} if s.p(0.15) else {}
        c = v.claim(
            "dyn-%d" % i,
            ns,
            sc,
            size="%dGi" % size,
            modes=[r.choice(["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])],
            mode=r.choice(["Filesystem", "Block"]),
            **vac,
        )
        if s.p(0.25):
            c["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": r.choice(node_names(s))}
            s.tag("selected-node")
        if s.p(0.1):
            c["metadata"].setdefault("annotations", {})["volume.beta.kubernetes.io/storage-class"] = sc
        v.mount_claim(s.pod, "dyn-%d" % i)
        for k in range(r.choice([0, 2, 4])):
            o = obj(
                s,
                "storage.k8s.io/v1",
                "CSIStorageCapacity",
                "cap-%d-%d" % (i, k),
                r.choice(["kube-system", "default"]),
                storageClassName=sc if s.p(0.9) else "other",
            )
            x = r.random()
            if x < 0.85:
                o["capacity"] = "%dGi" % r.choice([0, 1, 4, 8, 20])
            if s.p(0.4):
                o["maximumVolumeSize"] = "%dGi" % r.choice([1, 3, 5, 20])
            y = r.random()
            if y < 0.45:
                o["nodeTopology"] = {"matchLabels": {ZONE: r.choice(["z1", "z2", "z3"])}}
            elif y < 0.7:
                o["nodeTopology"] = {
                    "matchExpressions": [
                        {
                            "key": HOST,
                            "operator": r.choice(["In", "NotIn"]),
                            "values": r.sample(node_names(s), max(1, len(s.nodes) // 2)),
                        }
                    ]
                }
            elif y < 0.85:
                o["nodeTopology"] = {}
            s.tag("capacity")
    else:
        sc = "static-%d" % i
        v.klass(sc, True, r.choice(["kubernetes.io/no-provisioner", "kubernetes.io/no-provisioner", "csi.a"]))
        for k in range(r.choice([1, 1, 2])):
            extra = {"selector": {"matchLabels": {"tier": "gold"}}} if s.p(0.2) else {}
            if s.p(0.2):
                extra["volumeAttributesClassName"] = r.choice(["gold", "silver"])
            v.claim(
                "st-%d-%d" % (i, k),
                ns,
                sc,
                size=r.choice(["1Gi", "5Gi"]),
                modes=[r.choice(["ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany"])],
                mode=r.choice(["Filesystem", "Filesystem", "Block"]),
                **extra,
            )
            v.mount_claim(s.pod, "st-%d-%d" % (i, k))
        for k, n in enumerate(s.nodes):
            for j in range(r.choice([0, 1, 1, 2, 3])):
                extra = {"volumeAttributesClassName": r.choice(["gold", "silver"])} if s.p(0.2) else {}
                o = v.volume(
                    "loc-%d-%d-%d" % (i, k, j),
                    sc,
                    r.choice(["local", "local", "csi.a"]),
                    size=r.choice(["1Gi", "2Gi", "5Gi", "10Gi"]),
                    modes=r.sample(["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"], r.randint(1, 2)),
                    mode=r.choice(["Filesystem", "Filesystem", "Filesystem", "Block"]),
                    labels={"tier": r.choice(["gold", "iron"])} if s.p(0.4) else None,
                    terms=[{"matchExpressions": [{"key": HOST, "operator": "In", "values": [n["metadata"]["name"]]}]}],
                    **extra,
                )
                x = r.random()
                if x < 0.05:
                    o["status"]["phase"] = r.choice(["Released", "Failed"])
                elif x < 0.1:
                    o["metadata"]["deletionTimestamp"] = ts(T0 + timedelta(days=1))
                elif x < 0.2:  # reserved for a claim, mine or another's
                    o["spec"]["claimRef"] = {
                        "kind": "PersistentVolumeClaim",
                        "namespace": ns,
                        "name": r.choice(["st-%d-0" % i, "other"]),
                    }


# --------------------------------------------------------------------------------------------------------- owners
def c_owners(s):
    r = s.r
    s.base(tight=s.p(0.3), roomy=0.6, fancy=False, nodes=r.choice([3, 4, 6, 8, 10]))
    s.incoming(share=0.1, ns=r.choice(["default", "default", "prod"]))
    s.add_pdbs(0, 2, 0.8)
    f_owners(s)


def f_owners(s):
    r = s.r
    for n in s.nodes:
        x = r.random()
        if x < 0.12:
            n["metadata"]["labels"].pop(ZONE, None)
        elif x < 0.16:
            n["metadata"]["labels"].pop(HOST, None)
        elif x < 0.2:
            n["metadata"]["labels"][ZONE] = ""
    if s.p(0.1):
        for n in s.nodes:
            n["metadata"]["labels"].pop(ZONE, None)
    ns = s.pod["metadata"]["namespace"]
    lab = s.pod["metadata"]["labels"]
    if s.p(0.1):
        lab = s.pod["metadata"]["labels"] = {}
        s.pod["metadata"].pop("labels")
    for p in s.running():
        if s.p(0.6):
            p["metadata"]["namespace"] = ns
        if s.p(0.5) and lab:
            p["metadata"].setdefault("labels", {}).update({k: v for k, v in lab.items() if s.p(0.8)})
        if s.p(0.05):
            p["metadata"]["deletionTimestamp"] = ts(T0 + timedelta(days=2))

    def sel(expr=True):
        x = r.random()
        base = {k: v for k, v in lab.items() if s.p(0.7)}
        if x < 0.7 or not expr:
            out = {"matchLabels": base or {"app": r.choice(s.apps)}}
        else:
            out = {
                "matchExpressions": [
                    r.choice(
                        [
                            {
                                "key": "app",
                                "operator": "In",
                                "values": list(dict.fromkeys([lab.get("app", "web"), r.choice(s.apps)])),
                            },
                            {"key": "app", "operator": "Exists"},
                            {"key": "tier", "operator": "NotIn", "values": ["back"]},
                            {"key": "nolabel", "operator": "DoesNotExist"},
                        ]
                    )
                ]
            }
            if s.p(0.5):
                out["matchLabels"] = base or {"app": r.choice(s.apps)}
        if s.p(0.06):
            return {}
        return out

    owners = []
    for kind, api in r.sample(
        [
            ("Service", "v1"),
            ("Service", "v1"),
            ("ReplicationController", "v1"),
            ("ReplicaSet", "apps/v1"),
            ("StatefulSet", "apps/v1"),
            ("ReplicaSet", "apps/v1"),
        ],
        r.randint(0, 4),
    ):
        name = s.name(kind.lower()[:3])
        here = ns if s.p(0.85) else "dev"
        if kind == "Service":
            q = sel(False).get("matchLabels", {})
            x = r.random()
            spec = {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "type": "ClusterIP"}
            if x < 0.9:
                spec["selector"] = q
            obj(s, api, kind, name, here, spec=spec)
            continue
        tpl = {"metadata": {"labels": dict(lab) or {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        if kind == "ReplicationController":
            o = obj(
                s,
                api,
                kind,
                name,
                here,
                spec={"replicas": 3, "selector": sel(False).get("matchLabels", {}), "template": tpl},
            )
        else:
            o = obj(
                s,
                api,
                kind,
                name,
                here,
                spec={
                    "replicas": 3,
                    "selector": sel(),
                    "template": tpl,
                    **({"serviceName": "x"} if kind == "StatefulSet" else {}),
                },
            )
        owners.append((o, api, kind))
        s.tag(kind)
    x = r.random()
    if owners and x < 0.75:
        refs = []
        for o, api, kind in r.sample(owners, r.choice([1, 1, min(2, len(owners))])):
            refs.append(
                {
                    "apiVersion": api,
                    "kind": kind,
                    "name": o["metadata"]["name"],
                    "uid": o["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            )
        if len(refs) > 1:
            for k in refs[1:]:
                k["controller"] = s.p(0.3)
        s.pod["metadata"]["ownerReferences"] = refs
    elif x < 0.9:
        s.pod["metadata"]["ownerReferences"] = [
            {
                "apiVersion": r.choice(["apps/v1", "batch/v1", "v1", "apps/v1beta1", "extensions/v1beta1"]),
                "kind": r.choice(
                    ["ReplicaSet", "Job", "DaemonSet", "StatefulSet", "Deployment", "ReplicationController"]
                ),
                "name": "gone",
                "uid": s.uid(),
                "controller": s.p(0.9),
            }
        ]
    if s.p(0.2):
        for n in s.nodes:
            if s.p(0.3):
                n["spec"]["taints"] = [
                    {"key": "dedicated", "value": "x", "effect": r.choice(["NoSchedule", "PreferNoSchedule"])}
                ]
    if s.p(0.2):
        s.pod["spec"]["nodeSelector"] = {"disk": r.choice(["ssd", "hdd"])}
    if s.p(0.1):
        s.pod["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": r.choice(s.apps)}},
            }
        ]
        s.tag("own-constraints")


# -------------------------------------------------------------------------------------------------------- devices
def slices(s, driver, n, devices, pool=None, **kw):
    return obj(
        s,
        "resource.k8s.io/v1",
        "ResourceSlice",
        "%s-%s" % (n["metadata"]["name"], driver.replace(".", "-")),
        spec={
            "driver": driver,
            "nodeName": n["metadata"]["name"],
            "pool": {"name": pool or n["metadata"]["name"], "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
            **kw,
        },
    )


def device_class(s, name, driver=None, extended=None):
    spec = {}
    if driver:
        spec["selectors"] = [{"cel": {"expression": 'device.driver == "%s"' % driver}}]
    if extended:
        spec["extendedResourceName"] = extended
    return obj(s, "resource.k8s.io/v1", "DeviceClass", name, spec=spec)


def c_devices(s):
    r = s.r
    s.base(tight=s.p(0.5), roomy=0.5, fancy=False, nodes=r.choice([2, 3, 4, 5, 6]))
    s.incoming(share=r.choice([0.1, 0.3]))
    s.add_pdbs(0, 2, 0.8)
    f_devices(s)


def f_devices(s):
    r = s.r
    backed = r.choice([GPU, GPU, None])
    if backed:
        device_class(s, "gpu", "gpu.example.com", backed)
        if s.p(0.15):
            device_class(s, "gpu2", "gpu2.example.com", backed)
    if s.p(0.4):
        device_class(s, "plain", "gpu.example.com")
    implicit = "deviceclass.resource.kubernetes.io/plain"
    names = [GPU, FPGA, implicit]
    for n in s.nodes:
        for name in (GPU, FPGA):
            if s.p(0.5):
                give(s, n, name, r.choice([0, 1, 2, 4]))
        if s.p(0.05):
            give(s, n, implicit, 1)
        if s.p(0.3):
            slices(s, "gpu.example.com", n, [{"name": "d%d" % i} for i in range(r.randint(1, 3))])
        left = {k: int(n["status"]["allocatable"].get(k, "0").replace("k", "000")) for k in names}
        for p in on(s, n["metadata"]["name"]):
            for name in (GPU, FPGA):
                if s.p(0.35) and left[name] > 0:
                    one = {name: "1"}
                    res = p["spec"]["containers"][0]["resources"]
                    res.setdefault("requests", {}).update(one)
                    res.setdefault("limits", {}).update(one)
                    left[name] -= 1
            if s.p(0.05):  # more than there is: a device plugin that went away, or one that DRA serves
                p["spec"]["containers"][0]["resources"].setdefault("requests", {})[GPU] = "1"
    for name in r.sample(names, r.choice([1, 1, 2])):
        res = s.pod["spec"]["containers"][0]["resources"]
        k = r.choice(["0", "1", "1", "2"])
        res.setdefault("requests", {})[name] = k
        res.setdefault("limits", {})[name] = k
        s.tag("asks-" + name.rsplit("/", 1)[1])
    if s.p(0.2):
        s.pod["spec"]["initContainers"] = [s.container({}, "i0")]
        s.pod["spec"]["initContainers"][0]["resources"] = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}


def c_dra(s):
    r = s.r
    s.base(tight=s.p(0.4), roomy=0.5, fancy=False, nodes=r.choice([2, 3, 4, 5, 6]))
    s.incoming(share=r.choice([0.05, 0.2]))
    s.add_pdbs(0, 2, 0.8)
    ns = s.pod["metadata"]["namespace"]
    drv = "gpu.example.com"
    device_class(s, "gpu", drv)
    device_class(s, "any")
    devices = {}
    for n in s.nodes:
        if s.p(0.8):
            ds = []
            for i in range(r.randint(1, 4)):
                d = {
                    "name": "d%d" % i,
                    "attributes": {"model": {"string": r.choice(["a100", "h100"])}, "index": {"int": i}},
                    "capacity": {"memory": {"value": "%dGi" % r.choice([20, 40, 80])}},
                }
                if s.p(0.1):
                    d["taints"] = [
                        {
                            "key": "bad",
                            "value": "x",
                            "effect": r.choice(["NoSchedule", "NoExecute", "None"]),
                            "timeAdded": ts(T0),
                        }
                    ]
                    s.tag("device-taint")
                ds.append(d)
            devices[n["metadata"]["name"]] = ds
            slices(s, drv, n, ds)

    def request(name):
        q = {"deviceClassName": r.choice(["gpu", "gpu", "any", "nosuch"] if s.p(0.2) else ["gpu"])}
        x = r.random()
        if x < 0.7:
            q.update(allocationMode="ExactCount", count=r.choice([1, 1, 1, 2, 3]))
        else:
            q.update(allocationMode="All")
        if s.p(0.35):
            q["selectors"] = [
                {
                    "cel": {
                        "expression": r.choice(
                            [
                                'device.attributes["gpu.example.com"].model == "h100"',
                                'device.attributes["gpu.example.com"].index < 2',
                                'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
                                'device.attributes["gpu.example.com"].nosuch == "x"',
                            ]
                        )
                    }
                }
            ]
            s.tag("cel")
        if s.p(0.1):
            q["tolerations"] = [{"key": "bad", "operator": "Exists", "effect": "NoSchedule"}]
        if s.p(0.08):
            q["adminAccess"] = True
            s.tag("admin")
        return {"name": name, "exactly": q}

    def claim(name, ns_, allocated=None, users=()):
        o = obj(
            s,
            "resource.k8s.io/v1",
            "ResourceClaim",
            name,
            ns_,
            spec={"devices": {"requests": [request("r%d" % i) for i in range(r.choice([1, 1, 2]))]}},
            status={},
        )
        if allocated:
            node, d = allocated
            o["status"]["allocation"] = {
                "devices": {
                    "results": [
                        {
                            "request": o["spec"]["devices"]["requests"][0]["name"],
                            "driver": drv,
                            "pool": node,
                            "device": d["name"],
                        }
                    ]
                },
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
                    ]
                },
            }
            o["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        if users:
            o["status"]["reservedFor"] = [
                {"resource": "pods", "name": u["metadata"]["name"], "uid": u["metadata"]["uid"]} for u in users
            ]
        return o

    for name, ds in devices.items():
        free = list(ds)
        r.shuffle(free)
        for p in on(s, name):
            if free and s.p(0.4):
                c = "claim-" + p["metadata"]["name"]
                claim(c, p["metadata"]["namespace"], (name, free.pop()), [p])
                p["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": c}]
                p["spec"]["containers"][0]["resources"]["claims"] = [{"name": "g"}]
    refs = []
    for i in range(r.choice([1, 1, 2])):
        x = r.random()
        s.tag("claim")
        if x < 0.45:
            claim("mine-%d" % i, ns)
            refs.append({"name": "g%d" % i, "resourceClaimName": "mine-%d" % i})
        elif x < 0.6 and devices:
            name = r.choice(sorted(devices))
            o = claim("mine-%d" % i, ns, (name, r.choice(devices[name])))
            if s.p(0.4):
                o["status"]["reservedFor"] = [
                    {"resource": "pods", "name": "x%d" % k, "uid": s.uid()} for k in range(256 if s.p(0.2) else 1)
                ]
            refs.append({"name": "g%d" % i, "resourceClaimName": "mine-%d" % i})
            s.tag("allocated")
        elif x < 0.85:
            o = claim("tpl-%d" % i, ns)
            o["metadata"]["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": s.pod["metadata"]["name"],
                    "uid": s.pod["metadata"]["uid"] if s.p(0.9) else s.uid(),
                    "controller": True,
                }
            ]
            refs.append({"name": "g%d" % i, "resourceClaimTemplateName": "tpl"})
            if s.p(0.85):
                s.pod["status"].setdefault("resourceClaimStatuses", []).append(
                    {"name": "g%d" % i, "resourceClaimName": "tpl-%d" % i}
                )
            s.tag("template")
        else:
            refs.append({"name": "g%d" % i, "resourceClaimName": "absent"})
            s.tag("absent")
    s.pod["spec"]["resourceClaims"] = refs
    s.pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": x["name"]} for x in refs]


# ------------------------------------------------------------------------------------------------------- features
CONDITION_TAINTS = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.kubernetes.io/out-of-service",
]


def c_features(s):
    r = s.r
    s.base(tight=s.p(0.5), roomy=0.5, fancy=False, nodes=r.choice([2, 3, 4, 5, 6, 8]))
    s.incoming(share=r.choice([0.1, 0.3, 0.5]))
    s.add_pdbs(0, 3, 0.8)
    f_features(s)


def f_features(s):
    r = s.r
    pick = r.sample(
        [
            "declared",
            "runtime",
            "conditions",
            "gates",
            "os",
            "ports",
            "imagevol",
            "quantities",
            "priorities",
            "topology",
            "tolerations",
            "nodename",
            "resizepending",
        ],
        r.randint(2, 4),
    )
    sp = s.pod["spec"]
    for f in pick:
        s.tag("ft-" + f)
        if f == "declared":
            for n in s.nodes:
                if s.p(0.6):
                    n["status"]["declaredFeatures"] = sorted(
                        r.sample(
                            [
                                "GuaranteedQoSPodCPUResize",
                                "UserNamespacesHostNetworkSupport",
                                "RestartAllContainersOnContainerExits",
                                "ExtendWebSocketsToKubelet",
                                "PodLevelResourceManagers",
                                "InPlacePodVerticalScalingExclusiveCPUs",
                            ],
                            r.randint(1, 4),
                        )
                    )
            x = r.random()
            if x < 0.3:
                sp["hostNetwork"], sp["hostUsers"] = True, False
            elif x < 0.5:
                sp["containers"][0]["restartPolicyRules"] = [
                    {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
                ]
                sp["containers"][0]["restartPolicy"] = "Never"
            elif x < 0.65:
                sp["containers"][0]["restartPolicyRules"] = [
                    {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
                ]
                sp["containers"][0]["restartPolicy"] = "Never"
            elif x < 0.8:
                sp["hostUsers"] = False
            elif x < 0.9:
                sp["resources"] = {"requests": {"cpu": "100m"}}
        elif f == "runtime":
            obj(
                s,
                "node.k8s.io/v1",
                "RuntimeClass",
                "gvisor",
                handler="runsc",
                overhead={"podFixed": {"cpu": "100m", "memory": "64Mi"}},
                scheduling={"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
            )
            sp["runtimeClassName"] = "gvisor"
            sp["overhead"] = {"cpu": "100m", "memory": "64Mi"}
            if s.p(0.8):  # what admission merges
                sp["nodeSelector"] = {**sp.get("nodeSelector", {}), "disk": "ssd"}
                sp.setdefault("tolerations", []).append({"key": "sandbox", "operator": "Exists"})
            for n in s.nodes:
                if s.p(0.4):
                    n["spec"].setdefault("taints", []).append({"key": "sandbox", "effect": "NoSchedule"})
        elif f == "conditions":
            for n in s.nodes:
                if s.p(0.4):
                    t = r.choice(CONDITION_TAINTS)
                    n["spec"].setdefault("taints", []).append(
                        {"key": t, "effect": r.choice(["NoSchedule", "NoExecute"])}
                    )
                    if t.endswith("not-ready"):
                        n["status"]["conditions"][0]["status"] = "False"
                elif s.p(0.2):
                    n["status"]["conditions"][0]["status"] = r.choice(
                        ["False", "Unknown"]
                    )  # the condition alone decides nothing
                if s.p(0.1):
                    n["spec"]["unschedulable"] = True
                if s.p(0.1):
                    n["metadata"]["deletionTimestamp"] = ts(T0)
            if s.p(0.5):
                sp.setdefault("tolerations", []).append({"key": r.choice(CONDITION_TAINTS), "operator": "Exists"})
        elif f == "gates":
            if s.p(0.5):
                sp["schedulingGates"] = [{"name": "example.com/g"}]
            p = s.mkpod("gated", "default", None, s.P, {}, [s.container({"cpu": s.unit_c})])
            p["spec"]["schedulingGates"] = [{"name": "example.com/g"}]
            p["status"]["nominatedNodeName"] = r.choice(node_names(s))
            s.pods.append(p)
        elif f == "os":
            sp["os"] = {"name": r.choice(["linux", "windows"])}
            for n in s.nodes:
                if s.p(0.3):
                    n["metadata"]["labels"]["kubernetes.io/os"] = "windows"
            if s.p(0.5):
                sp["nodeSelector"] = {**sp.get("nodeSelector", {}), "kubernetes.io/os": sp["os"]["name"]}
        elif f == "ports":
            hn = s.p(0.4)

            def ports(k, host):
                out = []
                for i in range(k):
                    q = {
                        "containerPort": r.choice([80, 8080, 9100]),
                        "protocol": r.choice(["TCP", "TCP", "UDP", "SCTP"]),
                    }
                    if host:
                        q["hostPort"] = q["containerPort"]
                    elif s.p(0.7):
                        q["hostPort"] = r.choice([80, 8080, 9100])
                        if s.p(0.5):
                            q["hostIP"] = r.choice(["127.0.0.1", "10.0.0.1", "0.0.0.0", "::", "::1", "fd00::1"])
                    out.append(q)
                return out

            if hn:
                sp["hostNetwork"] = True
            sp["containers"][0]["ports"] = ports(r.randint(1, 3), hn)
            if s.p(0.3):
                c = s.container({"cpu": 1}, "side", ports=ports(1, hn))
                c["restartPolicy"] = "Always"
                sp.setdefault("initContainers", []).append(c)
            for p in s.running():
                if s.p(0.3):
                    h = s.p(0.4)
                    if h:
                        p["spec"]["hostNetwork"] = True
                    p["spec"]["containers"][0]["ports"] = ports(r.randint(1, 2), h)
        elif f == "imagevol":
            pool = ["registry.example/m%d:v1" % i for i in range(3)]
            sp.setdefault("volumes", []).extend(
                {
                    "name": "iv%d" % i,
                    "image": {"reference": r.choice(pool + ["registry.example/m0", ""]), "pullPolicy": "IfNotPresent"},
                }
                for i in range(r.randint(1, 3))
            )
            sp["volumes"] = [v for v in sp["volumes"] if "image" not in v or v["image"]["reference"]]
            for n in s.nodes:
                n["status"]["images"] = [
                    {
                        "names": [x, x.replace(":v1", ":latest")],
                        "sizeBytes": r.choice([10 * MI, 300 * MI, 2000 * MI, 20 * GI]),
                    }
                    for x in pool
                    if s.p(0.5)
                ]
        elif f == "quantities":
            for n in s.nodes:
                x = r.random()
                if x < 0.15:
                    n["status"]["allocatable"]["memory"] = r.choice(
                        ["0", "1", "8Ei", "9223372036854775807", "16Ei", "1Ki"]
                    )
                elif x < 0.3:
                    n["status"]["allocatable"]["cpu"] = r.choice(["0", "1m", "9223372036854775", "1k", "1M", "-1"])
                elif x < 0.4:
                    n["status"]["allocatable"]["pods"] = r.choice(["0", "1", "9223372036854775807", "2147483648"])
                elif x < 0.5:
                    n["status"]["allocatable"][GPU] = r.choice(["0", "9223372036854775807", "1k"])
            c = sp["containers"][0]["resources"].setdefault("requests", {})
            x = r.random()
            if x < 0.3:
                c["memory"] = r.choice(["1", "0", "7Ei", "1Pi", "9223372036854775807"])
            elif x < 0.6:
                c["cpu"] = r.choice(["1m", "0", "100k", "9223372036854775", "1n", "1u", "1500u"])
            elif x < 0.8:
                c[GPU] = r.choice(["0", "1", "9223372036854775807"])
            for p in s.running():
                if s.p(0.1):
                    q = p["spec"]["containers"][0]["resources"].setdefault("requests", {})
                    q[r.choice(["memory", "cpu", EPH])] = r.choice(["0", "1", "1n", "1Ei" if s.p(0.3) else "1Ki"])
        elif f == "priorities":
            v = r.choice([-2147483648, -2147483647, -100, -1, 0])
            sp["priority"] = s.P = v
            for p in s.running():
                if s.p(0.7):
                    p["spec"]["priority"] = r.choice([-2147483648, -2147483648, -1000, -101, -100, -2, -1])
        elif f == "topology":
            for n in s.nodes:
                l = n["metadata"]["labels"]
                x = r.random()
                if x < 0.15:
                    l.pop(ZONE, None)
                elif x < 0.25:
                    l.pop(REGION, None)
                elif x < 0.35:
                    l[HOST] = "same-host"
                elif x < 0.45:
                    l[ZONE] = ""
                if s.p(0.3):
                    l[REGION] = r.choice(["r1", "r2"])
            k = r.choice([ZONE, HOST, REGION, "disk", "gen"])
            sp["topologySpreadConstraints"] = [
                {
                    "maxSkew": r.choice([1, 2]),
                    "topologyKey": k,
                    "whenUnsatisfiable": r.choice(["DoNotSchedule", "ScheduleAnyway"]),
                    "labelSelector": {"matchLabels": {"app": r.choice(s.apps)}},
                    **({"nodeAffinityPolicy": r.choice(["Honor", "Ignore"])} if s.p(0.4) else {}),
                    **({"nodeTaintsPolicy": r.choice(["Honor", "Ignore"])} if s.p(0.4) else {}),
                }
            ]
            if s.p(0.5):
                sp.setdefault("affinity", {})["podAffinity"] = {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": r.choice([ZONE, REGION, HOST]),
                            "labelSelector": {"matchLabels": {"app": r.choice(s.apps)}},
                        }
                    ]
                }
        elif f == "tolerations":
            for n in s.nodes:
                if s.p(0.5):
                    n["spec"].setdefault("taints", []).append(
                        {
                            "key": "level",
                            "value": r.choice(["1", "5", "10", ""]),
                            "effect": r.choice(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
                        }
                    )
            sp.setdefault("tolerations", []).append(
                r.choice(
                    [
                        {"key": "level", "operator": "Gt", "value": "3"},
                        {"key": "level", "operator": "Lt", "value": "7"},
                        {"key": "level", "operator": "Equal", "value": "5"},
                        {"key": "level", "operator": "Exists", "effect": "PreferNoSchedule"},
                        {"operator": "Exists"},
                        {"key": "level", "operator": "Equal", "effect": "NoSchedule"},
                    ]
                )
            )
        elif f == "nodename":
            if s.p(0.5):
                sp.setdefault("affinity", {})["nodeAffinity"] = {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchFields": [
                                    {"key": "metadata.name", "operator": "In", "values": [r.choice(node_names(s))]}
                                ]
                            }
                        ]
                    }
                }  # as a DaemonSet's pod
            else:
                sp["nodeSelector"] = {**sp.get("nodeSelector", {}), HOST: r.choice(node_names(s))}
        elif f == "resizepending":
            for p in s.running():
                if s.p(0.4):
                    p["status"].setdefault("conditions", []).append(
                        {
                            "type": r.choice(["PodResizePending", "PodResizeInProgress"]),
                            "status": "True",
                            "reason": r.choice(["Deferred", "Infeasible"]),
                        }
                    )
                    p["status"]["containerStatuses"] = [
                        {
                            "name": c["name"],
                            "image": "i",
                            "imageID": "",
                            "ready": True,
                            "restartCount": 0,
                            "allocatedResources": dict(c["resources"].get("requests", {})),
                            "resources": {"requests": {"cpu": "50m"}},
                        }
                        for c in p["spec"]["containers"]
                    ]


# --------------------------------------------------------------------------------------------------------- config
FILTERS = [
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeDeclaredFeatures",
]
SCORES = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def kube_config(s):
    r = s.r
    plugins, args = {}, []

    def arg(kind, **kw):
        if kw:
            args.append(
                {"name": kind, "args": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": kind + "Args", **kw}}
            )

    names = list(SCORES)
    for f in r.sample(
        [
            "weights",
            "weights",
            "mp-disable",
            "filter-disable",
            "score-disable",
            "fit",
            "fit",
            "ignored",
            "balanced",
            "added",
            "spread",
            "interpod",
            "preemption",
            "preemption",
            "mp-star",
        ]
        + ["reorder"] * s.p(0.3),
        r.randint(2, 5),
    ):
        s.tag("cfg-" + f)
        if f == "weights":
            sc = plugins.setdefault("score", {})
            for n in r.sample(names, r.randint(1, 4)):
                if not any(x["name"] == n for x in sc.setdefault("enabled", [])):
                    sc["enabled"].append({"name": n, "weight": r.choice([1, 2, 5, 10, 100])})
                    if s.p(0.5):
                        sc.setdefault("disabled", []).append({"name": n})
        elif f == "mp-disable":
            d = plugins.setdefault("multiPoint", {}).setdefault("disabled", [])
            for n in r.sample(
                [
                    "NodePorts",
                    "TaintToleration",
                    "NodeUnschedulable",
                    "ImageLocality",
                    "NodeResourcesBalancedAllocation",
                    "VolumeZone",
                    "NodeVolumeLimits",
                    "PodTopologySpread",
                    "InterPodAffinity",
                    "NodeAffinity",
                    "VolumeRestrictions",
                    "NodeDeclaredFeatures",
                ],
                r.randint(1, 3),
            ):
                if not any(x["name"] in (n, "*") for x in d):
                    d.append({"name": n})
        elif f == "filter-disable":
            d = plugins.setdefault("filter", {}).setdefault("disabled", [])
            for n in r.sample([x for x in FILTERS if x != "NodeResourcesFit"], r.randint(1, 2)):
                if not any(x["name"] == n for x in d):
                    d.append({"name": n})
        elif f == "score-disable":
            d = plugins.setdefault("score", {}).setdefault("disabled", [])
            for n in r.sample(names, r.randint(1, 3)):
                if not any(x["name"] == n for x in d):
                    d.append({"name": n})
        elif f == "mp-star" and "multiPoint" not in plugins:
            keep = (
                [n for n in ["SchedulingGates", "PrioritySort", "DefaultPreemption", "DefaultBinder"]]
                + r.sample([x for x in dict.fromkeys(FILTERS + names) if x != "NodeResourcesFit"], r.randint(5, 13))
                + ["NodeResourcesFit"]
            )
            if s.p(0.85):
                keep.sort(
                    key=(
                        ["SchedulingGates", "PrioritySort"] + FILTERS + names + ["DefaultPreemption", "DefaultBinder"]
                    ).index
                )
            plugins["multiPoint"] = {
                "disabled": [{"name": "*"}],
                "enabled": [
                    {"name": n, **({"weight": r.choice([1, 3, 7])} if n in SCORES and s.p(0.6) else {})} for n in keep
                ],
            }
        elif f == "reorder":
            plugins.setdefault("filter", {})["enabled"] = [{"name": n} for n in r.sample(FILTERS, r.randint(1, 2))]
        elif f == "fit":
            kind = r.choice(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
            res = [
                {"name": n, "weight": r.choice([1, 2, 5, 100])}
                for n in r.sample(["cpu", "memory", GPU, EPH, HUGE], r.randint(1, 4))
            ]
            if s.p(0.15):
                res = [{"name": x["name"]} for x in res]
            st = {"type": kind, "resources": res}
            if kind == "RequestedToCapacityRatio":
                k = sorted(r.sample(range(0, 101, 10), r.randint(1, 4)))
                st["requestedToCapacityRatio"] = {"shape": [{"utilization": u, "score": r.randint(0, 10)} for u in k]}
            merge_args(args, "NodeResourcesFit", scoringStrategy=st)
        elif f == "ignored":
            kw = {}
            if s.p(0.7):
                kw["ignoredResources"] = r.sample([GPU, FPGA, "example.org/x"], r.randint(1, 2))
            if s.p(0.5):
                kw["ignoredResourceGroups"] = r.sample(["example.com", "example.org"], 1)
            merge_args(args, "NodeResourcesFit", **kw)
        elif f == "balanced":
            merge_args(
                args,
                "NodeResourcesBalancedAllocation",
                resources=[{"name": n, "weight": 1} for n in r.sample(["cpu", "memory", GPU, EPH], r.randint(1, 4))],
            )
        elif f == "added":
            a = {}
            if s.p(0.7):
                a["requiredDuringSchedulingIgnoredDuringExecution"] = {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {
                                    "key": r.choice(["disk", ZONE, "pool"]),
                                    "operator": r.choice(["In", "NotIn"]),
                                    "values": r.sample(["ssd", "hdd", "z1", "z2", "a"], 2),
                                }
                            ]
                        }
                    ]
                }
            if s.p(0.6) or not a:
                a["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {
                        "weight": r.choice([1, 50]),
                        "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
                    }
                ]
            merge_args(args, "NodeAffinity", addedAffinity=a)
        elif f == "spread":
            if s.p(0.25):
                merge_args(args, "PodTopologySpread", defaultingType="System")
            else:
                cons = [
                    {"maxSkew": r.choice([1, 2, 3]), "topologyKey": k, "whenUnsatisfiable": w}
                    for k, w in r.sample(
                        [
                            (ZONE, "DoNotSchedule"),
                            (ZONE, "ScheduleAnyway"),
                            (HOST, "DoNotSchedule"),
                            (HOST, "ScheduleAnyway"),
                            ("disk", "ScheduleAnyway"),
                        ],
                        r.randint(0, 2),
                    )
                ]
                merge_args(args, "PodTopologySpread", defaultingType="List", defaultConstraints=cons)
        elif f == "interpod":
            merge_args(
                args,
                "InterPodAffinity",
                hardPodAffinityWeight=r.choice([0, 1, 10, 100]),
                ignorePreferredTermsOfExistingPods=s.p(0.5),
            )
        elif f == "preemption":
            merge_args(
                args,
                "DefaultPreemption",
                minCandidateNodesPercentage=r.choice([0, 10, 50, 100]),
                minCandidateNodesAbsolute=r.choice([1, 5, 100]),
            )
    if not any(p.get("enabled") or p.get("disabled") for p in plugins.values()):
        plugins = {}
    profile = {"schedulerName": "default-scheduler"}
    if plugins:
        profile["plugins"] = plugins
    if args:
        profile["pluginConfig"] = args
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def merge_args(args, kind, **kw):
    for a in args:
        if a["name"] == kind:
            a["args"].update(kw)
            return
    args.append({"name": kind, "args": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": kind + "Args", **kw}})


def c_config(s):
    """gen.py's mixed workload, with what the arguments look at."""
    r = s.r
    s.base(tight=s.p(0.6), roomy=0.6, fancy=False, nodes=r.choice([3, 4, 5, 6, 8]))
    s.incoming(ns="default" if s.p(0.85) else "prod", share=r.choice([0.1, 0.2, 0.4]))
    s.add_pdbs(0, 3, 0.8)
    for n in s.nodes:
        if s.p(0.6):
            give(s, n, GPU, r.choice([1, 2, 4]))
        if s.p(0.3):
            give(s, n, FPGA, 1)
        if s.p(0.3):
            give(s, n, HUGE, 128 * MI)
    for p in s.running():
        if s.p(0.25):
            res = p["spec"]["containers"][0]["resources"]
            k = r.choice([{GPU: "1"}, {EPH: "1Gi"}, {HUGE: "32Mi"}])
            res.setdefault("requests", {}).update(k)
            if EPH not in k:
                res.setdefault("limits", {}).update(k)
    if s.p(0.5):
        k = r.choice([{GPU: "1"}, {GPU: "2"}, {FPGA: "1"}, {EPH: "2Gi"}, {HUGE: "64Mi"}, {"example.org/x": "1"}])
        res = s.pod["spec"]["containers"][0]["resources"]
        res.setdefault("requests", {}).update(k)
        if EPH not in k:
            res.setdefault("limits", {}).update(k)
    order = ["images", "priorities", "taints", "affinity", "ports", "spread", "interpod", "volumes", "nominated"]
    for f in sorted(r.sample(order, r.randint(1, 4)), key=order.index):
        gen.FEATURES[f](s)
    if s.p(0.4):
        lab = s.pod["metadata"].get("labels") or {}
        if lab:
            obj(
                s,
                "v1",
                "Service",
                "svc",
                s.pod["metadata"]["namespace"],
                spec={
                    "selector": {"app": lab.get("app", "web")},
                    "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                },
            )
        if s.p(0.6):
            s.pod["spec"].pop("topologySpreadConstraints", None)


# ------------------------------------------------------------------------------------------------------ everything
def c_everything(s):
    """All of it at once: two or three of the above and some of gen.py's."""
    r = s.r
    s.base(
        tight=s.p(0.6),
        roomy=0.5,
        fancy=False,
        pressure=r.choice(["cpu", "both", "both", "pods"]),
        nodes=r.choice([3, 4, 5, 6, 8]),
    )
    s.incoming(share=r.choice([0.1, 0.3, 0.5]), ns="default" if s.p(0.8) else "prod")
    s.add_pdbs(0, 3, 0.8)
    order = ["priorities", "taints", "affinity", "ports", "spread", "interpod", "nominated", "eligibility", "pdb"]
    mine = r.sample([f_podlevel, f_volumes2, f_owners, f_devices, f_features], r.choice([2, 2, 3]))
    if f_podlevel in mine:  # replaces containers
        mine.remove(f_podlevel)
        mine.insert(0, f_podlevel)
    for f in mine:
        f(s)
        s.tag("w-" + f.__name__[2:])
    for f in sorted(r.sample(order, r.randint(1, 3)), key=order.index):
        gen.FEATURES[f](s)
        s.tag("f-" + f)


BUILD = {
    "everything": c_everything,
    "podlevel": c_podlevel,
    "volumes2": c_volumes2,
    "owners": c_owners,
    "devices": c_devices,
    "dra": c_dra,
    "features": c_features,
    "config": c_config,
}


def build(cat, seed, i):
    rng = random.Random("own/wide/%s/%s/%s" % (cat, seed, i))
    s = gen.Scenario(rng, cat, "%s-%s-%04d" % (cat, seed, i))
    BUILD[cat](s)
    out = s.dump()
    if cat in ("volumes2", "everything"):  # zones as clouds name them: translating in-tree volumes reads them
        text = json.dumps(out)
        for short, full in (("z1", "us-east1-b"), ("z2", "us-east1-c"), ("z3", "us-east1-d"), ("z4", "us-west1-a")):
            text = (
                text.replace('"%s"' % short, '"%s"' % full)
                .replace('"%s__' % short, '"%s__' % full)
                .replace('__%s"' % short, '__%s"' % full)
            )
        out = json.loads(text)
    if cat == "config":
        out["config"] = kube_config(s)
        out["tags"] = sorted(s.tags)
    return out
