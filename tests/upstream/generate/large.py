"""One large cluster."""

import random
from datetime import timedelta

from tests.upstream.generate.basic import GI, HOST, MI, REGION, T0, ZONE, Scenario, hash_

VARIANTS = ("resources", "mixed")


def large_cluster(nodes, per_node, variant, seed):
    r = random.Random("own/scale/%s/%s" % (variant, seed))
    s = Scenario(r, "scale", "scale-%s-%dx%d" % (variant, nodes, per_node))
    s.uniform, s.pressure = False, "cpu"
    s.P = 1000000
    apps = ["svc-%03d" % i for i in range(200)]
    nss = ["team-%02d" % i for i in range(30)]
    s.namespaces = ["default"] + nss
    s.nslabels = {n: {"team": n, "kind": r.choice(["red", "blue"])} for n in nss}
    prios = [None, 0, 0, 100, 100, 1000, 1000, 10000, 100000, 900000, 1000000, 2000001000]
    for i in range(nodes):
        name = "node-%05d" % i
        cpu, mem = r.choice([(16000, 64 * GI), (32000, 128 * GI), (32000, 128 * GI), (64000, 256 * GI)])
        s.mknode(
            name,
            cpu,
            mem,
            110,
            {
                HOST: name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                ZONE: "z%d" % (i % 9),
                REGION: "r1",
                "node.kubernetes.io/instance-type": "m%d" % (cpu // 1000),
            },
            eph=100 * GI,
        )
        # about 97% of the CPU requested, 30 pods a node (+-4)
        k = per_node + r.randint(-4, 4)
        w = [r.choice([1, 1, 2, 2, 3, 5]) for _ in range(k)]
        total = cpu * r.choice([0.94, 0.97, 0.99, 1.0])
        for x in w:
            c = max(10, int(total * x / sum(w)) // 10 * 10)
            m = max(32, int(mem * 0.8 * x / sum(w) / MI)) * MI
            app = r.choice(apps)
            labels = {"app": app, "pod-template-hash": "%08x" % (hash_(app) % (1 << 32))}
            pod = s.mkpod(
                app,
                nss[hash_(app) % len(nss)],
                name,
                r.choice(prios),
                labels,
                [s.container({"cpu": c, "memory": m}, image="registry.example/%s:v1" % app)],
                T0 + timedelta(seconds=r.randint(0, 30 * 86400)),
            )
            if variant == "mixed" and r.random() < 0.10:
                if r.random() < 0.5:
                    pod["spec"]["affinity"] = {
                        "podAntiAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": [
                                {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
                            ]
                        }
                    }
                else:
                    pod["spec"]["topologySpreadConstraints"] = [
                        {
                            "maxSkew": 5,
                            "topologyKey": ZONE,
                            "whenUnsatisfiable": "DoNotSchedule",
                            "labelSelector": {"matchLabels": {"app": app}},
                        }
                    ]
            s.pods.append(pod)
    for i in range(300):
        app = r.choice(apps)
        sel = (
            {"matchLabels": {"app": app}}
            if r.random() < 0.8
            else {"matchExpressions": [{"key": "app", "operator": "In", "values": r.sample(apps, 3)}]}
        )
        ns = nss[hash_(app) % len(nss)]
        s.mkpdb(ns, sel, r.choice([0, 0, 1, 2, 3]))
    app = apps[0]
    ns = nss[hash_(app) % len(nss)]
    s.pod = s.mkpod("incoming", ns, None, s.P, {"app": app}, [s.container({"cpu": 8000, "memory": 16 * GI})])
    s.pod["spec"]["preemptionPolicy"] = "PreemptLowerPriority"
    if variant == "mixed":
        s.pod["spec"]["affinity"] = {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
                ]
            }
        }
        s.pod["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": 20,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ]
    return s.dump()
