"""Random scheduling/preemption scenarios for the oracle (stdlib only, seedable).

    gen.py --category resources --count 150 --seed 1 > scenarios.jsonl
    gen.py --scale 5000 --pods-per-node 30 --variant mixed --seed 1 --out big.json.gz

A scenario: {"id","category","tags","cluster":{List},"pod":{the incoming pending Pod}}.
Objects look like `kubectl get -o json` output (camelCase, API-server defaults applied where the
scheduler reads them; matchLabelKeys are merged into the selectors as the API server does).
The order of the Pod items is the order in which a scheduler would have seen them.
"""

import json
import random
from datetime import UTC, datetime, timedelta

CATEGORIES = [
    "resources",
    "pdb",
    "priorities",
    "taints",
    "affinity",
    "ports",
    "spread",
    "interpod",
    "nominated",
    "eligibility",
    "volumes",
    "images",
    "mixed",
]
MI, GI = 1 << 20, 1 << 30
ZONE, REGION, HOST = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname"
# Everything lies well in the past: a missing start time counts as "now" in the scheduler.
T0 = datetime(2024, 6, 1, 8, 0, 0, tzinfo=UTC)
APPS = ["web", "api", "db", "cache", "batch", "etl"]


def ts(dt, frac=""):
    return dt.strftime("%Y-%m-%dT%H:%M:%S") + frac + "Z"


# ---------------------------------------------------------------------------------- quantities
def q_cpu(r, milli, fancy):
    """A spelling of `milli` thousandths of a CPU."""
    if not fancy:
        return "%d" % (milli // 1000) if milli % 1000 == 0 else "%dm" % milli
    forms = ["%dm" % milli]
    if milli % 1000 == 0:
        n = milli // 1000
        forms += ["%d" % n, "%d.0" % n, "%de0" % n, "%d000m" % n]
    forms += [("%.3f" % (milli / 1000.0)).rstrip("0").rstrip("."), "%de-3" % milli, "%du" % (milli * 1000)]
    if milli % 100 == 0:
        forms += ["%.1f" % (milli / 1000.0), "%dE-1" % (milli // 100)]
    if milli > 1 and r.random() < 0.15:
        forms = ["%du" % (milli * 1000 - r.randint(1, 999))]  # rounds up to `milli`
    return r.choice(forms)


def q_mem(r, b, fancy):
    """A spelling of b bytes."""
    if not fancy:
        for suf, m in (("Gi", GI), ("Mi", MI), ("Ki", 1024)):
            if b and b % m == 0:
                return "%d%s" % (b // m, suf)
        return "%d" % b
    forms = ["%d" % b]
    for suf, m in (("Gi", GI), ("Mi", MI), ("Ki", 1024), ("G", 10**9), ("M", 10**6), ("k", 1000)):
        if b % m == 0 and b // m:
            forms.append("%d%s" % (b // m, suf))
            forms.append("%d.0%s" % (b // m, suf))
        elif (b * 2) % m == 0:
            forms.append("%.1f%s" % (b / m, suf))
        elif (b * 4) % m == 0:
            forms.append("%.2f%s" % (b / m, suf))
    for e in (3, 6, 9):
        if b % 10**e == 0 and b:
            forms += ["%de%d" % (b // 10**e, e), "%dE%d" % (b // 10**e, e)]
    if r.random() < 0.1:
        forms.append("%d000m" % b)
    return r.choice(forms)


def q_int(r, n, fancy):
    if fancy and n:
        forms = ["%d" % n, "%d.0" % n]
        if n % 1000 == 0:
            forms += ["%dk" % (n // 1000), "%de3" % (n // 1000)]
        return r.choice(forms)
    return "%d" % n


def reqlist(r, req, fancy):
    out = {}
    for k, v in req.items():
        if k == "cpu":
            out[k] = q_cpu(r, v, fancy)
        elif k in ("memory", "ephemeral-storage") or k.startswith("hugepages-"):
            out[k] = q_mem(r, v, fancy)
        else:
            out[k] = q_int(r, v, fancy)
    return out


# ---------------------------------------------------------------------------------- one scenario
class Scenario:
    def __init__(self, rng, cat, sid):
        self.r, self.cat, self.id = rng, cat, sid
        self.nodes, self.pods, self.pdbs, self.extra = [], [], [], []
        self.tags, self.fancy, self.seq = set(), False, 0
        self.namespaces = ["default", "prod", "dev"]
        self.nslabels = {}

    # -- small helpers
    def p(self, prob):
        return self.r.random() < prob

    def uid(self):
        h = "%032x" % self.r.getrandbits(128)
        return "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:]))

    def tag(self, *t):
        self.tags.update(t)

    def name(self, stem):
        self.seq += 1
        return "%s-%d" % (stem, self.seq)

    # -- objects
    def mknode(self, name, cpu, mem, pods, labels, eph=None, scalars=None):
        r = self.r
        alloc = {"cpu": q_cpu(r, cpu, self.fancy), "memory": q_mem(r, mem, self.fancy), "pods": q_int(r, pods, False)}
        if eph is not None:
            alloc["ephemeral-storage"] = q_mem(r, eph, self.fancy)
        for k, v in (scalars or {}).items():
            alloc[k] = q_mem(r, v, False) if k.startswith("hugepages-") else q_int(r, v, self.fancy)
        n = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "uid": self.uid(),
                "creationTimestamp": ts(T0 - timedelta(days=r.randint(1, 90))),
                "labels": labels,
            },
            "spec": {},
            "status": {
                "capacity": dict(alloc),
                "allocatable": alloc,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }
        self.nodes.append(n)
        return n

    def mkpod(self, stem, ns, node, prio, labels, containers, start=None, frac="", phase=None, inits=None):
        r = self.r
        created = (start or T0) - timedelta(seconds=r.randint(1, 5))
        md = {"name": self.name(stem), "namespace": ns, "uid": self.uid(), "creationTimestamp": ts(created)}
        if labels:
            md["labels"] = dict(labels)
        spec = {"containers": containers, "restartPolicy": "Always", "schedulerName": "default-scheduler"}
        if inits:
            spec["initContainers"] = inits
        if prio is not None:
            spec["priority"] = prio
        if prio is not None and self.p(0.8):
            spec["preemptionPolicy"] = "PreemptLowerPriority"
        st = {"phase": phase or ("Running" if node else "Pending"), "qosClass": "Burstable"}
        if node:
            spec["nodeName"] = node
            if start is not None:
                st["startTime"] = ts(start, frac)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": md, "spec": spec, "status": st}
        return pod

    def container(self, req, name="c", image=None, limits=None, ports=None):
        c = {"name": name, "image": image or "registry.example/%s:v1" % self.r.choice(APPS), "resources": {}}
        if req:
            c["resources"]["requests"] = reqlist(self.r, req, self.fancy)
        if limits:
            c["resources"]["limits"] = reqlist(self.r, limits, self.fancy)
        if ports:
            c["ports"] = ports
        return c

    def pick_priority(self):
        """Priority of an existing pod (mostly below the incoming one's)."""
        if self.p(self.p_lower):
            return self.r.choice(self.low)
        return self.r.choice(self.high)

    def pick_start(self):
        return self.r.choice(self.starts)

    def pick_labels(self):
        r = self.r
        if self.p(0.08):
            return {}
        l = {"app": r.choice(self.apps)}
        if self.p(0.5):
            l["tier"] = r.choice(["front", "back"])
        if self.p(0.3):
            l["version"] = r.choice(["v1", "v2"])
        return l

    # -- base cluster
    def base(self, pressure=None, roomy=0.4, tight=True, nodes=None, fancy=False):
        r = self.r
        self.fancy = fancy
        self.uniform = self.p(0.6)
        self.pressure = pressure or r.choice(["cpu", "cpu", "cpu", "memory", "both", "both", "pods", "cpu"])
        n = nodes or r.choice([2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8, 9, 10, 12, 14, 16])
        self.apps = r.sample(APPS, r.randint(2, 4))
        # priorities
        self.P = r.choice([1000, 1000, 1000, 100, 100000, 1000000, 1000000000, 2000001000, 2000000000, 10, 1, 0])
        pool = [
            x
            for x in (-1000, -10, -1, 0, None, 0, 5, 10, 100, 500, 900, 999, 5000, 100000, 1000000)
            if (x or 0) < self.P
        ]
        self.low = r.sample(pool, min(len(pool), r.randint(1, 4)))
        self.high = [self.P, self.P, min(self.P + 1, 2147483647), 2000001000]
        self.p_lower = r.choice([1.0, 0.95, 0.9, 0.9, 0.8, 0.7])
        # start times: few distinct values give ties
        k = r.choice([1, 2, 4, 30, 200, 200, 200])
        unit = r.choice([1, 60, 3600, 86400])
        self.starts = [T0 + timedelta(seconds=unit * r.randint(0, min(3 * k, 300))) for _ in range(k)]
        zones = ["z%d" % i for i in range(1, r.randint(2, 4) + 1)]
        unit_c, unit_m = r.choice([250, 500, 1000]), r.choice([512 * MI, GI, 2 * GI])
        cap_units = r.choice([4, 6, 8, 10])
        self.unit_c, self.unit_m, self.cap_units = unit_c, unit_m, cap_units
        self.caps, self.free = {}, {}
        for i in range(n):
            name = "node-%02d" % i
            u = cap_units if self.uniform or self.p(0.5) else r.choice([2, 4, 6, 8, 10, 12])
            cpu, mem = unit_c * u, unit_m * u
            if not self.uniform:
                cpu += r.randint(0, unit_c // 2)
                mem += r.randint(0, 64) * MI
            maxpods = r.choice([10, 15, 20, 110])
            labels = {
                HOST: name,
                "kubernetes.io/os": "linux",
                ZONE: zones[i % len(zones)],
                REGION: "r1",
                "disk": r.choice(["ssd", "hdd"]),
                "gen": str(r.randint(1, 9)),
            }
            if self.p(0.05):
                labels["gen"] = r.choice(["x", "", "1.5"])  # Gt/Lt never match it
            if self.p(0.3):
                labels["pool"] = r.choice(["a", "b"])
            room = self.p(0.35) if self.p(roomy) else False
            self.caps[name] = {"cpu": cpu, "memory": mem, "pods": maxpods}
            self.mknode(name, cpu, mem, maxpods, labels, eph=r.choice([20, 50, 100]) * GI)
            self.fill(name, cpu, mem, maxpods, room, tight)
        self.noise()

    def fill(self, name, cpu, mem, maxpods, room, tight):
        r = self.r
        if self.p(0.03):
            self.free[name] = (cpu, mem)
            return  # an empty node
        if room:
            share = r.choice([0.2, 0.4, 0.6])
        elif tight:
            share = r.choice([1.0, 1.0, 1.0, 0.95, 0.9, 0.85])
        else:
            share = r.choice([0.1, 0.2, 0.3, 0.5])
        want_c, want_m = int(cpu * share), int(mem * share)
        used_c = used_m = 0
        k = 0
        lim = r.choice([3, 5, 8, 14])
        while k < lim:
            if self.uniform:
                c, m = self.unit_c * r.choice([1, 1, 1, 2, 2, 3]), self.unit_m * r.choice([1, 1, 1, 2, 2, 3])
            else:
                c, m = r.randint(1, max(2, cpu // 3)), r.randint(16, max(17, mem // MI // 3)) * MI
            if self.pressure == "cpu":
                m = min(m, max(MI, (want_m - used_m) // 3))
            elif self.pressure == "memory":
                c = min(c, max(1, (want_c - used_c) // 3))
            if used_c + c > want_c or used_m + m > want_m or k == lim - 1:
                # a last pod takes what is left so that the node is as full as intended
                c = min(c, want_c - used_c) if k < lim - 1 else want_c - used_c
                m = min(m, want_m - used_m) if k < lim - 1 else want_m - used_m
                if c <= 0 and m <= 0:
                    break
                c, m = max(c, 0), max(m, 0)
                k = max(k, lim - 1) if used_c + c >= want_c and used_m + m >= want_m else k
            self.add_running(name, {"cpu": c, "memory": m})
            used_c, used_m, k = used_c + c, used_m + m, k + 1
            if used_c >= want_c and used_m >= want_m:
                break
        self.free[name] = (cpu - used_c, mem - used_m)
        if self.pressure == "pods" and not room:
            cnt = sum(1 for p in self.pods if p["spec"].get("nodeName") == name)
            self.node(name)["status"]["allocatable"]["pods"] = str(max(1, cnt + r.choice([0, 0, 0, 0, 1, -1])))

    def node(self, name):
        for n in self.nodes:
            if n["metadata"]["name"] == name:
                return n
        raise KeyError(name)

    def add_running(self, node, req, labels=None, prio="?", ns=None, start="?", frac=""):
        r = self.r
        req = {k: v for k, v in req.items() if v}
        parts = [req]
        if len(req) and self.p(0.12) and all(v > 4 for v in req.values()):
            a = {k: v // 2 for k, v in req.items()}
            parts = [a, {k: req[k] - a[k] for k in req}]
        cs = [self.container(x, "c%d" % i) for i, x in enumerate(parts)]
        pod = self.mkpod(
            r.choice(["web", "api", "job", "db"]),
            ns or r.choice(["default", "default", "prod", "dev"]),
            node,
            self.pick_priority() if prio == "?" else prio,
            self.pick_labels() if labels is None else labels,
            cs,
            self.pick_start() if start == "?" else start,
            frac,
        )
        self.pods.append(pod)
        return pod

    def noise(self):
        r = self.r
        for pod in list(self.pods):
            x = r.random()
            if x < 0.015:  # finished pods keep their nodeName and use nothing
                pod["status"]["phase"] = r.choice(["Succeeded", "Failed"])
                self.tag("finished-pod")
            elif x < 0.035:  # terminating for whatever reason
                pod["metadata"]["deletionTimestamp"] = ts(T0 + timedelta(days=2))
                pod["metadata"]["deletionGracePeriodSeconds"] = 30
                self.tag("terminating-pod")
            elif x < 0.042:
                pod["status"].pop("startTime", None)
                pod["status"]["phase"] = "Pending"
                self.tag("no-start-time")
        if self.p(0.02) and self.nodes:
            gone = self.add_running("node-gone", {"cpu": 100})
            gone["spec"]["nodeName"] = "node-gone"
            self.tag("orphan-pod")
        if self.p(0.1):
            # another pending pod, not nominated: of no consequence
            self.pods.append(
                self.mkpod(
                    "pend",
                    "default",
                    None,
                    r.choice([0, self.P, None]),
                    self.pick_labels(),
                    [self.container({"cpu": self.unit_c})],
                )
            )

    def add_pdbs(self, lo=0, hi=3, violating=0.75):
        r = self.r
        for _ in range(r.randint(lo, hi)):
            sel = {"matchLabels": {"app": r.choice(self.apps)}}
            allowed = 0 if self.p(violating) else r.randint(1, 3)
            self.mkpdb(r.choice(["default", "default", "prod", "dev"]), sel, allowed)

    def mkpdb(self, ns, selector, allowed, disrupted=None):
        spec = {"maxUnavailable": 1}
        if selector is not None:
            spec["selector"] = selector
        st = {
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "disruptionsAllowed": allowed,
            "expectedPods": 3,
            "observedGeneration": 1,
        }
        if disrupted:
            st["disruptedPods"] = disrupted
        b = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": self.name("pdb"), "namespace": ns, "uid": self.uid(), "creationTimestamp": ts(T0)},
            "spec": spec,
            "status": st,
        }
        self.pdbs.append(b)
        return b

    # -- incoming pod
    def incoming(self, share=None, req=None, labels=None, ns="default", containers=None):
        r = self.r
        if req is None:
            biggest = max(self.caps.values(), key=lambda c: c["cpu"])
            s = share if share is not None else r.choice([0.2, 0.3, 0.4, 0.5, 0.5, 0.6, 0.75, 0.9])
            if self.uniform:
                u = max(1, round(self.cap_units * s))
                c, m = self.unit_c * u, self.unit_m * u
            else:
                c, m = int(biggest["cpu"] * s), int(biggest["memory"] * s) // MI * MI
            req = {"cpu": c, "memory": m}
            if self.pressure == "cpu":
                req["memory"] = 16 * MI
            elif self.pressure == "memory":
                req["cpu"] = 10
            elif self.pressure == "pods":
                req = {"cpu": 10, "memory": 16 * MI} if self.p(0.6) else {}
        self.req = req
        pod = self.mkpod(
            "incoming",
            ns,
            None,
            self.P,
            {"app": r.choice(self.apps), "tier": "front", "version": "v1"} if labels is None else labels,
            containers or [self.container(req)],
        )
        pod["spec"]["preemptionPolicy"] = "PreemptLowerPriority"
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
        self.pod = pod
        return pod

    def running(self):
        names = {n["metadata"]["name"] for n in self.nodes}
        return [
            p
            for p in self.pods
            if p["spec"].get("nodeName") in names and p["status"]["phase"] in ("Running", "Pending")
        ]

    # -- finish
    def dump(self):
        r = self.r
        r.shuffle(self.pods)
        r.shuffle(self.nodes)
        used = (
            set(self.namespaces) | {p["metadata"]["namespace"] for p in self.pods} | {self.pod["metadata"]["namespace"]}
        )
        nss = [
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": n,
                    "uid": self.uid(),
                    "creationTimestamp": ts(T0 - timedelta(days=200)),
                    "labels": dict({"kubernetes.io/metadata.name": n}, **self.nslabels.get(n, {})),
                },
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }
            for n in sorted(used)
        ]
        return {
            "id": self.id,
            "category": self.cat,
            "tags": sorted(self.tags),
            "cluster": {
                "apiVersion": "v1",
                "kind": "List",
                "metadata": {"resourceVersion": ""},
                "items": self.nodes + self.pods + self.pdbs + nss + self.extra,
            },
            "pod": self.pod,
        }


# ---------------------------------------------------------------------------------- features
def f_resources(s):
    """Shapes of requests, on the incoming pod and on running ones."""
    r = s.r
    kind = r.choice(["plain", "gpu", "eph", "init", "sidecar", "overhead", "podlevel", "resize", "huge", "zero", "mix"])
    s.tag("res-" + kind)
    inc = s.pod
    cs = inc["spec"]["containers"]
    if kind in ("gpu", "mix"):
        per = r.choice([1, 2, 4])
        have = [n for n in s.nodes if s.p(0.8)]
        for n in have:
            total = r.choice([2, 4, 8])
            for k in ("capacity", "allocatable"):
                n["status"][k]["example.com/gpu"] = q_int(r, total, s.fancy)
            left = total
            for p in [p for p in s.running() if p["spec"]["nodeName"] == n["metadata"]["name"]]:
                g = min(left, r.choice([1, 1, 2]))
                if g and s.p(0.7):
                    res = p["spec"]["containers"][0]["resources"]
                    res.setdefault("requests", {})["example.com/gpu"] = str(g)
                    res.setdefault("limits", {})["example.com/gpu"] = str(g)
                    left -= g
        for k in ("requests", "limits"):
            cs[0]["resources"].setdefault(k, {})["example.com/gpu"] = str(per)
        if s.p(0.1):
            cs[0]["resources"]["requests"]["example.com/fpga"] = str(r.choice([0, 1]))  # nobody has it
        if s.p(0.5):
            for k in list(cs[0]["resources"]["requests"]):
                if k == "memory":
                    cs[0]["resources"]["requests"][k] = "1Mi"
    if kind in ("eph", "mix"):
        for n in s.nodes:
            cap = r.choice([10, 20]) * GI
            for k in ("capacity", "allocatable"):
                n["status"][k]["ephemeral-storage"] = q_mem(r, cap, s.fancy)
            left = cap
            for p in [p for p in s.running() if p["spec"]["nodeName"] == n["metadata"]["name"]]:
                e = min(left, r.choice([1, 2, 4, 6]) * GI)
                if e and s.p(0.8):
                    p["spec"]["containers"][0]["resources"].setdefault("requests", {})["ephemeral-storage"] = q_mem(
                        r, e, s.fancy
                    )
                    left -= e
        cs[0]["resources"].setdefault("requests", {})["ephemeral-storage"] = q_mem(r, r.choice([1, 4, 8]) * GI, s.fancy)
    if kind in ("init", "mix"):
        req = s.req or {"cpu": 10}
        big = {k: int(v * r.choice([0.5, 1.0, 1.5])) or 1 for k, v in req.items()}
        inc["spec"]["initContainers"] = [s.container(big, "i%d" % i) for i in range(r.randint(1, 2))]
        for p in r.sample(s.running(), min(4, len(s.running()))):
            p["spec"]["initContainers"] = [s.container({"cpu": s.unit_c * r.choice([1, 2]), "memory": s.unit_m}, "i0")]
    if kind in ("sidecar", "mix"):

        def sidecars(p, small):
            out = []
            for i in range(r.randint(1, 3)):
                c = s.container(
                    {"cpu": r.choice([10, 50, 100]) if small else s.unit_c, "memory": r.choice([16, 32, 64]) * MI},
                    "s%d" % i,
                )
                if s.p(0.65):
                    c["restartPolicy"] = "Always"
                out.append(c)
            p["spec"]["initContainers"] = out + p["spec"].get("initContainers", [])
            for i, c in enumerate(p["spec"]["initContainers"]):
                c["name"] = "ic%d" % i

        sidecars(inc, s.p(0.5))
        for p in r.sample(s.running(), min(5, len(s.running()))):
            sidecars(p, True)
    if kind in ("overhead", "mix"):
        inc["spec"]["overhead"] = {
            "cpu": q_cpu(r, r.choice([10, 100, s.unit_c]), s.fancy),
            "memory": q_mem(r, r.choice([16, 120]) * MI, s.fancy),
        }
        inc["spec"]["runtimeClassName"] = "kata"
        for p in r.sample(s.running(), min(4, len(s.running()))):
            p["spec"]["overhead"] = {"cpu": "50m", "memory": "64Mi"}
            p["spec"]["runtimeClassName"] = "kata"
    if kind in ("podlevel", "mix"):

        def podlevel(p, f):
            rq = {"cpu": max(1, int(s.unit_c * f)), "memory": int(s.unit_m * f)}
            which = r.choice([["cpu"], ["memory"], ["cpu", "memory"]])
            p["spec"]["resources"] = {"requests": reqlist(r, {k: rq[k] for k in which}, s.fancy)}
            if s.p(0.3):
                p["spec"]["resources"]["limits"] = dict(p["spec"]["resources"]["requests"])

        podlevel(inc, r.choice([1, 2, 3]))
        if s.p(0.4):  # only pod-level figures, nothing on the containers
            for c in inc["spec"]["containers"]:
                c["resources"] = {}
        for p in r.sample(s.running(), min(4, len(s.running()))):
            podlevel(p, r.choice([0.5, 1, 2]))
            if s.p(0.4):  # resized
                other = reqlist(
                    r, {"cpu": int(s.unit_c * r.choice([0.5, 2])), "memory": int(s.unit_m * r.choice([0.5, 2]))}, False
                )
                p["status"]["resources"] = {"requests": other}
                if s.p(0.5):
                    p["status"]["allocatedResources"] = reqlist(
                        r, {"cpu": int(s.unit_c * r.choice([1, 3])), "memory": s.unit_m}, False
                    )
                s.tag("podlevel-resize")
    if kind in ("resize", "mix"):
        for p in r.sample(s.running(), min(6, len(s.running()))):
            sts = []
            for c in p["spec"]["containers"]:
                st = {
                    "name": c["name"],
                    "ready": True,
                    "restartCount": 0,
                    "image": c["image"],
                    "imageID": "",
                    "state": {"running": {}},
                }
                if s.p(0.85):
                    st["resources"] = {
                        "requests": reqlist(
                            r,
                            {
                                "cpu": int(s.unit_c * r.choice([0.5, 1, 2])),
                                "memory": int(s.unit_m * r.choice([0.5, 1, 2])),
                            },
                            s.fancy,
                        )
                    }
                if s.p(0.8):
                    st["allocatedResources"] = reqlist(
                        r,
                        {
                            "cpu": int(s.unit_c * r.choice([0.5, 1, 1.5])),
                            "memory": int(s.unit_m * r.choice([0.5, 1, 1.5])),
                        },
                        s.fancy,
                    )
                sts.append(st)
            p["status"]["containerStatuses"] = sts
            if s.p(0.4):
                p["status"].setdefault("conditions", []).append(
                    {"type": "PodResizePending", "status": "True", "reason": r.choice(["Infeasible", "Deferred"])}
                )
    if kind in ("huge", "mix"):
        for n in s.nodes:
            if s.p(0.8):
                for k in ("capacity", "allocatable"):
                    n["status"][k]["hugepages-2Mi"] = q_mem(r, r.choice([64, 128, 256]) * MI, False)
        for p in s.running():
            if s.p(0.3):
                res = p["spec"]["containers"][0]["resources"]
                for k in ("requests", "limits"):
                    res.setdefault(k, {})["hugepages-2Mi"] = q_mem(r, r.choice([32, 64]) * MI, False)
        for k in ("requests", "limits"):
            cs[0]["resources"].setdefault(k, {})["hugepages-2Mi"] = q_mem(r, r.choice([32, 64, 128]) * MI, False)
    if s.p(0.04) and len(s.nodes) > 2:
        r.choice(s.nodes)["status"]["allocatable"] = r.choice([{}, {"cpu": "4"}, {"pods": "10"}])
        s.tag("node-no-allocatable")
    if kind == "zero":
        cs[0]["resources"] = r.choice(
            [{}, {"requests": {"cpu": "0"}}, {"requests": {"cpu": "0", "memory": "0"}}, {"requests": {"memory": "1"}}]
        )
        for n in s.nodes:
            if s.p(0.8):
                cnt = sum(1 for p in s.running() if p["spec"]["nodeName"] == n["metadata"]["name"])
                n["status"]["allocatable"]["pods"] = str(max(cnt, 1))
    if kind == "plain" and s.p(0.5):
        n = r.randint(2, 3)
        req = s.req
        if req:
            inc["spec"]["containers"] = [
                s.container({k: max(1, v // n) for k, v in req.items()}, "c%d" % i) for i in range(n)
            ]


def f_pdb(s):
    r = s.r
    for ns in ("default", "prod", "dev"):
        for _ in range(r.randint(0, 4)):
            x = r.random()
            if x < 0.45:
                sel = {"matchLabels": {"app": r.choice(s.apps)}}
            elif x < 0.55:
                sel = {"matchLabels": {"app": r.choice(s.apps), "tier": r.choice(["front", "back"])}}
            elif x < 0.62:
                sel = {}
                s.tag("pdb-empty")
            elif x < 0.69:
                sel = None
                s.tag("pdb-nil")
            else:
                op = r.choice(["In", "NotIn", "Exists", "DoesNotExist"])
                key = r.choice(["app", "tier", "version"])
                e = {"key": key, "operator": op}
                if op in ("In", "NotIn"):
                    pool = {"app": s.apps, "tier": ["front", "back"], "version": ["v1", "v2"]}[key]
                    e["values"] = r.sample(pool, r.randint(1, min(2, len(pool))))
                sel = {"matchExpressions": [e]}
                if s.p(0.2):
                    sel["matchLabels"] = {"app": r.choice(s.apps)}
                s.tag("pdb-expr")
            dis = None
            if s.p(0.3):
                mine = [p for p in s.running() if p["metadata"]["namespace"] == ns]
                if mine:
                    dis = {p["metadata"]["name"]: ts(T0) for p in r.sample(mine, min(len(mine), r.randint(1, 4)))}
                    s.tag("pdb-disrupted")
            s.mkpdb(ns, sel, r.choice([0, 0, 0, 1, 1, 2, 3]), dis)


def f_priorities(s):
    r = s.r
    mode = r.choice(["negative", "equal", "missing", "critical", "subsec", "nostart", "minint", "minint", "mix", "mix"])
    minint_share = r.choice([0.4, 1.0, 1.0])
    s.tag("prio-" + mode)
    for p in s.running():
        sp, st = p["spec"], p["status"]
        if mode in ("negative", "mix") and s.p(0.5):
            v = r.choice([-1, -1, -10, -100, -2147483648])
            if v < s.P:
                sp["priority"] = v
        if mode in ("missing", "mix") and s.p(0.3) and s.P > 0:
            sp.pop("priority", None)
            sp.pop("preemptionPolicy", None)
        if mode in ("critical", "mix") and s.p(0.15):
            sp["priority"] = r.choice([2000000000, 2000001000])
            sp["priorityClassName"] = (
                "system-cluster-critical" if sp["priority"] == 2000000000 else "system-node-critical"
            )
        if mode == "equal":
            sp["priority"] = s.low[0] or 0
        if mode in ("subsec", "mix") and "startTime" in st and s.p(0.6):
            st["startTime"] = ts(r.choice(s.starts), r.choice([".5", ".25", ".000000001", ".999999999", ".100", ""]))
        if mode in ("nostart", "mix") and s.p(0.2):
            st.pop("startTime", None)
            st["phase"] = "Pending"
            s.tag("no-start-time")
        if mode == "minint" and s.P > -2147483648 and s.p(minint_share) and (sp.get("priority") or 0) < s.P:
            sp["priority"] = -2147483648  # adds nothing to upstream's sum of priorities
    if mode == "equal" and s.p(0.5):
        t = s.starts[0]
        for p in s.running():
            if "startTime" in p["status"]:
                p["status"]["startTime"] = ts(t)
    if mode == "missing" and s.p(0.3):
        s.pod["spec"].pop("priority", None)  # the incoming pod counts as 0
        s.P = 0
        for p in s.running():
            if s.p(0.6):
                p["spec"]["priority"] = r.choice([-1, -5])
    if s.p(0.1):
        s.pod["spec"]["priority"] = s.P = r.choice([2147483647, 2000001000])


TKEYS = ["dedicated", "team", "maint"]


def f_taints(s):
    r = s.r

    def taint():
        k = r.choice(TKEYS)
        t = {
            "key": k,
            "effect": r.choice(["NoSchedule", "NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"]),
        }
        if s.p(0.7):
            t["value"] = r.choice(["x", "y"])
        if t["effect"] == "NoExecute":
            t["timeAdded"] = ts(T0)
        return t

    for n in s.nodes:
        if s.p(0.7):
            seen, ts_ = set(), []
            for _ in range(r.randint(1, 3)):
                t = taint()
                if (t["key"], t["effect"]) not in seen:
                    seen.add((t["key"], t["effect"]))
                    ts_.append(t)
            n["spec"]["taints"] = ts_
        if s.p(0.12):
            n["spec"]["unschedulable"] = True
            if s.p(0.8):
                n["spec"].setdefault("taints", []).append(
                    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": ts(T0)}
                )
    tol = []
    for k in TKEYS:
        if s.p(0.75):
            t = {"key": k, "operator": r.choice(["Exists", "Equal", "Equal"])}
            if t["operator"] == "Equal":
                t["value"] = r.choice(["x", "y", ""]) if s.p(0.9) else "x"
                if t["value"] == "":
                    del t["value"]
                if s.p(0.15):
                    del t["operator"]  # empty means Equal
            if s.p(0.6):
                t["effect"] = r.choice(["NoSchedule", "NoSchedule", "PreferNoSchedule", "NoExecute"])
                if t["effect"] == "NoExecute" and s.p(0.5):
                    t["tolerationSeconds"] = 300
            tol.append(t)
            if s.p(0.4):
                tol.append(
                    {
                        "key": k,
                        "operator": "Exists",
                        "effect": r.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
                    }
                )
    if s.p(0.2):
        tol.append(
            {"operator": "Exists"}
            if s.p(0.5)
            else {"operator": "Exists", "effect": r.choice(["NoSchedule", "NoExecute"])}
        )
    if s.p(0.25):
        tol.append({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"})
    if s.p(0.8):
        tol += [
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
            {
                "key": "node.kubernetes.io/unreachable",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
        ]
    r.shuffle(tol)
    if tol:
        s.pod["spec"]["tolerations"] = tol


def node_expr(s):
    r = s.r
    op = r.choice(["In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    if op in ("Gt", "Lt"):
        return {"key": "gen", "operator": op, "values": [str(r.randint(2, 8))]}
    key = r.choice(
        ["disk", "pool", ZONE, HOST, "nokey"] if op in ("Exists", "DoesNotExist") else ["disk", "pool", ZONE, HOST]
    )
    e = {"key": key, "operator": op}
    if op in ("In", "NotIn"):
        pool = {
            "disk": ["ssd", "hdd", "nvme"],
            "pool": ["a", "b"],
            ZONE: ["z1", "z2", "z3", "z9"],
            HOST: [n["metadata"]["name"] for n in s.nodes],
        }[key]
        e["values"] = r.sample(pool, r.randint(1, min(len(pool), 2 if key != HOST else max(1, len(pool) * 2 // 3))))
    return e


def node_term(s):
    r = s.r
    t = {}
    x = r.random()
    if x < 0.8:
        t["matchExpressions"] = [node_expr(s) for _ in range(r.choice([1, 1, 2]))]
    if x > 0.7:
        op = r.choice(["In", "NotIn", "NotIn"])
        t["matchFields"] = [{"key": "metadata.name", "operator": op, "values": [r.choice(s.nodes)["metadata"]["name"]]}]
    if s.p(0.03):
        t = {}  # an empty term selects nothing
        s.tag("empty-term")
    return t


def f_affinity(s):
    r = s.r
    na = {}
    if s.p(0.35):
        s.pod["spec"]["nodeSelector"] = r.choice(
            [
                {"disk": "ssd"},
                {"disk": "hdd"},
                {"pool": "a"},
                {ZONE: "z1"},
                {"kubernetes.io/os": "linux"},
                {"disk": "ssd", ZONE: "z2"},
            ]
        )
    if s.p(0.7):
        terms = [node_term(s) for _ in range(r.choice([1, 1, 2, 3]))]
        if s.p(0.12):
            names = [n["metadata"]["name"] for n in s.nodes]
            terms = [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [x]}]}
                for x in r.sample(names, min(len(names), r.randint(1, 3)))
            ]
            s.tag("matchfields-in")
            if s.p(0.3) and len(names) > 1:  # conflicting within a term
                terms = [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [x]} for x in names[:2]]}
                ]
            if s.p(0.2):
                terms[0]["matchFields"][0]["values"] = ["no-such-node"]
        na["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if s.p(0.6):
        na["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": r.choice([1, 5, 20, 50, 100]), "preference": node_term(s)} for _ in range(r.randint(1, 4))
        ]
    if na:
        s.pod["spec"].setdefault("affinity", {})["nodeAffinity"] = na


def f_ports(s):
    r = s.r
    want = []
    for i in range(r.choice([1, 1, 2, 3])):
        p = {"containerPort": 8080 + i, "hostPort": r.choice([80, 443, 8080, 9090, 53])}
        if s.p(0.9):
            p["protocol"] = r.choice(["TCP", "TCP", "TCP", "UDP", "SCTP"])
        if s.p(0.35):
            p["hostIP"] = r.choice(["127.0.0.1", "10.0.0.1", "0.0.0.0", "10.0.0.2"])
        want.append(p)
    s.pod["spec"]["containers"][0]["ports"] = want
    if s.p(0.15):
        c = s.container({"cpu": 1}, "side", ports=[{"containerPort": 99, "hostPort": 9999, "protocol": "TCP"}])
        if s.p(0.5):
            c["restartPolicy"] = "Always"
        s.pod["spec"].setdefault("initContainers", []).append(c)
        s.tag("init-hostport")
    hostports = [(w["hostPort"], w.get("protocol", "TCP"), w.get("hostIP")) for w in want]
    for n in s.nodes:
        mine = [p for p in s.running() if p["spec"]["nodeName"] == n["metadata"]["name"]]
        if not mine or s.p(0.15):
            continue
        taken = set()
        for p in r.sample(mine, min(len(mine), r.choice([1, 1, 2, 3]))):
            hp, proto, ip = r.choice(hostports)
            if s.p(0.25):
                proto = r.choice(["TCP", "UDP"])
            q = {"containerPort": 7000, "hostPort": hp, "protocol": proto}
            if s.p(0.35):
                q["hostIP"] = r.choice(["127.0.0.1", "10.0.0.1", "0.0.0.0", ip or "10.0.0.2"])
            key = (hp, proto, q.get("hostIP", "0.0.0.0"))
            if key in taken:
                s.tag("dup-hostport")  # two pods on a node with the very same port
                if s.p(0.6):
                    continue
            taken.add(key)
            p["spec"]["containers"][0]["ports"] = [q, {"containerPort": 7001, "protocol": "TCP"}]


def lsel(s, allow_odd=True):
    """A label selector over pods."""
    r = s.r
    x = r.random()
    if x < 0.6:
        return {"matchLabels": {"app": r.choice(s.apps)}}
    if x < 0.7:
        return {"matchLabels": {"tier": r.choice(["front", "back"])}}
    if x < 0.95 or not allow_odd:
        op = r.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        e = {"key": r.choice(["app", "tier"]), "operator": op}
        if op in ("In", "NotIn"):
            e["values"] = r.sample(s.apps, min(2, len(s.apps))) if e["key"] == "app" else ["front"]
        return {"matchExpressions": [e]}
    return {} if x < 0.98 else None


def merge_keys(sel, keys, labels, op):
    """What the API server does with (mis)matchLabelKeys on creation."""
    if sel is None:
        return
    for k in keys:
        if k in labels:
            sel.setdefault("matchExpressions", []).append({"key": k, "operator": op, "values": [labels[k]]})


def f_spread(s):
    r = s.r
    if s.cat == "spread" and s.p(0.07):
        # the system's default constraints: a Service or a ReplicaSet selects the pod
        lab = s.pod["metadata"].get("labels", {})
        if lab:
            s.tag("default-spread")
            s.extra.append(
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": "svc", "namespace": "default", "uid": s.uid()},
                    "spec": {
                        "selector": {"app": lab["app"]},
                        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                    },
                }
            )
            if s.p(0.5):
                s.extra.append(
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "metadata": {"name": "rs", "namespace": "default", "uid": s.uid()},
                        "spec": {
                            "replicas": 3,
                            "selector": {"matchLabels": {"app": lab["app"], "version": "v1"}},
                            "template": {
                                "metadata": {"labels": {"app": lab["app"], "version": "v1"}},
                                "spec": {"containers": [{"name": "c", "image": "i"}]},
                            },
                        },
                    }
                )
                s.pod["metadata"]["ownerReferences"] = [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": s.uid(), "controller": True}
                ]
            return
    if s.p(0.3):
        for n in s.nodes:
            n["metadata"]["labels"]["rack"] = r.choice(["r1", "r2", "r3"])
    for n in s.nodes:
        if s.p(0.05):
            n["metadata"]["labels"].pop(r.choice([ZONE, HOST]), None)
            s.tag("missing-topology")
        elif s.p(0.01):
            n["metadata"]["labels"][ZONE] = ""
            s.tag("empty-topology-value")
    labels = s.pod["metadata"].get("labels", {})
    cons = []
    seen = set()
    for _ in range(r.choice([1, 1, 2, 3])):
        key = r.choice([ZONE, ZONE, HOST, HOST, "rack", REGION, "disk"])
        when = r.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"])
        if (key, when) in seen:
            continue
        seen.add((key, when))
        c = {"maxSkew": r.choice([1, 1, 1, 2, 3]), "topologyKey": key, "whenUnsatisfiable": when}
        sel = {"matchLabels": {"app": labels["app"]}} if labels.get("app") and s.p(0.6) else lsel(s)
        if sel is not None:
            c["labelSelector"] = sel
        else:
            s.tag("spread-nil-selector")
        if sel == {}:
            s.tag("spread-empty-selector")
        if when == "DoNotSchedule" and s.p(0.25):
            c["minDomains"] = r.randint(1, 5)
        if s.p(0.3):
            c["nodeAffinityPolicy"] = r.choice(["Honor", "Ignore"])
        if s.p(0.3):
            c["nodeTaintsPolicy"] = r.choice(["Honor", "Ignore"])
        if sel is not None and s.p(0.25):
            c["matchLabelKeys"] = r.sample(["version", "tier", "absent"], r.randint(1, 2))
            if s.p(0.8):
                merge_keys(c["labelSelector"], c["matchLabelKeys"], labels, "In")
            s.tag("spread-matchlabelkeys")
        cons.append(c)
    s.pod["spec"]["topologySpreadConstraints"] = cons
    # crowd some topologies with matching pods of the incoming pod's namespace
    if labels.get("app"):
        crowd = r.sample(s.nodes, max(1, round(len(s.nodes) * r.choice([0.3, 0.5, 0.8, 1.0]))))
        for n in crowd:
            for p in s.running():
                if p["spec"]["nodeName"] == n["metadata"]["name"] and s.p(0.6):
                    p["metadata"]["namespace"] = s.pod["metadata"]["namespace"] if s.p(0.95) else "default"
                    p["metadata"].setdefault("labels", {}).update({"app": labels["app"]})
                    if s.p(0.4):
                        p["metadata"]["labels"]["version"] = "v1"
                    if s.p(0.04):
                        p["metadata"]["deletionTimestamp"] = ts(T0 + timedelta(days=2))
                        s.tag("spread-terminating")
    if s.p(0.2) and "affinity" not in s.pod["spec"]:
        s.pod["spec"]["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
                }
            }
        }
    if s.p(0.2):
        for n in s.nodes:
            if s.p(0.3):
                n["spec"].setdefault("taints", []).append({"key": "dedicated", "value": "x", "effect": "NoSchedule"})


def pterm(s, owner_labels, sel=None, key=None):
    r = s.r
    if sel is None:
        sel = lsel(s)
    t = {"topologyKey": key or r.choice([ZONE, HOST, HOST, "disk", "rack"])}
    if sel is not None:
        t["labelSelector"] = json.loads(json.dumps(sel))
    else:
        s.tag("term-nil-selector")
    x = r.random()
    if x < 0.12:
        t["namespaces"] = r.sample(["default", "prod", "dev"], r.randint(1, 2))
    elif x < 0.3:
        y = r.random()
        if y < 0.25:
            t["namespaceSelector"] = {}
        elif y < 0.6:
            t["namespaceSelector"] = {"matchLabels": {"team": r.choice(["red", "blue"])}}
        elif y < 0.75:
            t["namespaceSelector"] = {
                "matchExpressions": [{"key": "team", "operator": "In", "values": ["red", "blue"]}]
            }
        else:
            # negative selectors: see interpodaffinity.mergeAffinityTermNamespacesIfNotEmpty
            t["namespaceSelector"] = {
                "matchExpressions": [
                    r.choice(
                        [
                            {"key": "team", "operator": "NotIn", "values": ["red"]},
                            {"key": "team", "operator": "DoesNotExist"},
                        ]
                    )
                ]
            }
            s.tag("nssel-negative")
        if s.p(0.2):
            t["namespaces"] = ["dev"]
    if sel is not None and s.p(0.15):
        if s.p(0.5):
            t["matchLabelKeys"] = ["version"]
            if s.p(0.85):
                merge_keys(t["labelSelector"], ["version"], owner_labels, "In")
        else:
            t["mismatchLabelKeys"] = ["version"]
            if s.p(0.85):
                merge_keys(t["labelSelector"], ["version"], owner_labels, "NotIn")
        s.tag("term-labelkeys")
    return t


def f_interpod(s):
    r = s.r
    s.nslabels = {"prod": {"team": "red"}, "dev": {"team": "blue"}}
    if s.p(0.3):
        s.nslabels["default"] = {"team": "red"}
    if s.p(0.4):
        for n in s.nodes:
            n["metadata"]["labels"]["rack"] = r.choice(["r1", "r2", "r3"])
    labels = s.pod["metadata"].setdefault("labels", {"app": s.apps[0]})
    aff = s.pod["spec"].setdefault("affinity", {})
    mode = r.choice(["anti", "anti", "sym", "sym", "aff", "both", "pref"])
    s.tag("ipa-" + mode)
    if mode in ("anti", "both"):
        aff.setdefault("podAntiAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = [
            pterm(
                s,
                labels,
                sel={"matchLabels": {"app": r.choice(s.apps)}} if s.p(0.7) else None,
                key=r.choice([HOST, HOST, HOST, ZONE]),
            )
            for _ in range(r.choice([1, 1, 2]))
        ]
    if mode in ("aff", "both"):
        aff.setdefault("podAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = [
            pterm(s, labels, key=r.choice([ZONE, ZONE, HOST, REGION])) for _ in range(r.choice([1, 1, 2]))
        ]
        if s.p(0.25):  # matches itself and nobody else
            labels["solo"] = "yes"
            aff["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = [
                {"topologyKey": r.choice([ZONE, HOST]), "labelSelector": {"matchLabels": {"solo": "yes"}}}
            ]
            s.tag("ipa-self")
    if mode == "pref" or s.p(0.5):
        for k in ("podAffinity", "podAntiAffinity"):
            if s.p(0.7):
                aff.setdefault(k, {})["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {"weight": r.choice([1, 10, 50, 100]), "podAffinityTerm": pterm(s, labels)}
                    for _ in range(r.randint(1, 3))
                ]
    # terms carried by running pods, towards the incoming one (symmetry) or each other
    frac = 0.45 if mode in ("sym", "both") else 0.15
    for p in s.running():
        pl = p["metadata"].get("labels", {})
        if s.p(frac):
            kind = r.random()
            sel = {"matchLabels": {"app": labels["app"]}} if s.p(0.6) else None
            a = p["spec"].setdefault("affinity", {})
            if kind < 0.55:
                a.setdefault("podAntiAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = [
                    pterm(s, pl, sel=sel, key=r.choice([HOST, HOST, HOST, ZONE]))
                ]
            elif kind < 0.7:
                a.setdefault("podAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = [
                    pterm(s, pl, sel=sel)
                ]
            elif kind < 0.85:
                a.setdefault("podAffinity", {})["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {"weight": r.choice([1, 30, 100]), "podAffinityTerm": pterm(s, pl, sel=sel)}
                ]
            else:
                a.setdefault("podAntiAffinity", {})["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {"weight": r.choice([1, 30, 100]), "podAffinityTerm": pterm(s, pl, sel=sel)}
                ]
    if not aff:
        del s.pod["spec"]["affinity"]


def f_nominated(s):
    r = s.r
    names = [n["metadata"]["name"] for n in s.nodes]
    for _ in range(r.randint(1, 5)):
        prio = r.choice(
            [s.P, s.P, min(s.P + 1, 2147483647), s.P - 1 if s.P > -2147483648 else s.P, s.low[0], 2000001000]
        )
        node = r.choice(names)
        if s.p(0.3):
            req = {"cpu": s.unit_c * r.choice([1, 2, 3]), "memory": s.unit_m}
        else:
            req = {"cpu": max(1, int(s.unit_c * r.choice([0.2, 0.5, 1]))), "memory": 64 * MI}
        p = s.mkpod("nominee", r.choice(["default", "prod"]), None, prio, s.pick_labels(), [s.container(req)])
        p["status"]["nominatedNodeName"] = node
        if s.p(0.15):
            p["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
            s.pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]
        if s.p(0.2):
            p["spec"]["affinity"] = {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "topologyKey": r.choice([HOST, ZONE]),
                            "labelSelector": {
                                "matchLabels": {"app": s.pod["metadata"].get("labels", {}).get("app", "web")}
                            },
                        }
                    ]
                }
            }
            s.tag("nominated-antiaffinity")
            if s.p(0.5):  # make InterPodAffinity take part for the incoming pod
                s.pod["spec"].setdefault("affinity", {}).setdefault("podAntiAffinity", {})[
                    "requiredDuringSchedulingIgnoredDuringExecution"
                ] = [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "nobody"}}}]
        x = r.random()
        if x < 0.06:
            p["spec"]["schedulerName"] = "other-scheduler"  # not in this scheduler's nominator
            s.tag("nominated-other-scheduler")
        elif x < 0.12:
            p["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
            s.tag("nominated-gated")
        elif x < 0.18:
            p["metadata"]["deletionTimestamp"] = ts(T0 + timedelta(days=2))
            s.tag("nominated-terminating")
        s.pods.append(p)
    if s.p(0.35):
        s.pod["status"]["nominatedNodeName"] = r.choice(names)
        s.tag("incoming-nominated")
        for p in s.running():
            if p["spec"]["nodeName"] == s.pod["status"]["nominatedNodeName"] and s.p(0.3):
                terminating(s, p)


def terminating(s, p, reason=None):
    r = s.r
    p["metadata"]["deletionTimestamp"] = ts(T0 + timedelta(days=2))
    p["metadata"]["deletionGracePeriodSeconds"] = 30
    conds = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]
    x = r.random()
    if x < 0.65:
        conds.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": reason or "PreemptionByScheduler",
                "message": "default-scheduler: preempting to accommodate a higher priority pod",
            }
        )
    elif x < 0.8:
        conds.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": r.choice(["EvictionByEvictionAPI", "DeletionByTaintManager", "TerminationByKubelet"]),
            }
        )
    elif x < 0.88:
        conds.append({"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"})
    p["status"]["conditions"] = conds


def f_eligibility(s):
    r = s.r
    x = r.random()
    if x < 0.22:
        s.pod["spec"]["preemptionPolicy"] = "Never"
        s.tag("never")
    if x > 0.12:
        names = [n["metadata"]["name"] for n in s.nodes]
        nom = r.choice(names) if s.p(0.93) else "no-such-node"
        s.pod["status"]["nominatedNodeName"] = nom
        s.tag("incoming-nominated")
        mine = [p for p in s.running() if p["spec"]["nodeName"] == nom]
        for p in r.sample(mine, min(len(mine), r.choice([0, 1, 1, 1, 2]))):
            terminating(s, p)
            if s.p(0.2):
                p["spec"]["priority"] = r.choice([s.P, min(s.P + 10, 2147483647)])
        if s.p(0.2):
            for p in mine:  # condition but no deletionTimestamp
                if s.p(0.5) and "deletionTimestamp" not in p["metadata"]:
                    p["status"]["conditions"] = [
                        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
                    ]
        if s.p(0.25):
            for n in s.nodes:
                if n["metadata"]["name"] == nom:  # made unresolvable
                    n["spec"]["taints"] = [{"key": "gone", "effect": "NoSchedule"}]
                    s.tag("nominated-unresolvable")
    for p in s.running():
        if s.p(0.03):
            terminating(s, p)


def f_volumes(s):
    r = s.r
    mode = r.choice(["rwop", "rwop", "limits", "limits", "affinity", "zone", "wffc", "missing", "inline"])
    s.tag("vol-" + mode)
    ns = s.pod["metadata"]["namespace"]

    def pvc(name, sc, mode_="ReadWriteOnce", vol=None, size="1Gi", ns_=ns, phase=None):
        o = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": ns_, "uid": s.uid(), "creationTimestamp": ts(T0)},
            "spec": {"accessModes": [mode_], "resources": {"requests": {"storage": size}}, "volumeMode": "Filesystem"},
            "status": {"phase": phase or ("Bound" if vol else "Pending")},
        }
        if sc is not None:
            o["spec"]["storageClassName"] = sc
        if vol:
            o["spec"]["volumeName"] = vol
            o["metadata"]["annotations"] = {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
            }
        s.extra.append(o)
        return o

    def pv(name, sc, driver="csi.example.com", claim=None, size="1Gi", labels=None, terms=None, mode_="ReadWriteOnce"):
        o = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "uid": s.uid(), "creationTimestamp": ts(T0)},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": [mode_],
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": sc,
                "volumeMode": "Filesystem",
                "csi": {"driver": driver, "volumeHandle": "h-" + name},
            },
            "status": {"phase": "Bound" if claim else "Available"},
        }
        if labels:
            o["metadata"]["labels"] = labels
        if terms:
            o["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        if claim:
            o["spec"]["claimRef"] = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim[0],
                "name": claim[1],
                "uid": claim[2],
            }
        s.extra.append(o)
        return o

    def sclass(name, wffc, prov="csi.example.com", topo=None):
        o = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "uid": s.uid(), "creationTimestamp": ts(T0)},
            "provisioner": prov,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "WaitForFirstConsumer" if wffc else "Immediate",
        }
        if topo:
            o["allowedTopologies"] = topo
        s.extra.append(o)

    def mount(pod, claim, name="v0"):
        pod["spec"].setdefault("volumes", []).append({"name": name, "persistentVolumeClaim": {"claimName": claim}})

    def bound(name, ns_=ns, mode_="ReadWriteOnce", **kw):
        c = pvc(name, "fast", mode_, vol="pv-%s-%s" % (ns_, name), ns_=ns_)
        pv("pv-%s-%s" % (ns_, name), "fast", claim=(ns_, name, c["metadata"]["uid"]), mode_=mode_, **kw)

    sclass("fast", False)
    if mode == "rwop":
        bound("data", mode_="ReadWriteOncePod")
        mount(s.pod, "data")
        run = [p for p in s.running()]
        k = r.choice([1, 1, 1, 2])
        for p in r.sample(run, min(len(run), k)):
            p["metadata"]["namespace"] = ns
            mount(p, "data")
        if k == 2:
            s.tag("rwop-two-users")
        if s.p(0.5):  # the same claim name in another namespace
            others = sorted({p["metadata"]["namespace"] for p in run} - {ns})
            if others:
                ns2 = r.choice(others)
                bound("data", ns_=ns2)
                for p in [p for p in run if p["metadata"]["namespace"] == ns2]:
                    if s.p(0.3):
                        mount(p, "data")
                s.tag("rwop-same-name-other-ns")
        if s.p(0.3):
            bound("data2", mode_="ReadWriteOncePod")
            mount(s.pod, "data2", "v1")
            if run:
                p = r.choice(run)
                p["metadata"]["namespace"] = ns
                mount(p, "data2", "v1")
    elif mode == "limits":
        i = 0
        for n in s.nodes:
            lim = r.choice([1, 2, 3])
            cn = {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": n["metadata"]["name"], "uid": s.uid()},
                "spec": {
                    "drivers": [
                        {"name": "csi.example.com", "nodeID": n["metadata"]["name"], "allocatable": {"count": lim}}
                    ]
                },
            }
            if s.p(0.1):
                del cn["spec"]["drivers"][0]["allocatable"]
            if s.p(0.95):
                s.extra.append(cn)
            mine = [p for p in s.running() if p["spec"]["nodeName"] == n["metadata"]["name"]]
            for p in r.sample(mine, min(len(mine), lim + r.choice([0, 0, -1]))):
                i += 1
                bound("vol%d" % i, ns_=p["metadata"]["namespace"])
                mount(p, "vol%d" % i)
                if s.p(0.2):  # shared by a second pod of the node
                    q = [x for x in mine if x["metadata"]["namespace"] == p["metadata"]["namespace"] and x is not p]
                    if q:
                        mount(r.choice(q), "vol%d" % i, "vs")
        if s.p(0.3):
            sclass("lazy", True)
            pvc("mine", "lazy")
        else:
            bound("mine")
        mount(s.pod, "mine")
        if s.p(0.3):
            bound("mine2")
            mount(s.pod, "mine2", "v1")
        if s.p(0.2) and s.nodes:
            n = r.choice(s.nodes)["metadata"]["name"]
            pv("pv-stray", "fast")
            s.extra.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "VolumeAttachment",
                    "metadata": {"name": "va-1", "uid": s.uid()},
                    "spec": {
                        "attacher": "csi.example.com",
                        "nodeName": n,
                        "source": {"persistentVolumeName": "pv-stray"},
                    },
                    "status": {"attached": True},
                }
            )
            s.tag("vol-attachment")
    elif mode == "affinity":
        names = r.sample([n["metadata"]["name"] for n in s.nodes], max(1, len(s.nodes) * 2 // 3))
        bound("data", terms=[{"matchExpressions": [{"key": HOST, "operator": "In", "values": names}]}])
        mount(s.pod, "data")
    elif mode == "zone":
        bound(
            "data",
            labels=r.choice(
                [{ZONE: "z1"}, {ZONE: "z1__z2", REGION: "r1"}, {"failure-domain.beta.kubernetes.io/zone": "z1"}]
            ),
        )
        mount(s.pod, "data")
        if s.p(0.2):
            for n in s.nodes:
                if s.p(0.3):
                    n["metadata"]["labels"].pop(ZONE, None)
                    if s.p(0.5):
                        n["metadata"]["labels"].pop(REGION, None)
    elif mode == "wffc":
        prov = r.choice(["csi.example.com", "kubernetes.io/no-provisioner"])
        topo = None
        if s.p(0.4):
            topo = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}]
        sclass("lazy", True, prov, topo)
        pvc("data", "lazy", size=r.choice(["1Gi", "5Gi"]))
        mount(s.pod, "data")
        if prov.endswith("no-provisioner") or s.p(0.4):
            for i, n in enumerate(s.nodes):
                if s.p(0.6):
                    pv(
                        "local-%d" % i,
                        "lazy",
                        size=r.choice(["1Gi", "2Gi", "10Gi"]),
                        terms=[
                            {"matchExpressions": [{"key": HOST, "operator": "In", "values": [n["metadata"]["name"]]}]}
                        ],
                    )
    elif mode == "missing":
        x = r.random()
        if x < 0.4:
            mount(s.pod, "absent")
        elif x < 0.7:
            pvc("data", "fast")  # unbound, immediate
            mount(s.pod, "data")
        else:
            c = pvc("data", "fast", vol="pv-lost", phase="Lost" if s.p(0.5) else None)
            mount(s.pod, "data")
    else:
        disk = {
            "name": "d",
            "iscsi": {"targetPortal": "10.0.0.9", "iqn": "iqn.example:1", "lun": 0, "readOnly": s.p(0.3)},
        }
        s.pod["spec"]["volumes"] = [disk]
        for p in s.running():
            if s.p(0.2):
                p["spec"]["volumes"] = [
                    {
                        "name": "d",
                        "iscsi": {
                            "targetPortal": "10.0.0.9",
                            "iqn": "iqn.example:%d" % r.randint(1, 2),
                            "lun": 0,
                            "readOnly": s.p(0.5),
                        },
                    }
                ]


def f_images(s):
    r = s.r
    pool = []
    for i in range(r.randint(3, 7)):
        base = "registry.example/%s/%s" % (r.choice(["team", "lib"]), "img%d" % i)
        pool.append((base, r.choice([5, 23, 50, 120, 300, 900, 1500, 4000]) * MI + r.randint(0, MI)))
    for n in s.nodes:
        imgs = []
        for base, size in pool:
            if s.p(0.5):
                names = ["%s@sha256:%064x" % (base, abs(hash_(base)) % (1 << 256))] if s.p(0.4) else []
                names.append(base + r.choice([":latest", ":v1", ":v1"]))
                imgs.append({"names": names, "sizeBytes": size if s.p(0.9) else size // 2})
        r.shuffle(imgs)
        n["status"]["images"] = imgs
    cs = []
    n = r.choice([1, 1, 2, 3])
    req = s.req
    for i in range(n):
        base = r.choice(pool)[0]
        img = r.choice(
            [
                base + ":v1",
                base + ":latest",
                base,
                "%s@sha256:%064x" % (base, abs(hash_(base)) % (1 << 256)),
                "unknown:1",
            ]
        )
        cs.append(s.container({k: max(1, v // n) for k, v in req.items()}, "c%d" % i, image=img))
    s.pod["spec"]["containers"] = cs
    if s.p(0.3):
        s.pod["spec"].setdefault("initContainers", []).append(s.container({}, "init", image=r.choice(pool)[0] + ":v1"))
    if s.p(0.2):
        s.pod["spec"].setdefault("volumes", []).append(
            {
                "name": "img",
                "image": {"reference": r.choice(pool)[0] + r.choice([":v1", ""]), "pullPolicy": "IfNotPresent"},
            }
        )
        s.tag("image-volume")


def hash_(x):
    h = 1469598103934665603
    for ch in x:
        h = ((h ^ ord(ch)) * 1099511628211) % (1 << 256)
    return h * (1 << 190) + h


FEATURES = {
    "resources": f_resources,
    "pdb": f_pdb,
    "priorities": f_priorities,
    "taints": f_taints,
    "affinity": f_affinity,
    "ports": f_ports,
    "spread": f_spread,
    "interpod": f_interpod,
    "nominated": f_nominated,
    "eligibility": f_eligibility,
    "volumes": f_volumes,
    "images": f_images,
}


def build(cat, seed, i):
    rng = random.Random("own/%s/%s/%s" % (cat, seed, i))
    s = Scenario(rng, cat, "%s-%s-%04d" % (cat, seed, i))
    r = rng
    small = False  # room enough everywhere: only the category's own constraint can fail
    if cat == "resources":
        s.base(roomy=0.3, fancy=s.p(0.75), pressure=r.choice(["cpu", "memory", "both", "both", "pods"]))
    elif cat in ("ports", "volumes"):
        small = s.p(0.6)
        s.base(tight=not small, roomy=0.3)
    elif cat in ("interpod", "spread"):
        small = s.p(0.65)
        s.base(tight=not small, roomy=0.3)
    elif cat == "images":
        s.base(roomy=0.8)
    elif cat == "mixed":
        s.base(tight=s.p(0.8), roomy=0.4, fancy=s.p(0.3))
    elif cat == "nominated":
        s.base(roomy=0.5)
    else:
        s.base(roomy=0.35)
    s.incoming(ns="default" if s.p(0.85) else "prod", share=0.1 if small else None)
    if cat == "pdb":
        f_pdb(s)
    else:
        s.add_pdbs(*((1, 4, 0.85) if s.p(0.75) else (0, 1, 0.3)))
    if cat == "mixed":
        feats = r.sample([f for f in FEATURES if f not in ("volumes",)], r.randint(3, 6))
        if s.p(0.15):
            feats.append("volumes")
        # eligibility last but one: it looks at running pods; images replaces the containers
        order = [
            "images",
            "resources",
            "priorities",
            "taints",
            "affinity",
            "ports",
            "spread",
            "interpod",
            "volumes",
            "nominated",
            "eligibility",
            "pdb",
        ]
        for f in sorted(feats, key=order.index):
            FEATURES[f](s)
            s.tag("f-" + f)
    elif cat != "pdb":
        FEATURES[cat](s)
    if cat in ("mixed", "affinity") and s.p(0.04):
        s.pod["spec"]["hostNetwork"], s.pod["spec"]["hostUsers"] = True, False
        for n in s.nodes:
            if s.p(0.6):
                n["status"]["declaredFeatures"] = ["UserNamespacesHostNetworkSupport"]
        s.tag("declared-features")
    return s.dump()
